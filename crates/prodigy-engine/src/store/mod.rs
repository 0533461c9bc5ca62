//! Files below the home: every path, every write, every lock.
//!
//! The journal is the only truth; everything else below the home can be deleted
//! and rebuilt from it. All writing goes through this module, because a file that
//! is not synced, or whose directory is not, is gone after a power failure.

mod agent_runs;
mod beginning;
mod checkpoint;
mod edits;
mod error;
mod files;
#[cfg(test)]
pub(crate) mod fixture;
mod holder;
mod journal;
mod layout;
mod line;
mod lock;
mod place;
mod price_levels;
mod purge_record;
mod reader;
mod relocation;
mod repair;
mod replacement;
mod results;
mod salvage;
mod segment;
mod spending;
mod spool;
mod syncer;
mod tombstone;

pub use agent_runs::{AgentRun, forget_agent_run, store_stream_totals, stored_stream_totals};
pub use beginning::has_begun;
pub use checkpoint::{load_checkpoint, save_checkpoint};
pub use edits::{ItemEdits, read_edit, write_edit};
pub use error::Error;
pub use files::{
    create_dir, create_projection, open_projection, open_to_read, prepare_home, read_bounded,
    rename_projection, write_atomic, write_projection,
};
pub(crate) use files::{describe_refusal, move_to_backup, open_to_append, unused_name};
pub use holder::LockHolder;
pub use journal::{Durability, JournalRecovery, JournalWriter, TornTail};
pub use layout::{Layout, LogFile};
pub use lock::JobLock;
pub use place::JobLocation;
pub use price_levels::{note_price_level, price_level};
pub use purge_record::{PurgeKind, PurgeRecord, PurgedPart};
pub use reader::{JournalReader, durable_seq, follow_journal, read_last_seq};
pub use relocation::Relocation;
pub use repair::{
    JournalDamage, JournalHealth, JournalRepair, inspect_journal, repair_journal, set_views_aside,
};
pub use results::ResultsFile;
pub use segment::last_segment;
pub use spending::{DailySpend, SpendRecord, TodaySpend, list_days, read_day, utc_date};
pub use spool::{Spool, SpooledItem};
pub use syncer::SyncTicket;
pub use tombstone::{
    Tombstone, files_but_logs, has_files, refuse_removed, remove_files, remove_files_but_logs,
    remove_logs,
};
