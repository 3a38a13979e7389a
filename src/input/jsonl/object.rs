//! What one object has for us.

use std::borrow::Cow;

use super::super::existing::{self, Conflict, OurColumn};
use super::member_text::quoted_key;
use super::member_uses::{KeyUses, MemberUses, OurMember};
use crate::layout::{ColumnContent, Existing};
use crate::raw_json::{self, JsonValue, KnownKey, ObjectMember, TakeMembers};
use crate::row::{Earlier, Span};
use crate::verdict::{Failure, Reason};

/// What one object has under our columns' names.
#[derive(Default)]
pub(super) struct OurNames {
    pub(super) found: Vec<OurColumn>,
    /// Our columns whose `previous_` names it has.
    pub(super) previous: Vec<usize>,
}

impl OurNames {
    pub(super) fn take(&mut self, uses: &KeyUses, value: JsonValue<'_>) {
        self.previous.extend(uses.previous);
        if let Some(OurMember { column, content }) = uses.ours {
            let fits = value_fits(content, value);
            self.found.push(OurColumn { column, fits });
        }
    }

    pub(super) fn conflict(&self, existing: Existing) -> Option<Conflict> {
        Conflict::of(existing, &self.found, &self.previous)
    }
}

/// Whether we could have written this value: our scores are numbers, and all other values are
/// strings or null.
pub(in crate::input) fn value_fits(content: ColumnContent, value: JsonValue<'_>) -> bool {
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
    fn span(self, part: JsonValue<'_>) -> Span {
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
    /// The spans of our columns' values.
    pub(super) existing: Vec<(Span, usize)>,
    pub(super) earlier: Earlier,
    pub(super) names: OurNames,
    pub(super) failure: Option<Failure>,
}

impl<'a, 'u> ObjectMembers<'a, 'u> {
    pub(super) fn new(uses: &'u mut MemberUses, place: TextPlace<'a>, policy: Existing) -> Self {
        uses.begin_object();
        let found = FoundMembers {
            values: vec![None; uses.lookups().len()],
            existing: Vec::new(),
            earlier: Earlier::default(),
            names: OurNames::default(),
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
        }
        self.names.take(uses, value);
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
