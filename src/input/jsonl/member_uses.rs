//! What the members of a file's objects are used for, by key.
//!
//! This file must not know what happens to a member's value.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde_json::value::RawValue;

use crate::fields::{self, Field};
use crate::layout::PREVIOUS;
use crate::raw_json::{self, Pointer};

/// One value that is looked up in every object.
pub(super) enum MemberLookup {
    /// At this path, by `--map`.
    At(Pointer),
    /// Under any of the field's usual names.
    Named(Field),
}

/// What a member is used for.
#[derive(Debug, Default)]
pub(super) struct KeyUses {
    /// The lookups that it matches, with their rank (0 is best).
    pub(super) lookups: Vec<(usize, usize)>,
    /// Our column with the same name.
    pub(super) ours: Option<usize>,
    /// Our column whose name it has with `previous_` in front.
    pub(super) previous: Option<usize>,
}

/// How many different keys are remembered: more than a record has. A file with new keys in every
/// row must not fill the memory.
const REMEMBERED_KEYS: usize = 1_024;
/// The longest key that is remembered: longer than any usual name.
const REMEMBERED_BYTES: usize = 256;

/// What the keys of a file's objects are used for.
pub(super) struct MemberUses {
    lookups: Vec<MemberLookup>,
    /// Names of the columns that we write.
    columns: Vec<String>,
    /// What a key, as written, is used for. Keys repeat in every row, so each is looked up once.
    known: HashMap<Box<str>, KeyUses, RandomState>,
    /// The uses of the last key that is not remembered.
    unknown: KeyUses,
}

impl MemberUses {
    pub(super) fn new(lookups: Vec<MemberLookup>, columns: &[String]) -> Self {
        Self {
            lookups,
            columns: columns.to_vec(),
            known: HashMap::default(),
            unknown: KeyUses::default(),
        }
    }

    pub(super) fn lookups(&self) -> &[MemberLookup] {
        &self.lookups
    }

    /// What a member with this key is used for.
    pub(super) fn uses(&mut self, key: &RawValue) -> &KeyUses {
        let text = key.get();
        if !self.known.contains_key(text) {
            let uses = self.uses_of(key);
            if self.known.len() >= REMEMBERED_KEYS || text.len() > REMEMBERED_BYTES {
                self.unknown = uses;
            } else {
                self.known.insert(text.into(), uses);
            }
        }
        self.known.get(text).unwrap_or(&self.unknown)
    }

    fn uses_of(&self, key: &RawValue) -> KeyUses {
        let name = raw_json::string(key).unwrap_or_default();
        let lookups = self.lookups_of(&name).collect();
        let position = |name: &str| self.columns.iter().position(|column| column == name);
        KeyUses {
            lookups,
            ours: position(&name),
            previous: name.strip_prefix(PREVIOUS).and_then(position),
        }
    }

    /// The lookups that a member with this name matches, with their rank.
    pub(super) fn lookups_of(&self, name: &str) -> impl Iterator<Item = (usize, usize)> {
        let named = fields::rank(name);
        let lookups = self.lookups.iter().enumerate();
        lookups.filter_map(move |(place, lookup)| match lookup {
            MemberLookup::At(pointer) => (pointer.split_first().0 == name).then_some((place, 0)),
            MemberLookup::Named(field) => named
                .filter(|(found, _)| found == field)
                .map(|(_, rank)| (place, rank)),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn key(name: &str) -> Box<RawValue> {
        RawValue::from_string(format!("\"{name}\"")).unwrap()
    }

    #[test]
    fn endless_new_keys_do_not_fill_the_memory_and_still_work() {
        let lookups = vec![MemberLookup::Named(Field::Email)];
        let mut members = MemberUses::new(lookups, &["decision".to_owned()]);
        let long = "x".repeat(REMEMBERED_BYTES);
        assert!(members.uses(&key(&long)).lookups.is_empty());
        assert_eq!(members.known.len(), 0);
        for number in 0..3 * REMEMBERED_KEYS {
            assert_eq!(members.uses(&key(&format!("k{number}"))).ours, None);
        }
        // The first keys stay, so that keys that are in every row are found again.
        assert_eq!(members.known.len(), REMEMBERED_KEYS);
        assert!(members.known.contains_key("\"k0\""));
        assert_eq!(members.uses(&key("decision")).ours, Some(0));
        assert_eq!(members.uses(&key("previous_decision")).previous, Some(0));
        assert_eq!(members.uses(&key("email")).lookups, [(0, 0)]);
    }
}
