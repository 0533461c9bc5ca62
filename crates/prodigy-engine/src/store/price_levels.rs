//! The price levels of models, as the results of agents imply them: one file for all jobs of a
//! home.
//!
//! It is a shortcut. Without it the cost of an agent that ended without a result is unknown.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use prodigy_core::agent::PriceLevel;

use super::{Error, Layout, read_bounded, write_projection};

/// The largest file that is read.
const LIMIT: u64 = 256 * 1024;
/// The most models that are remembered; their names come from agents.
const MODELS: usize = 200;

/// Returns the price level of a model, if a result has implied one.
pub fn price_level(home: &Path, model: &str) -> Option<PriceLevel> {
    read(&file(home)).remove(model)
}

/// Updates the price level of a model with the level that one more result implies.
///
/// Jobs that do so at the same moment may lose one of the results, which matters little.
pub fn note_price_level(home: &Path, model: &str, newer: PriceLevel) -> Result<(), Error> {
    let path = file(home);
    let mut levels = read(&path);
    let level = levels.get(model).map_or(newer, |level| level.averaged_with(newer));
    if levels.len() >= MODELS && !levels.contains_key(model) {
        return Ok(());
    }
    levels.insert(model.to_owned(), level);
    let encode = |error: serde_json::Error| {
        let reason = error.to_string();
        Error::Encode { path: path.clone(), reason }
    };
    write_projection(&path, &serde_json::to_vec(&levels).map_err(encode)?)
}

fn file(home: &Path) -> PathBuf {
    Layout::spending_dir(home).join("price-levels.json")
}

fn read(path: &Path) -> BTreeMap<String, PriceLevel> {
    let text = read_bounded(path, LIMIT).ok().flatten().unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}
