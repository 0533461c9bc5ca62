//! The variables a template or an expression can see.
//!
//! One tree of JSON values. The roots are the namespaces of the documentation
//! (`item`, `steps`, `env`, …) and, beside them, every captured name.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The way to a value: `item.files[0].path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VarPath {
    /// The namespace or captured name.
    pub root: String,
    /// The way on from there.
    pub rest: Vec<Segment>,
}

/// One step of a [`VarPath`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// `.name`
    Field(String),
    /// `[n]`
    Index(usize),
}

/// The variables of one moment of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Vars {
    roots: Map<String, Value>,
}

impl Vars {
    /// Sets a root.
    pub fn set(&mut self, root: impl Into<String>, value: impl Into<Value>) {
        self.roots.insert(root.into(), value.into());
    }

    /// Sets `root.field`, keeping the other fields of the root.
    pub fn set_field(&mut self, root: &str, field: &str, value: impl Into<Value>) {
        if let Some(Value::Object(fields)) = self.roots.get_mut(root) {
            fields.insert(field.to_owned(), value.into());
        } else {
            let fields = Map::from_iter([(field.to_owned(), value.into())]);
            self.roots.insert(root.to_owned(), Value::Object(fields));
        }
    }

    /// Returns a root.
    pub fn root(&self, root: &str) -> Option<&Value> {
        self.roots.get(root)
    }

    /// Returns the value at the end of a path.
    pub fn get(&self, path: &VarPath) -> Option<&Value> {
        let mut value = self.roots.get(&path.root)?;
        for segment in &path.rest {
            value = match segment {
                Segment::Field(name) => value.get(name)?,
                Segment::Index(index) => value.get(index)?,
            };
        }
        Some(value)
    }

    /// Returns all roots.
    pub fn roots(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.roots.iter()
    }
}

impl std::fmt::Display for VarPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.root)?;
        for segment in &self.rest {
            match segment {
                Segment::Field(name) => write!(f, ".{name}")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Returns a value as the text that a template inserts: strings as they are,
/// `null` as nothing, lists and mappings as compact JSON.
pub fn value_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
