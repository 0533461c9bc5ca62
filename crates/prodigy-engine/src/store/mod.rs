//! Files below the home: every path, every write, every lock.
//!
//! The journal is the only truth; everything else below the home can be deleted
//! and rebuilt from it. All writing goes through this module, because a file that
//! is not synced, or whose directory is not, is gone after a power failure.

mod agent_runs;
mod atomic_file;
pub mod audit;
mod daily_spend;
pub mod dlq;
mod error;
mod files;
#[cfg(test)]
pub(crate) mod fixture;
mod item_edits;
mod job_location;
mod job_lock;
mod journal;
mod layout;
mod lock_holder;
mod price_levels;
mod purge_record;
mod relocation;
mod results_file;
mod spool;
mod tombstone;

pub use agent_runs::{AgentRun, forget_agent_run, store_stream_totals, stored_stream_totals};
pub use daily_spend::{DailySpend, SpendRecord, TodaySpend, list_days, read_day, utc_date};
pub use error::Error;
pub use files::{
    create_dir, create_projection, open_projection, open_to_read, prepare_home, read_bounded,
    rename_projection, write_atomic, write_projection,
};
pub(crate) use files::{describe_refusal, move_to_backup, open_to_append, unused_name};
pub use item_edits::{ItemEdits, read_edit, write_edit};
pub use job_location::JobLocation;
pub use job_lock::JobLock;
pub use journal::{
    beginning::has_begun,
    load_checkpoint,
    reader::{JournalReader, durable_seq, follow_journal, read_last_seq},
    repair::{
        JournalDamage, JournalHealth, JournalRepair, inspect_journal, repair_journal,
        set_views_aside,
    },
    save_checkpoint,
    segment::last_segment,
    syncer::SyncTicket,
    writer::{Durability, JournalRecovery, JournalWriter, TornTail},
};
pub use layout::{Layout, LogFile};
pub use lock_holder::LockHolder;
pub use price_levels::{note_price_level, price_level};
pub use purge_record::{PurgeKind, PurgeRecord, PurgedPart};
pub use relocation::Relocation;
pub use results_file::ResultsFile;
pub use spool::{Spool, SpooledItem};
pub use tombstone::{
    Tombstone, files_but_logs, has_files, refuse_removed, remove_files, remove_files_but_logs,
    remove_logs,
};
