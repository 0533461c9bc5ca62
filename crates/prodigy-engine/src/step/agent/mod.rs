//! A prompt for an agent: from the question to what came of it.

pub(crate) mod accounting;
pub(crate) mod answer;
pub(crate) mod listener;
pub(crate) mod previous_failures;
pub(crate) mod session;

use std::path::Path;

use answer::WorktreeBaseline;
use listener::{AgentEventEmitter, AgentListener};
use prodigy_core::{
    agent::{QuotaKind, QuotaLimit, StreamState},
    event::Event,
    failure::{Failure, ReasonCode},
    job::SuspensionCause,
    policy::ItemBudget,
    vars::Vars,
    workflow::{AgentKind, AgentOptions, Step},
};
use session::AgentSession;

use super::{
    StepContext,
    action::{
        StepAttempt, apply_result_file, prepare_launch, result_file_reason, template_failure,
    },
    launch::ConfinedAgent,
    output::{ActionFailure, ActionOutput, ProcessLimits, file_failure, process_failure},
    runner::cancelled_failure,
};
use crate::{
    agent::{Agent, AgentExit, AgentReport, AgentRequest},
    clock,
    process::{Launch, ProcessOutcome, TerminationReason},
    store::AgentRun,
    trust,
};

/// The prompt for an agent, with its options.
#[derive(Clone, Copy)]
pub(crate) struct AgentPrompt<'a> {
    /// The agent's name.
    pub(crate) agent: &'a str,
    /// The prompt, with every value filled in.
    pub(crate) prompt: &'a str,
    /// The options of the step.
    pub(crate) options: &'a AgentOptions,
}

/// A question on its way to an agent.
pub(crate) struct AgentCall<'a> {
    pub(crate) workplace: &'a StepContext,
    step: &'a Step,
    pub(crate) which: StepAttempt<'a>,
    pub(crate) name: &'a str,
    pub(crate) agent: &'a dyn Agent,
    /// The name of this run of the agent, in the books.
    pub(crate) run_id: String,
    options: AgentOptions,
    prompt: String,
    system_prompt: Option<String>,
}

/// Gives a prompt to an agent.
pub(crate) async fn run_agent(
    workplace: &StepContext,
    step: &Step,
    vars: &Vars,
    which: StepAttempt<'_>,
    question: AgentPrompt<'_>,
) -> Result<ActionOutput, Box<ActionFailure>> {
    if let Some(cut_off) = workplace.agent_start_blocked() {
        workplace.interruption.set(cut_off);
        return Err(ActionFailure::without_output(cancelled_failure()));
    }
    let mut asking = AgentCall::new(workplace, step, vars, which, question)
        .map_err(ActionFailure::without_output)?;
    let mut launch =
        prepare_launch(workplace, step, vars, which).map_err(ActionFailure::without_output)?;
    if workplace.tools.sandbox.is_some() {
        // Without it claude skips no permissions for root.
        launch.env.push(("IS_SANDBOX".into(), "1".into()));
    }
    let conversation =
        AgentSession::open(workplace, asking.agent, which.path(), &launch.cwd, &launch.env);
    asking.add_history(&conversation);
    let scratch = tempfile::tempdir_in(workplace.temp_dir()).map_err(|error| {
        let message = format!("cannot make a temporary directory: {error}");
        ActionFailure::without_output(file_failure(&error, &message))
    })?;
    let before = WorktreeBaseline::capture(workplace, which.action);
    let heard = asking.prepare_launch(&mut launch, &conversation, scratch.path())?;
    let limits = ProcessLimits { timeout: launch.timeout, idle: launch.idle_timeout };
    let (cwd, transcript) = (launch.cwd.clone(), launch.stream);
    let resumed = conversation.session().resume;
    let run = asking.new_run(&conversation, heard.as_ref());
    let teller = AgentEventEmitter::new(workplace, which.path(), asking.name, resumed);
    let mut ear = AgentListener::new(heard, teller, &run.id, launch.grace);
    let confined = asking.confined(&run);
    let listened = workplace.launch_agent(launch, confined, &mut |piece| ear.feed(piece)).await;
    let listened = listened.map(|(slot, ended)| {
        let has_lingered = ear.ended_after_result(&ended, &limits);
        (slot, if has_lingered { ended.into_clean_exit() } else { ended })
    });
    let heard = ear.finish();
    let (slot, ended) = match listened {
        Ok(ended) => ended,
        Err(lost) => {
            if let Some(heard) = &heard {
                let cost = asking.cost(Some(heard), None);
                asking.emit_stream_usage(heard, cost);
                conversation.close_interrupted(heard, cost.usd);
            }
            return Err(lost);
        }
    };
    let mut report = asking.agent.evaluate(&AgentExit {
        ended: &ended,
        heard: heard.as_ref(),
        cwd: &cwd,
        worktree: workplace.tree.path(),
        wants_structured: asking.options.output_schema.is_some(),
        now: clock::now(),
    });
    let mut output =
        ActionOutput { transcript, agent: true, ..ActionOutput::from_process(slot, &ended) };
    output.instead = (!report.is_printed).then(|| report.output.clone());
    let cut_off = interruption_failure(&ended, &output, &limits).or_else(|| report.failure.clone());
    let failure = cut_off.or_else(|| asking.fault(step, &before, &report, &mut output));
    let named = failure.as_ref().and_then(|failure| asking.named_limit(failure));
    report.limit = report.limit.or(named);
    let failure = failure.map(|failure| apply_result_file(workplace, which.path(), failure));
    let cost = asking.cost(heard.as_ref(), Some(&ended));
    conversation.close(&report, cost.usd, failure.as_ref());
    asking.emit_outcome_usage(&report, cost, failure.as_ref());
    if let Some(limit) = report.limit {
        before.note_changes(workplace, which.action);
        workplace.interruption.set(SuspensionCause::Limit(asking.with_access_hint(limit)));
        return Err(ActionFailure::from_process(cancelled_failure(), output, &ended.status));
    }
    match failure {
        None => Ok(output),
        Some(failure) => Err(ActionFailure::from_process(failure, output, &ended.status)),
    }
}

impl<'a> AgentCall<'a> {
    fn new(
        workplace: &'a StepContext,
        step: &'a Step,
        vars: &Vars,
        which: StepAttempt<'a>,
        question: AgentPrompt<'a>,
    ) -> Result<Self, Failure> {
        let AgentPrompt { agent: name, prompt, options } = question;
        let Some(agent) = workplace.tools.agents.get(name) else {
            let message = format!("no agent named `{name}` is configured");
            return Err(Failure::new(ReasonCode::SpawnFailed, message));
        };
        let options =
            agent.options().map_or_else(|| options.clone(), |own| options.with_defaults(own));
        let options = step.with_commit_rules(agent.kind(), options);
        let system_prompt = options.system_prompt.as_ref().map(|text| text.render(vars));
        let system_prompt = system_prompt.transpose().map_err(|error| template_failure(&error))?;
        let prompt = prompt.to_owned();
        let agent = agent.as_ref();
        let run_id = accounting::new_run_id();
        Ok(Self { workplace, step, which, name, agent, run_id, options, prompt, system_prompt })
    }

    /// Adds what the agent should know of earlier tries.
    fn add_history(&mut self, conversation: &AgentSession) {
        if !conversation.is_resumable() {
            return;
        }
        // A session that goes on knows what a command stands for, so its name is enough; and
        // claude hears nothing new in a system prompt then.
        if let Some(cut_off) = conversation.resume_notice() {
            self.prompt = format!("{cut_off}\n\n{}", self.prompt);
            return;
        }
        let Some(failed) = self.workplace.past.prompt_text(self.which.path()) else { return };
        // The rest of a command is its argument, so what is said besides has another place.
        if self.prompt.trim_start().starts_with('/') {
            let own = self.system_prompt.take().into_iter();
            self.system_prompt = Some(own.chain([failed]).collect::<Vec<_>>().join("\n\n"));
        } else {
            self.prompt = format!("{}\n\n{failed}", self.prompt);
        }
    }

    /// Puts the process of the agent into a launch, and returns whoever listens to it.
    fn prepare_launch(
        &self,
        launch: &mut Launch,
        conversation: &AgentSession,
        scratch: &Path,
    ) -> Result<Option<StreamState>, Box<ActionFailure>> {
        let allowance = self.workplace.allowance.map(|it| it.with_spend(self.workplace.spent()));
        let left = allowance.map(ItemBudget::remaining).transpose();
        let left = left.map_err(|message| {
            ActionFailure::without_output(Failure::new(ReasonCode::BudgetExceeded, message))
        })?;
        let is_untrusted = self.ignores_settings()?;
        let asked = self.agent.launch(&AgentRequest {
            prompt: &self.prompt,
            program: &self.workplace.tools.program,
            step: self.which.path(),
            // An item that is tried again begins its steps anew, and this is not their first try.
            attempt: self.which.attempt + self.workplace.attempt().saturating_sub(1),
            item: self.workplace.identity.item_name(),
            definition: self.step,
            state: &self.workplace.tools.state,
            options: &self.options,
            system_prompt: self.system_prompt.as_deref(),
            session: conversation.session(),
            budget_usd: left,
            cwd: &launch.cwd,
            worktree: self.workplace.tree.path(),
            scratch,
            env: &launch.env,
            is_confined: self.workplace.tools.sandbox.is_some(),
            is_untrusted,
        });
        let asked = asked.map_err(ActionFailure::without_output)?;
        launch.argv = asked.argv;
        launch.stdin = asked.stdin;
        launch.env.extend(asked.env);
        launch.stream = asked.dialect.is_some();
        Ok(asked.dialect.map(|dialect| conversation.stream_state(dialect)))
    }

    /// Returns whether the agent runs without the settings of the worktree, which the user does not
    /// trust. A file that the user was not told of when the run began was changed by the job: that
    /// is worth a warning.
    fn ignores_settings(&self) -> Result<bool, Box<ActionFailure>> {
        if self.agent.kind() != AgentKind::Claude {
            return Ok(false);
        }
        let worktree = self.workplace.tree.path();
        let trusted = &self.workplace.tools.trusted;
        let untrusted = trusted.untrusted_claude_files(worktree);
        if untrusted.is_empty() {
            return Ok(false);
        }
        let names: Vec<_> = untrusted.iter().map(|file| format!("`{}`", file.path)).collect();
        let names = names.join(", ");
        if trust::is_command(&self.prompt, worktree) {
            let message = format!(
                "the command of the prompt is left out with {names}, which you have not trusted; \
                 `prodigy trust` trusts the content that is committed"
            );
            return Err(ActionFailure::without_output(Failure::new(
                ReasonCode::PermissionDenied,
                message,
            )));
        }
        if !untrusted.iter().all(|file| trusted.is_announced(file)) {
            self.workplace.emit(Event::AgentWarned {
                step: self.which.path().to_owned(),
                agent: self.name.to_owned(),
                message: format!("ran without {names}, which you have not trusted"),
            });
        }
        Ok(true)
    }

    /// Returns the agent as the sandbox needs to know it.
    fn confined<'r>(&'r self, run: &'r AgentRun) -> ConfinedAgent<'r> {
        let is_read_only = self.agent.is_read_only(&self.options);
        ConfinedAgent { agent: self.agent, step: self.which.path(), is_read_only, run }
    }

    /// Returns what is wrong with the work of an agent that ended well, and keeps its answer.
    fn fault(
        &self,
        step: &Step,
        before: &WorktreeBaseline,
        report: &AgentReport,
        output: &mut ActionOutput,
    ) -> Option<Failure> {
        let schema = self.options.output_schema.as_ref().filter(|_| report.limit.is_none());
        let answer = schema.map(|schema| {
            let value = answer::answer_data(self.workplace, report, output)?;
            answer::validate_answer(&value, schema)
        });
        if self.options.is_judge
            && let Some(verdict) = &report.structured
        {
            output.instead = Some(verdict.to_string());
        }
        match answer.transpose() {
            Ok(Some(answer)) => (output.instead, output.is_data) = (Some(answer), true),
            Ok(None) => {}
            Err(failure) => return Some(output.failure(failure.kind, failure.message)),
        }
        self.denied(step, before, report).map(|it| output.failure(it.kind, it.message))
    }

    /// Returns the failure of an agent that was not allowed what it needed and did nothing. One
    /// that did something all the same is only worth a warning.
    fn denied(
        &self,
        step: &Step,
        before: &WorktreeBaseline,
        report: &AgentReport,
    ) -> Option<Failure> {
        let is_confined = self.workplace.tools.sandbox.is_some();
        let message = answer::denied_tools_message(&report.denied, self.agent.kind(), is_confined)?;
        let is_needed = answer::expects_change(step, self.which.path());
        if is_needed && before.is_unchanged(self.workplace) {
            let message = format!("the agent changed nothing: {message}");
            return Some(Failure::new(ReasonCode::PermissionDenied, message));
        }
        self.workplace.emit(Event::AgentWarned {
            step: self.which.path().to_owned(),
            agent: self.name.to_owned(),
            message,
        });
        None
    }

    /// Returns the limit that a program names in its result file. Agents that prodigy knows say
    /// it in words of their own, and what their models write is not about the account.
    fn named_limit(&self, failure: &Failure) -> Option<QuotaLimit> {
        let is_program = self.agent.kind() == AgentKind::Command;
        let named = is_program
            .then(|| result_file_reason(self.workplace, self.which.path(), failure))
            .flatten();
        match named {
            Some(Ok(ReasonCode::QuotaExhausted)) => {
                Some(QuotaLimit::without_reset(&failure.message))
            }
            Some(Ok(ReasonCode::AuthFailed)) => Some(QuotaLimit::no_access(&failure.message)),
            Some(Ok(_) | Err(_)) | None => None,
        }
    }

    /// Adds to an account that cannot be used whose it is, and the way out.
    fn with_access_hint(&self, limit: QuotaLimit) -> QuotaLimit {
        let message = match limit.kind {
            QuotaKind::Usage | QuotaKind::Credits | QuotaKind::UnknownCost => return limit,
            QuotaKind::Access => format!(
                "agent `{}` has no access to its account: {}; {}",
                self.name,
                limit.message,
                self.agent.access_hint()
            ),
        };
        QuotaLimit { message, ..limit }
    }
}

/// Returns the failure of an agent that was ended from outside.
///
/// That explains more than what it managed to say before it. One that was ended for what it
/// said has said why.
fn interruption_failure(
    ended: &ProcessOutcome,
    output: &ActionOutput,
    limits: &ProcessLimits,
) -> Option<Failure> {
    match ended.ended_by {
        Some(TerminationReason::Timeout | TerminationReason::Idle | TerminationReason::Stop) => {
            process_failure(ended, output, limits)
        }
        Some(TerminationReason::Listener) | None => None,
    }
}
