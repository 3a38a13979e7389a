//! What one object has for us.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::super::existing::{self, Conflict, OurColumn};
use super::member_text::quoted_key;
use super::member_uses::KeyUses;
use crate::layout::{DECISION_COLUMN, Existing, SCORE_COLUMN};
use crate::raw_json;
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
    pub(super) fn take(&mut self, uses: &KeyUses, value: &RawValue) {
        self.previous.extend(uses.previous);
        if let Some(column) = uses.ours {
            let fits = value_fits(column, value);
            self.found.push(OurColumn { column, fits });
        }
    }

    pub(super) fn conflict(&self, existing: Existing) -> Option<Conflict> {
        Conflict::of(existing, &self.found, &self.previous)
    }
}

/// Whether we could have written this value: our scores are numbers, and all other values are
/// strings or null.
pub(in crate::input) fn value_fits(column: usize, value: &RawValue) -> bool {
    let text = match value.get() {
        "null" => Some(Cow::Borrowed("")),
        number if column == SCORE_COLUMN => Some(Cow::Borrowed(number)),
        _ => raw_json::string(value),
    };
    existing::fits(column, text.as_deref())
}

/// The values of one object that are needed.
pub(super) struct ObjectMembers<'a> {
    pub(super) values: Vec<Option<(usize, &'a RawValue)>>,
    /// The spans of our columns' values.
    pub(super) existing: Vec<(Span, usize)>,
    pub(super) earlier: Earlier,
    pub(super) names: OurNames,
    pub(super) failure: Option<Failure>,
}

impl<'a> ObjectMembers<'a> {
    pub(super) fn new(lookups: usize) -> Self {
        Self {
            values: vec![None; lookups],
            existing: Vec::new(),
            earlier: Earlier::default(),
            names: OurNames::default(),
            failure: None,
        }
    }

    pub(super) fn take(
        &mut self,
        uses: &KeyUses,
        key: &'a RawValue,
        value: &'a RawValue,
        span: impl Fn(&RawValue) -> Span,
        policy: Existing,
    ) {
        if raw_json::too_deep(value) {
            let message = format!(
                "{} is nested deeper than {} levels",
                quoted_key(key),
                raw_json::MAX_DEPTH
            );
            self.fail(Reason::TooDeep, message);
        }
        for (lookup, rank) in &uses.lookups {
            let Some(slot) = self.values.get_mut(*lookup) else {
                continue;
            };
            match slot {
                Some((held, _)) if *held < *rank => {}
                Some((held, _)) if *held == *rank => {
                    self.fail(
                        Reason::DuplicateKey,
                        format!("{} or an equivalent name appears twice", quoted_key(key)),
                    );
                    return;
                }
                _ => *slot = Some((*rank, value)),
            }
        }
        if let Some(column) = uses.ours {
            if self.existing.iter().any(|(_, there)| *there == column) {
                self.fail(
                    Reason::DuplicateKey,
                    format!("{} appears twice", quoted_key(key)),
                );
            }
            let part = if policy == Existing::Keep { key } else { value };
            self.existing.push((span(part), column));
            match column {
                SCORE_COLUMN => self.earlier.score = span(value),
                DECISION_COLUMN => self.earlier.decision = span(value),
                _ => {}
            }
        }
        self.names.take(uses, value);
    }

    pub(super) fn fail(&mut self, reason: Reason, message: String) {
        self.failure
            .get_or_insert_with(|| Failure::new(reason, message));
    }
}
