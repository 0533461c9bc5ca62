//! The world that a job runs in: processes, git, files, time.
//!
//! `store`, `git`, `agent` and `process` do not know each other's insides nor
//! `run`; `step` is the one step executor, `store` keeps journals, dead letters and the audit
//! trail, `governance` finds the policy that decides, `trust` the content that needs the user's
//! trust, and `run` owns the job.

pub mod agent;
pub mod clock;
pub mod git;
pub mod governance;
pub mod identity;
pub mod process;
pub mod queue;
pub mod root_dir;
pub mod run;
pub mod sandbox;
pub mod step;
pub mod store;
pub mod trust;
