//! Configuration: what holds for every job, from several places.
//!
//! Flags come before `PRODIGY_*` variables, those before `.prodigy/config.yml` in the
//! repository, that before the user's own `config.yml`, and that before the defaults.
//! Every value remembers where it comes from, and a file that says something unknown is
//! refused: a setting that is silently ignored is worse than none. What the file of a repository
//! says about programs and permissions holds only once the user trusted that content.

mod agent_restriction;
mod byte_size;
mod file;
mod home;
mod load;
mod retention;
mod setting;
mod trust_claims;

pub(crate) use byte_size::show as show_size;
pub(crate) use home::{repo_root, user_directory};
pub(crate) use setting::{Config, ConfigOrigin, ConfigValue};
pub(crate) use trust_claims::trust_claims;
