//! The members of JSON objects: what each key is used for, and what one object has for us.
//!
//! Keys repeat in every row, so each is looked up once for a whole file. This file must not know what becomes of a value.

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::existing::{self, Conflict, OurColumn};
use crate::base::error::quoted;
use crate::fields::{self, Field};
use crate::layout::{AddedColumns, ColumnContent, Existing, PREVIOUS};
use crate::raw_json::{self, JsonValue, KnownKey, ObjectMember, Pointer, TakeMembers};
use crate::row::{Earlier, Span};
use crate::verdict::{Failure, Reason};

/// One value that is looked up in every object.
pub(super) enum MemberLookup {
    /// At this path, by `--map`.
    At(Pointer),
    /// Under any of the field's usual names.
    Named(Field),
}

/// A member with the name of one of our columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct OurMember {
    /// The column's index.
    pub(super) column: usize,
    pub(super) content: ColumnContent,
}

/// What a member is used for.
#[derive(Debug, Default)]
pub(super) struct KeyUses {
    /// The lookups that it matches, with their rank (0 is best).
    pub(super) lookups: Vec<(usize, usize)>,
    /// Our column with the same name.
    pub(super) ours: Option<OurMember>,
    /// Our column whose name it has with `previous_` in front.
    pub(super) previous: Option<usize>,
}

/// How many different keys are remembered: more than a record has. A file with new keys in every
/// row must not fill the memory.
const REMEMBERED_KEYS: usize = 1_024;
/// The longest key that is remembered: longer than any usual name.
const REMEMBERED_BYTES: usize = 256;

/// A key that was seen.
struct SeenKey {
    key: KnownKey,
    uses: KeyUses,
    /// The place of the key that followed it last.
    next: usize,
}

/// What the keys of a file's objects are used for.
pub(super) struct MemberUses {
    lookups: Vec<MemberLookup>,
    /// The columns that we write.
    columns: AddedColumns,
    /// Keys repeat in every row, nearly always in the same order, so each is looked up once.
    seen: Vec<SeenKey>,
    /// The place in `seen` of each key as written.
    places: HashMap<Box<str>, usize, RandomState>,
    /// The place of the key that came first in the last object.
    first: usize,
    /// The place of the last key; `None` before the first one of an object.
    last: Option<usize>,
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
            first: 0,
            last: None,
            unknown: KeyUses::default(),
        }
    }

    pub(super) fn lookups(&self) -> &[MemberLookup] {
        &self.lookups
    }

    /// The next key is the first one of an object.
    #[inline]
    pub(super) const fn begin_object(&mut self) {
        self.last = None;
    }

    /// The place of the key that will come next, if this object is like those before.
    #[inline]
    fn next_place(&self) -> usize {
        let last = self.last.and_then(|last| self.seen.get(last));
        last.map_or(self.first, |last| last.next)
    }

    /// The key that will come next, if this object is like those before.
    #[inline]
    pub(super) fn expected(&self) -> Option<&KnownKey> {
        self.seen.get(self.next_place()).map(|seen| &seen.key)
    }

    /// What the next member of the object is used for.
    #[inline]
    pub(super) fn uses(&mut self, member: &ObjectMember<'_>) -> &KeyUses {
        let place = if member.is_expected {
            Some(self.next_place())
        } else {
            self.find(member)
        };
        if place.is_some() {
            self.last = place;
        }
        let seen = place.and_then(|place| self.seen.get(place));
        seen.map_or(&self.unknown, |seen| &seen.uses)
    }

    /// The place of a key that was not expected; `None` if it is not remembered.
    #[cold]
    fn find(&mut self, member: &ObjectMember<'_>) -> Option<usize> {
        let text = member.key.get();
        let place = if let Some(place) = self.places.get(text) {
            *place
        } else {
            let uses = self.uses_of(member.key);
            let place = self.seen.len();
            if place >= REMEMBERED_KEYS || text.len() > REMEMBERED_BYTES {
                self.unknown = uses;
                return None;
            }
            self.places.insert(text.into(), place);
            self.seen.push(SeenKey {
                key: KnownKey::of(member),
                uses,
                next: place + 1,
            });
            place
        };
        match self.last.and_then(|last| self.seen.get_mut(last)) {
            Some(before) => before.next = place,
            None => self.first = place,
        }
        Some(place)
    }

    fn uses_of(&self, key: JsonValue<'_>) -> KeyUses {
        let name = raw_json::string(key).unwrap_or_default();
        let lookups = self.lookups_of(&name).collect();
        let position = |name: &str| self.columns.iter().position(|column| column == name);
        KeyUses {
            lookups,
            ours: position(&name).map(|column| OurMember {
                column,
                content: self.columns.content(column),
            }),
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

/// Whether we could have written this value: our scores are numbers, and all other values are
/// strings or null.
fn value_fits(content: ColumnContent, value: JsonValue<'_>) -> bool {
    let text = match value.get() {
        "null" => Some(Cow::Borrowed("")),
        number if content == ColumnContent::Score => Some(Cow::Borrowed(number)),
        _ => raw_json::string(value),
    };
    existing::fits(content, text.as_deref())
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
    /// The offset of a part of the text in it.
    pub(super) fn offset(self, part: JsonValue<'_>) -> usize {
        part.get().as_ptr().addr() - self.text.as_ptr().addr()
    }

    /// The span of a part of the text in the row.
    pub(super) fn span(self, part: JsonValue<'_>) -> Span {
        let start = self.before + self.offset(part);
        Span::new(start, start + part.get().len())
    }
}

/// Takes from one object what is needed.
pub(super) struct ObjectMembers<'a, 'u> {
    uses: &'u mut MemberUses,
    place: TextPlace<'a>,
    policy: Existing,
    /// What was found.
    pub(super) found: FoundMembers<'a>,
}

/// The values of one object that are needed.
pub(super) struct FoundMembers<'a> {
    pub(super) values: Vec<Option<(usize, JsonValue<'a>)>>,
    /// What it has under our columns' names.
    pub(super) ours: Vec<OurColumn>,
    /// Our columns whose `previous_` names it has.
    previous: Vec<usize>,
    /// The spans of what is replaced for our columns.
    pub(super) existing: Vec<(Span, usize)>,
    pub(super) earlier: Earlier,
    pub(super) failure: Option<Failure>,
}

impl<'a, 'u> ObjectMembers<'a, 'u> {
    pub(super) fn new(uses: &'u mut MemberUses, place: TextPlace<'a>, policy: Existing) -> Self {
        uses.begin_object();
        let found = FoundMembers {
            values: vec![None; uses.lookups().len()],
            ours: Vec::new(),
            previous: Vec::new(),
            existing: Vec::new(),
            earlier: Earlier::default(),
            failure: None,
        };
        Self {
            uses,
            place,
            policy,
            found,
        }
    }
}

impl<'a> TakeMembers<'a> for ObjectMembers<'a, '_> {
    #[inline]
    fn expected(&self) -> Option<&KnownKey> {
        self.uses.expected()
    }

    #[inline]
    fn take(&mut self, member: ObjectMember<'a>) {
        let uses = self.uses.uses(&member);
        if raw_json::too_deep(member.value) {
            self.found.refuse_depth(member.key);
        }
        for (lookup, rank) in &uses.lookups {
            if !self.found.note(*lookup, *rank, member) {
                return;
            }
        }
        if uses.ours.is_some() || uses.previous.is_some() {
            self.found.take_ours(uses, member, self.place, self.policy);
        }
    }
}

impl<'a> FoundMembers<'a> {
    /// Notes the value of a lookup, unless there is one under a better name. Whether it is the only one of its rank.
    #[inline]
    fn note(&mut self, lookup: usize, rank: usize, member: ObjectMember<'a>) -> bool {
        let Some(slot) = self.values.get_mut(lookup) else {
            return true;
        };
        match slot {
            Some((held, _)) if *held < rank => {}
            Some((held, _)) if *held == rank => {
                let name = quoted_key(member.key);
                let message = format!("{name} or an equivalent name appears twice");
                self.fail(Reason::DuplicateKey, message);
                return false;
            }
            _ => *slot = Some((rank, member.value)),
        }
        true
    }

    /// Takes a member with one of our columns' names. On its own, so that the loop over members stays small.
    #[cold]
    fn take_ours(
        &mut self,
        uses: &KeyUses,
        ObjectMember { key, value, .. }: ObjectMember<'a>,
        place: TextPlace<'_>,
        policy: Existing,
    ) {
        if let Some(OurMember { column, content }) = uses.ours {
            if self.existing.iter().any(|(_, there)| *there == column) {
                let message = format!("{} appears twice", quoted_key(key));
                self.fail(Reason::DuplicateKey, message);
            }
            let part = if policy == Existing::Keep { key } else { value };
            self.existing.push((place.span(part), column));
            match content {
                ColumnContent::Score => self.earlier.score = place.span(value),
                ColumnContent::Decision => self.earlier.decision = place.span(value),
                _ => {}
            }
            let fits = value_fits(content, value);
            self.ours.push(OurColumn { column, fits });
        }
        self.previous.extend(uses.previous);
    }

    /// Why the object must not be changed.
    pub(super) fn conflict(&self, existing: Existing) -> Option<Conflict> {
        Conflict::of(existing, &self.ours, &self.previous)
    }

    #[cold]
    fn refuse_depth(&mut self, key: JsonValue<'_>) {
        let message = format!(
            "{} is nested deeper than {} levels",
            quoted_key(key),
            raw_json::MAX_DEPTH
        );
        self.fail(Reason::TooDeep, message);
    }

    #[cold]
    fn fail(&mut self, reason: Reason, message: String) {
        self.failure
            .get_or_insert_with(|| Failure::new(reason, message));
    }
}

/// A key's name, for messages.
fn quoted_key(key: JsonValue<'_>) -> String {
    quoted(&raw_json::string(key).unwrap_or_default())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn members_of_two() -> MemberUses {
        let lookups = vec![MemberLookup::Named(Field::Email)];
        MemberUses::new(lookups, &AddedColumns::new("", [], None))
    }

    /// Takes members, and checks what the last one is used for.
    struct LastUses<'m, F> {
        members: &'m mut MemberUses,
        check: F,
        holds: bool,
        expected: Vec<bool>,
    }

    impl<'a, F: Fn(&KeyUses) -> bool> TakeMembers<'a> for LastUses<'_, F> {
        fn expected(&self) -> Option<&KnownKey> {
            self.members.expected()
        }

        fn take(&mut self, member: ObjectMember<'a>) {
            self.holds = (self.check)(self.members.uses(&member));
            self.expected.push(member.is_expected);
        }
    }

    /// Reads an object with these keys, and calls `check` with the uses of the last one. Returns which were expected.
    fn read(
        members: &mut MemberUses,
        names: &[&str],
        check: impl Fn(&KeyUses) -> bool,
    ) -> Vec<bool> {
        let keys: Vec<_> = names.iter().map(|name| format!("\"{name}\":0")).collect();
        let text = format!("{{{}}}", keys.join(","));
        members.begin_object();
        let mut last = LastUses {
            members,
            check,
            holds: false,
            expected: Vec::new(),
        };
        raw_json::read_object(&text, &mut last).unwrap();
        assert!(last.holds, "{text}");
        last.expected
    }

    #[test]
    fn endless_new_keys_do_not_fill_the_memory_and_still_work() {
        let mut members = members_of_two();
        let long = "x".repeat(REMEMBERED_BYTES);
        read(&mut members, &[&long], |uses| uses.lookups.is_empty());
        assert_eq!(members.seen.len(), 0);
        for number in 0..3 * REMEMBERED_KEYS {
            let name = format!("k{number}");
            read(&mut members, &[&name], |uses| uses.ours.is_none());
        }
        // The first keys stay, so that keys that are in every row are found again.
        assert_eq!(members.seen.len(), REMEMBERED_KEYS);
        assert!(members.places.contains_key("\"k0\""));
        let (ours, previous) = ("decision", "previous_decision");
        read(&mut members, &[ours], |uses| {
            uses.ours
                .is_some_and(|ours| ours.content == ColumnContent::Decision)
        });
        read(&mut members, &[previous], |uses| uses.previous == Some(2));
        read(&mut members, &["k0", "email"], |uses| {
            uses.lookups == [(0, 0)]
        });
    }

    #[test]
    fn the_order_of_keys_is_learnt_and_another_order_means_the_same() {
        let mut members = members_of_two();
        let is_email = |uses: &KeyUses| uses.lookups == [(0, 0)];
        let mut expected = |names: &[&str]| read(&mut members, names, is_email);
        assert_eq!(expected(&["a", "b", "email"]), [false; 3]);
        assert_eq!(expected(&["a", "b", "email"]), [true; 3]);
        assert_eq!(expected(&["b", "a", "email"]), [false; 3]);
        assert_eq!(expected(&["b", "a", "email"]), [true; 3]);
        assert_eq!(expected(&["email"]), [false]);
    }
}
