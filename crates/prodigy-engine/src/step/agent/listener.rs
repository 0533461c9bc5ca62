//! Events for the job about an agent while it works.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use prodigy_core::{
    Timestamp,
    agent::{StreamEvent, StreamState},
    event::Event,
};

use crate::{
    process::{LineSplitter, ProcessOutcome, TerminationReason},
    step::{StepContext, output::ProcessLimits},
    store::store_stream_totals,
};

/// The least time between two records of what an agent is doing: it may use a tool a
/// thousand times a second, and nobody reads so fast.
const TOOLS_APART: Duration = Duration::from_secs(2);

/// The least change of how much of a limit is used that is worth a record.
const SHARES_APART: f64 = 0.01;

/// The least time that an agent has to end after its result: Claude Code itself gives what runs
/// in the background five seconds.
const LINGER: Duration = Duration::from_secs(7);

/// Listens to one run of an agent.
pub(crate) struct AgentListener<'a> {
    lines: LineSplitter,
    begun: Instant,
    /// The time that the agent may linger after its result.
    linger: Duration,
    /// When it gave the result after which it did nothing more.
    rests_since: Option<Instant>,
    /// The state of the stream so far; `None` if the agent does not print one.
    heard: Option<StreamState>,
    teller: AgentEventEmitter<'a>,
    /// The name of the run, in the books.
    run: &'a str,
    /// The number of bytes it printed.
    printed: u64,
}

impl<'a> AgentListener<'a> {
    /// Begins with a run that has said nothing yet.
    pub(crate) fn new(
        heard: Option<StreamState>,
        teller: AgentEventEmitter<'a>,
        run: &'a str,
        grace: Duration,
    ) -> Self {
        let (begun, linger) = (Instant::now(), grace.max(LINGER));
        let (lines, rests_since, printed) = (LineSplitter::default(), None, 0);
        Self { lines, begun, linger, rests_since, heard, teller, run, printed }
    }

    /// Hears the next piece of what the agent prints, and returns whether that was its last word.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> ControlFlow<Duration> {
        let Self { lines, heard, teller, run, printed, .. } = self;
        let Some(heard) = heard else { return ControlFlow::Continue(()) };
        let mut is_more = false;
        lines.feed(piece, |line| {
            for notice in heard.handle_line(line) {
                is_more |= matches!(notice, StreamEvent::Usage(_));
                teller.handle(notice);
            }
        });
        *printed = printed.saturating_add(piece.len() as u64);
        let StepContext { tools, identity, .. } = teller.workplace;
        // What does not fit into the transcript could not be read there if prodigy were killed.
        if is_more && *printed > tools.log_cap {
            store_stream_totals(&tools.layout, &identity.job, run, &heard.totals()).ok();
        }
        if !heard.is_idle() {
            self.rests_since = None;
            return ControlFlow::Continue(());
        }
        self.rests_since.get_or_insert_with(Instant::now);
        ControlFlow::Break(self.linger)
    }

    /// Returns whether a process that was ended had given the agent's result before: what it
    /// came to is then what the result says.
    ///
    /// One that is asked to end may print a result because of that, which is none in time.
    pub(crate) fn ended_after_result(
        &self,
        ended: &ProcessOutcome,
        limits: &ProcessLimits,
    ) -> bool {
        let (Some(rests_since), Some(heard)) = (self.rests_since, &self.heard) else {
            return false;
        };
        match ended.ended_by {
            Some(TerminationReason::Listener) => true,
            Some(TerminationReason::Timeout) => {
                limits.timeout.is_none_or(|limit| rests_since - self.begun < limit)
            }
            Some(TerminationReason::Idle) => heard.has_answered(),
            Some(TerminationReason::Stop) | None => false,
        }
    }

    /// Returns what the stream has told, now that it is over.
    pub(crate) fn finish(self) -> Option<StreamState> {
        let Self { mut lines, mut heard, mut teller, .. } = self;
        if let Some(heard) = &mut heard {
            lines.finish(|line| {
                heard.handle_line(line).into_iter().for_each(|it| teller.handle(it));
            });
        }
        teller.finish();
        heard
    }
}

/// Tells the job what one run of an agent does.
pub(crate) struct AgentEventEmitter<'a> {
    workplace: &'a StepContext,
    step: &'a str,
    agent: &'a str,
    /// Set if it resumes an earlier conversation.
    resumed: bool,
    is_begun: bool,
    /// The tool that it used last, if that was not told.
    tool: Option<(String, String)>,
    uses: u32,
    told_at: Option<Instant>,
    share: f64,
}

impl<'a> AgentEventEmitter<'a> {
    /// Begins with a run that has said nothing yet.
    pub(crate) fn new(
        workplace: &'a StepContext,
        step: &'a str,
        agent: &'a str,
        resumed: bool,
    ) -> Self {
        Self {
            workplace,
            step,
            agent,
            resumed,
            is_begun: false,
            tool: None,
            uses: 0,
            told_at: None,
            share: 0.0,
        }
    }

    /// Takes notice of something in the agent's stream.
    pub(crate) fn handle(&mut self, notice: StreamEvent) {
        match notice {
            StreamEvent::Session { id, model, .. } => self.begin(id, model),
            StreamEvent::Tool { name, about } => {
                self.uses = self.uses.saturating_add(1);
                self.tool = Some((name, about));
                if self.told_at.is_none_or(|at| at.elapsed() >= TOOLS_APART) {
                    self.emit_tool();
                }
            }
            StreamEvent::Utilization { window, share, resets_at } => {
                self.emit_quota_warning(window, share, resets_at);
            }
            // The transcript keeps what it said, and the report what it came to.
            StreamEvent::Spoke { .. }
            | StreamEvent::ToolFailed { .. }
            | StreamEvent::Usage(_)
            | StreamEvent::Retrying { .. }
            | StreamEvent::Limit(_)
            | StreamEvent::Ended => {}
        }
    }

    /// Tells what is left to tell.
    pub(crate) fn finish(mut self) {
        self.emit_tool();
    }

    /// Tells that the agent began; one that speaks of it again is the same.
    fn begin(&mut self, session_id: String, model: Option<String>) {
        if std::mem::replace(&mut self.is_begun, true) {
            return;
        }
        let (step, agent) = (self.step.to_owned(), self.agent.to_owned());
        let resumed = self.resumed;
        self.workplace.emit(Event::AgentSessionStarted { step, agent, session_id, model, resumed });
    }

    fn emit_tool(&mut self) {
        let Some((tool, about)) = self.tool.take() else { return };
        let (step, uses) = (self.step.to_owned(), std::mem::take(&mut self.uses));
        self.told_at = Some(Instant::now());
        self.workplace.emit(Event::AgentToolUsed { step, tool, about, uses });
    }

    /// Tells how much of a limit is used, if that is news.
    fn emit_quota_warning(&mut self, window: String, share: f64, resets_at: Option<Timestamp>) {
        if !share.is_finite() || (share - self.share).abs() < SHARES_APART {
            return;
        }
        self.share = share;
        let window = Some(window);
        self.workplace.tools.emit(Event::QuotaWarned { share, window, resets_at }.into());
    }
}
