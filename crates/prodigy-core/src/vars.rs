//! The variables a template or an expression can see.
//!
//! One tree of JSON values. The roots are the namespaces of the documentation
//! (`item`, `steps`, `env`, …) and, beside them, every captured name.
//!
//! A tree may lie over a shared one, so that a scope of its own for each agent
//! costs what is new in it and not a copy of everything that was there before.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The way to a value: `item.files[0].path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VarPath {
    /// The namespace or captured name.
    pub root: String,
    /// The way on from there.
    pub rest: Vec<PathSegment>,
}

/// One step of a [`VarPath`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSegment {
    /// `.name`
    Field(String),
    /// `[n]`
    Index(usize),
}

/// The variables of one moment of a job.
///
/// It reads, compares and is written as one flat tree, whatever it lies over.
#[derive(Clone, Debug, Default)]
pub struct Vars {
    /// The variables to look in when `roots` has none of that name.
    base: Option<Arc<Self>>,
    roots: Map<String, Value>,
}

/// Roots as they were at some moment; one that was not there has no value.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedRoots(Vec<(&'static str, Option<Value>)>);

impl Vars {
    /// Creates variables that see those of `base` without copying them.
    ///
    /// A variable that is set afterwards hides the base's variable of that name; the base
    /// itself never changes.
    pub fn with_base(base: Arc<Self>) -> Self {
        Self { base: Some(base), roots: Map::new() }
    }

    /// Sets a root.
    pub fn set(&mut self, root: impl Into<String>, value: impl Into<Value>) {
        self.roots.insert(root.into(), value.into());
    }

    /// Sets `root.field`, keeping the other fields of the root.
    ///
    /// A root that only the base has is copied first.
    pub fn set_field(&mut self, root: &str, field: &str, value: impl Into<Value>) {
        if !self.roots.contains_key(root)
            && let Some(Value::Object(fields)) = self.base.as_ref().and_then(|base| base.root(root))
        {
            self.roots.insert(root.to_owned(), Value::Object(fields.clone()));
        }
        if let Some(Value::Object(fields)) = self.roots.get_mut(root) {
            fields.insert(field.to_owned(), value.into());
        } else {
            let fields = Map::from_iter([(field.to_owned(), value.into())]);
            self.roots.insert(root.to_owned(), Value::Object(fields));
        }
    }

    /// Returns some roots as they are now, for [`Self::restore`].
    pub fn save(&self, roots: &[&'static str]) -> SavedRoots {
        SavedRoots(roots.iter().map(|root| (*root, self.roots.get(*root).cloned())).collect())
    }

    /// Sets roots to what they were when they were saved.
    pub fn restore(&mut self, saved: SavedRoots) {
        for (root, value) in saved.0 {
            match value {
                Some(value) => self.set(root, value),
                None => self.roots.retain(|name, _| name != root),
            }
        }
    }

    /// Returns a root.
    pub fn root(&self, root: &str) -> Option<&Value> {
        self.layers().find_map(|layer| layer.roots.get(root))
    }

    /// Returns the value at the end of a path.
    pub fn get(&self, path: &VarPath) -> Option<&Value> {
        let mut value = self.root(&path.root)?;
        for segment in &path.rest {
            value = match segment {
                PathSegment::Field(name) => value.get(name)?,
                PathSegment::Index(index) => value.get(index)?,
            };
        }
        Some(value)
    }

    /// Returns all roots, each once, in the order in which they were first set.
    pub fn roots(&self) -> impl Iterator<Item = (&String, &Value)> {
        let mut layers: Vec<&Self> = self.layers().collect();
        layers.reverse();
        layers.into_iter().flat_map(move |layer| {
            let is_new =
                |name: &str| layer.base.as_ref().is_none_or(|base| base.root(name).is_none());
            let names = layer.roots.keys().filter(move |name| is_new(name));
            names.filter_map(move |name| self.root(name).map(|value| (name, value)))
        })
    }

    /// Returns these variables and those they lie over, the uppermost first.
    fn layers(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |layer| layer.base.as_deref())
    }
}

impl PartialEq for Vars {
    fn eq(&self, other: &Self) -> bool {
        self.roots().count() == other.roots().count()
            && self.roots().all(|(name, value)| other.root(name) == Some(value))
    }
}

impl Serialize for Vars {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.roots())
    }
}

impl<'de> Deserialize<'de> for Vars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { base: None, roots: Map::deserialize(deserializer)? })
    }
}

impl std::fmt::Display for VarPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.root)?;
        for segment in &self.rest {
            match segment {
                PathSegment::Field(name) => write!(f, ".{name}")?,
                PathSegment::Index(index) => write!(f, "[{index}]")?,
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// A change of the variables, or a new scope.
    #[derive(Clone, Debug)]
    enum VarChange {
        Set(String, Value),
        SetField(String, String, Value),
        Scope,
    }

    fn change() -> impl Strategy<Value = VarChange> {
        let value = prop_oneof![
            Just(json!(1)),
            Just(json!("text")),
            Just(json!({"x": 1, "y": [1, 2]})),
            Just(Value::Null),
        ];
        prop_oneof![
            ("[abc]", value.clone()).prop_map(|(root, value)| VarChange::Set(root, value)),
            ("[abc]", "[xyz]", value)
                .prop_map(|(root, field, value)| VarChange::SetField(root, field, value)),
            Just(VarChange::Scope),
        ]
    }

    proptest! {
        #[test]
        fn layers_are_one_flat_tree(changes in prop::collection::vec(change(), 0..24)) {
            let (mut flat, mut layered) = (Vars::default(), Vars::default());
            for change in changes {
                match change {
                    VarChange::Set(root, value) => {
                        flat.set(root.as_str(), value.clone());
                        layered.set(root, value);
                    }
                    VarChange::SetField(root, field, value) => {
                        flat.set_field(&root, &field, value.clone());
                        layered.set_field(&root, &field, value);
                    }
                    VarChange::Scope => layered = Vars::with_base(Arc::new(layered)),
                }
            }
            prop_assert_eq!(&layered, &flat);
            let roots: Vec<_> = layered.roots().collect();
            prop_assert_eq!(roots, flat.roots().collect::<Vec<_>>());
            for root in ["a", "b", "c", "d"] {
                prop_assert_eq!(layered.root(root), flat.root(root));
                let path = VarPath { root: root.to_owned(), rest: vec![PathSegment::Field("y".to_owned()), PathSegment::Index(1)] };
                prop_assert_eq!(layered.get(&path), flat.get(&path));
            }
            let written = serde_json::to_string(&layered).unwrap();
            prop_assert_eq!(&written, &serde_json::to_string(&flat).unwrap());
            prop_assert_eq!(serde_json::from_str::<Vars>(&written).unwrap(), flat);
        }
    }

    #[test]
    fn a_scope_neither_copies_nor_changes_its_base() {
        let mut base = Vars::default();
        base.set("map", json!({"results": [1, 2, 3]}));
        base.set("env", json!({"HOME": "/home/me"}));
        let base = Arc::new(base);
        let mut scope = Vars::with_base(Arc::clone(&base));
        scope.set_field("env", "CI", "true");
        let copy = scope.clone();
        let same = |a: Option<&Value>, b: Option<&Value>| std::ptr::eq(a.unwrap(), b.unwrap());
        assert!(same(copy.root("map"), base.root("map")));
        assert_eq!(base.root("env"), Some(&json!({"HOME": "/home/me"})));
        insta::assert_snapshot!(serde_json::to_string(&copy).unwrap(), @r#"{"map":{"results":[1,2,3]},"env":{"HOME":"/home/me","CI":"true"}}"#);
    }

    #[test]
    fn variables_differ_where_a_hidden_value_would_be_the_same() {
        let mut base = Vars::default();
        base.set("a", 1);
        let mut scope = Vars::with_base(Arc::new(base.clone()));
        assert_eq!(scope, base);
        scope.set("a", 2);
        assert_ne!(scope, base);
        assert_ne!(base, scope);
        scope.set("a", 1);
        scope.set("b", 1);
        assert_ne!(base, scope);
    }
}
