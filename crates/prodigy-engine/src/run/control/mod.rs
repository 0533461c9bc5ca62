//! Actions of people on a job that is not running: edit dead letters, check effects, repair.

pub(crate) mod dead_letter_editor;
pub(crate) mod effect_check;
pub mod lost_end;
pub mod shutdown;

pub use dead_letter_editor::{
    AuditSink, DeadLetterAction, DeadLetterEditor, EditorError, current_item_data,
};
