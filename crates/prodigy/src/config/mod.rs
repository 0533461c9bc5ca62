//! Configuration: what holds for every job, from several places.
//!
//! Flags come before `PRODIGY_*` variables, those before `.prodigy/config.yml` in the
//! repository, that before the user's own `config.yml`, and that before the defaults.
//! Every value remembers where it comes from, and a file that says something unknown is
//! refused: a setting that is silently ignored is worse than none.

mod file;
mod home;
mod load;
mod retention;
mod setting;
mod size;

pub(crate) use home::repo_root;
pub(crate) use setting::{Config, Origin, Setting};
pub(crate) use size::show as show_size;
