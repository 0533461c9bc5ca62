//! Trust in what a repository brings: programs and permissions hold only once the user trusted that
//! very content.
//!
//! Content is trusted by its hash, which is kept in the user's configuration directory, for one
//! repository: a program that the content names by a relative path is another one elsewhere.

mod content;
mod gate;
mod store;

pub(crate) use self::{
    content::{ContentFile, ContentSource, RepoContent},
    gate::{announce, lines, note_untrusted, refuse_commands, require_trust, trusted_for},
    store::{forget, is_trusted, remember},
};

/// The variable that trusts content by its hash, for machines that nobody types at.
pub(crate) const VARIABLE: &str = "PRODIGY_TRUST";
