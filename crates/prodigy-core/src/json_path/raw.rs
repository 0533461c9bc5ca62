//! The parts of a document, as slices of its text.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, value::RawValue};

use super::Error;

/// Returns whether a part is a list.
pub(super) fn is_list(part: &RawValue) -> bool {
    part.get().starts_with('[')
}

/// Returns whether a part is an object.
fn is_object(part: &RawValue) -> bool {
    part.get().starts_with('{')
}

/// Returns a part as a value.
pub(super) fn value(part: &RawValue) -> Result<Value, Error> {
    Ok(serde_json::from_str(part.get())?)
}

/// Returns the values of a list or an object, in order; other values have none.
pub(super) fn children(part: &RawValue) -> Result<Vec<&RawValue>, Error> {
    if is_list(part) {
        Ok(serde_json::from_str(part.get())?)
    } else if is_object(part) {
        let mut reader = serde_json::Deserializer::from_str(part.get());
        Ok(reader.deserialize_map(ObjectValues)?)
    } else {
        Ok(Vec::new())
    }
}

/// Returns a field of an object; other values have none.
pub(super) fn member<'a>(part: &'a RawValue, name: &str) -> Result<Option<&'a RawValue>, Error> {
    if !is_object(part) {
        return Ok(None);
    }
    let mut reader = serde_json::Deserializer::from_str(part.get());
    Ok(reader.deserialize_map(ObjectMember(name))?)
}

/// Takes the values of an object.
struct ObjectValues;

impl<'de> Visitor<'de> for ObjectValues {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some((_, value)) = map.next_entry::<IgnoredAny, _>()? {
            values.push(value);
        }
        Ok(values)
    }
}

/// Takes one value of an object and passes over the others.
struct ObjectMember<'n>(&'n str);

impl<'de> Visitor<'de> for ObjectMember<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(wanted) = map.next_key_seed(NameMatcher(self.0))? {
            if wanted {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Compares a name without making a copy of it.
struct NameMatcher<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for NameMatcher<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NameMatcher<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}
