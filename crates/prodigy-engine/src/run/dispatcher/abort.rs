//! The end of a run that cannot go on.

use prodigy_core::{
    event::NewEvent,
    job::{JobInput, RunOutcome},
};
use tokio::sync::mpsc::unbounded_channel;

use super::DecisionBatch;
use crate::run::{Dispatcher, Error, map::merge_queue::MergeMessage};

impl Dispatcher {
    /// Ends what is under way after an error.
    ///
    /// If the run was being stopped anyway, and git would not work, then the job is paused as it
    /// would have been: whatever was not done is done when it is resumed.
    pub(crate) async fn abort(&mut self, error: Error) -> Result<RunOutcome, Error> {
        let is_cut_off = matches!(error, Error::Git(_)) && self.is_stopping().await;
        let stop = self.stop_input().filter(|_| is_cut_off);
        // Nothing may go on running, for nobody decides any more what follows from it.
        self.parts.settings.shutdown.stop().request();
        let told = self.drain().await;
        let Some(stop) = stop else { return Err(error) };
        self.pause(told, stop).await?.ok_or(error)
    }

    /// Waits until nothing is under way; returns what was told meanwhile.
    async fn drain(&mut self) -> Vec<NewEvent> {
        // Who waits for a record to be safe is told by this that it never will be.
        self.waiting.clear();
        let mut inside = std::mem::replace(&mut self.parts.inside.1, unbounded_channel().1);
        let (parts, mut told) = (&mut self.parts, Vec::new());
        let over = async {
            while parts.busy {
                parts.busy = parts.ended.1.recv().await.is_none();
            }
            parts.agents.shutdown().await;
        };
        tokio::pin!(over);
        loop {
            tokio::select! {
                biased;
                Some(heard) = inside.recv() => told.push(heard.fact),
                () = &mut over => break,
            }
        }
        inside.close();
        while let Ok(heard) = inside.try_recv() {
            told.push(heard.fact);
        }
        told
    }

    /// Writes down what happened and that the job is paused.
    async fn pause(
        &mut self,
        told: Vec<NewEvent>,
        stop: JobInput,
    ) -> Result<Option<RunOutcome>, Error> {
        self.check_repo_guard()?;
        let mut facts: Vec<NewEvent> = Vec::new();
        for input in std::mem::take(&mut self.inputs) {
            if let JobInput::Inside(fact) = input {
                facts.push(fact);
            }
        }
        facts.extend(told);
        while let Ok(answer) = self.parts.merged.1.try_recv() {
            if let MergeMessage::Fact(fact) = answer {
                facts.push(fact);
            }
        }
        let mut batch = DecisionBatch::default();
        self.write(facts, &mut batch)?;
        self.handle_input(stop, &mut batch)?;
        self.commit_batch(batch).await
    }
}
