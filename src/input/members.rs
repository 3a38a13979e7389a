//! The members of JSON objects: what each key is used for, and what one object has for us.
//!
//! Keys repeat in every row, so each is looked up once for a whole file. This file must not know what becomes of a value.

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::ours::{self, Conflict};
use crate::base::text::quoted;
use crate::fields::{self, Field};
use crate::layout::{AddedColumns, ColumnContent};
use crate::raw_json::{self, Pointer};
use crate::row::Span;
use crate::verdict::{Failure, Reason};

/// One value that is looked up in every object.
pub(super) enum MemberLookup {
    /// At this path, by `--map`.
    At(Pointer),
    /// Under any of the field's usual names.
    Named(Field),
}

/// What a member is used for.
#[derive(Debug, Default)]
struct KeyUses {
    /// The lookups that it matches, with their rank (0 is best).
    lookups: Vec<(usize, usize)>,
    /// Our column with the same name.
    ours: Option<usize>,
}

/// How many different keys are remembered: more than a record has. A file with new keys in every
/// row must not fill the memory.
const REMEMBERED_KEYS: usize = 1_024;
/// The longest key that is remembered: longer than any usual name.
const REMEMBERED_BYTES: usize = 256;

/// What the keys of a file's objects are used for.
pub(super) struct MemberUses {
    pub(super) lookups: Vec<MemberLookup>,
    /// The columns that we write.
    pub(super) columns: AddedColumns,
    /// Keys repeat in every row, so each is judged once.
    seen: Vec<KeyUses>,
    /// The place in `seen` of each key as written.
    places: HashMap<Box<str>, usize, RandomState>,
    /// The uses of the last key that is not remembered.
    unknown: KeyUses,
}

impl MemberUses {
    pub(super) fn new(lookups: Vec<MemberLookup>, columns: &AddedColumns) -> Self {
        Self {
            lookups,
            columns: columns.clone(),
            seen: Vec::new(),
            places: HashMap::default(),
            unknown: KeyUses::default(),
        }
    }

    /// What members with this key are used for.
    #[inline]
    fn uses(&mut self, key: &str) -> &KeyUses {
        let place = match self.places.get(key) {
            Some(place) => *place,
            None => self.judge(key),
        };
        self.seen.get(place).unwrap_or(&self.unknown)
    }

    /// The place of a new key, if it is to be remembered.
    #[cold]
    fn judge(&mut self, key: &str) -> usize {
        let name = raw_json::string(key).unwrap_or_default();
        let uses = KeyUses {
            lookups: self.lookups_of(&name).collect(),
            ours: self.columns.iter().position(|column| *column == name),
        };
        let place = self.seen.len();
        if place >= REMEMBERED_KEYS || key.len() > REMEMBERED_BYTES {
            self.unknown = uses;
            return usize::MAX;
        }
        self.places.insert(key.into(), place);
        self.seen.push(uses);
        place
    }

    /// The lookups that a member with this name matches, with their rank.
    pub(super) fn lookups_of(&self, name: &str) -> impl Iterator<Item = (usize, usize)> {
        let named = fields::rank(name);
        let lookups = self.lookups.iter().enumerate();
        lookups.filter_map(move |(place, lookup)| match lookup {
            MemberLookup::At(pointer) => {
                fields::name_rank(pointer.split_first().0, name).map(|rank| (place, rank))
            }
            MemberLookup::Named(field) => named
                .filter(|(found, _)| found == field)
                .map(|(_, rank)| (place, rank)),
        })
    }
}

/// Whether we could have written this value: our scores are numbers, and all other values are
/// strings or null.
fn value_fits(content: ColumnContent, value: &str) -> bool {
    let text = match value {
        "null" => Some(Cow::Borrowed("")),
        number if content == ColumnContent::Score => Some(Cow::Borrowed(number)),
        _ => raw_json::string(value),
    };
    // An object has an id as the service sent it, and only a cell has it made harmless.
    let is_id = content == ColumnContent::TransactionId && text.is_some();
    is_id || ours::fits(content, text.as_deref())
}

/// Where the text of an object is in its row.
#[derive(Clone, Copy)]
pub(super) struct TextPlace<'a> {
    /// The text. It has the same positions as the row's content.
    pub(super) text: &'a str,
    /// How many bytes of the row are before it.
    pub(super) before: usize,
}

impl TextPlace<'_> {
    /// The span of a part of the text in the row.
    pub(super) fn span(self, part: &str) -> Span {
        let start = self.before + part.as_ptr().addr() - self.text.as_ptr().addr();
        Span::new(start, start + part.len())
    }
}

/// The values of one object that are needed.
pub(super) struct FoundMembers<'a> {
    /// The value of each lookup, with the rank of its name.
    pub(super) values: Vec<Option<(usize, &'a str)>>,
    /// The values under our columns' names.
    pub(super) ours: Vec<(Span, usize)>,
    /// One of these columns with a value that we never write.
    foreign: Option<usize>,
    pub(super) failure: Option<Failure>,
}

impl<'a> FoundMembers<'a> {
    /// Reads an object.
    ///
    /// # Errors
    /// The text is not an object.
    #[inline]
    pub(super) fn read(members: &mut MemberUses, place: TextPlace<'a>) -> serde_json::Result<Self> {
        let mut found = Self {
            values: vec![None; members.lookups.len()],
            ours: Vec::new(),
            foreign: None,
            failure: None,
        };
        raw_json::members(place.text, |key, value| {
            let uses = members.uses(key);
            let mut lookups = uses.lookups.iter();
            if !lookups.all(|(lookup, rank)| found.note(*lookup, *rank, key, value)) {
                return;
            }
            if let Some(column) = uses.ours {
                let content = members.columns.content(column);
                found.take_ours((column, content), key, value, place);
            }
        })?;
        Ok(found)
    }

    /// Notes the value of a lookup, unless there is one under a better name. Whether it is the only one of its rank.
    #[inline]
    fn note(&mut self, lookup: usize, rank: usize, key: &str, value: &'a str) -> bool {
        let Some(slot) = self.values.get_mut(lookup) else {
            return true;
        };
        match slot {
            Some((held, _)) if *held < rank => {}
            Some((held, _)) if *held == rank => {
                let name = quoted_key(key);
                let message = format!("{name} or an equivalent name appears twice");
                self.fail(Reason::DuplicateKey, message);
                return false;
            }
            _ => *slot = Some((rank, value)),
        }
        true
    }

    /// Takes a member with one of our columns' names. On its own, so that the loop over members stays small.
    #[cold]
    fn take_ours(
        &mut self,
        (column, content): (usize, ColumnContent),
        key: &str,
        value: &str,
        place: TextPlace<'_>,
    ) {
        if self.ours.iter().any(|(_, there)| *there == column) {
            let message = format!("{} appears twice", quoted_key(key));
            self.fail(Reason::DuplicateKey, message);
        }
        self.ours.push((place.span(value), column));
        if !value_fits(content, value) {
            self.foreign.get_or_insert(column);
        }
    }

    /// Why the object must not be changed.
    pub(super) fn conflict(&self) -> Option<Conflict> {
        let found = self.ours.iter().map(|(_, column)| *column);
        Conflict::of(&found, self.foreign)
    }

    #[cold]
    fn fail(&mut self, reason: Reason, message: String) {
        self.failure
            .get_or_insert_with(|| Failure::new(reason, message));
    }
}

/// A key's name, for messages.
fn quoted_key(key: &str) -> String {
    quoted(&raw_json::string(key).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_new_keys_do_not_fill_the_memory_and_still_work() {
        let lookups = vec![MemberLookup::Named(Field::Email)];
        let mut members = MemberUses::new(lookups, &AddedColumns::new("", [], None));
        let key = |name: &str| format!("\"{name}\"");
        let long = key(&"x".repeat(REMEMBERED_BYTES));
        assert!(members.uses(&long).lookups.is_empty());
        assert_eq!(members.seen.len(), 0);
        for number in 0..3 * REMEMBERED_KEYS {
            let name = key(&format!("k{number}"));
            assert!(members.uses(&name).ours.is_none());
        }
        // The first keys stay, so that keys that are in every row are found again.
        assert_eq!(members.seen.len(), REMEMBERED_KEYS);
        assert!(members.places.contains_key("\"k0\""));
        let ours = members.uses("\"decision\"").ours;
        assert_eq!(ours, Some(2));
        let email = members.uses("\"email\"");
        assert_eq!(email.lookups, [(0, 0)]);
    }
}
