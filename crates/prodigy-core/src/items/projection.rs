//! Reading out of an item only what expressions ask for.

use std::{collections::BTreeMap, fmt};

use serde::de::{Deserialize as _, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::vars::{PathSegment, VarPath, Vars};

/// The parts of an item that are wanted.
#[derive(Debug, Default)]
pub(crate) struct FieldProjection {
    whole: bool,
    fields: BTreeMap<String, Self>,
    indexes: BTreeMap<usize, Self>,
}

/// Wants nothing.
const NOTHING: &FieldProjection =
    &FieldProjection { whole: false, fields: BTreeMap::new(), indexes: BTreeMap::new() };

impl FieldProjection {
    /// Wants what some variables lead to.
    pub(crate) fn for_paths<'p>(paths: impl IntoIterator<Item = &'p VarPath>) -> Self {
        let mut wanted = Self::default();
        for path in paths {
            let mut place = &mut wanted;
            for segment in &path.rest {
                place = match segment {
                    PathSegment::Field(name) => place.fields.entry(name.clone()).or_default(),
                    PathSegment::Index(index) => place.indexes.entry(*index).or_default(),
                };
            }
            place.whole = true;
        }
        wanted
    }

    /// Reads an item and returns what expressions see of it.
    ///
    /// All of the item is checked: a chosen item must be readable as a value later on.
    pub(crate) fn read_vars(&self, item: &str) -> serde_json::Result<Vars> {
        let mut reader = serde_json::Deserializer::from_str(item);
        let mut vars = Vars::default();
        vars.set("item", self.deserialize(&mut reader)?);
        Ok(vars)
    }
}

impl<'de> DeserializeSeed<'de> for &FieldProjection {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.whole {
            Value::deserialize(deserializer)
        } else {
            deserializer.deserialize_any(self)
        }
    }
}

/// Nobody asked for a scalar itself, or it would have been wanted as a whole; so it is `null`.
impl<'de> Visitor<'de> for &FieldProjection {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let end = self.indexes.keys().next_back().map_or(0, |last| last.saturating_add(1));
        let mut values = Vec::new();
        let mut index = 0;
        while let Some(value) =
            list.next_element_seed(self.indexes.get(&index).unwrap_or(NOTHING))?
        {
            if index < end {
                values.push(value);
            }
            index += 1;
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(field) = map.next_key_seed(FieldLookup(self))? {
            match field {
                Some((name, wanted)) => {
                    fields.insert(name.clone(), map.next_value_seed(wanted)?);
                }
                None => {
                    map.next_value_seed(NOTHING)?;
                }
            }
        }
        Ok(Value::Object(fields))
    }
}

/// Looks a name up without making a copy of it.
struct FieldLookup<'w>(&'w FieldProjection);

impl<'de, 'w> DeserializeSeed<'de> for FieldLookup<'w> {
    type Value = Option<(&'w String, &'w FieldProjection)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'w> Visitor<'_> for FieldLookup<'w> {
    type Value = Option<(&'w String, &'w FieldProjection)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.fields.get_key_value(name))
    }
}
