//! The lengths of values that the service's notes name as usual.
//!
//! They are not part of its interface, so they are not a rule: a row with other lengths is sent. They deserve a warning
//! before anything is paid for.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::field::Field;
use super::request::UserRequest;

/// Characters that a value of this field usually has, if the service's documentation names any.
#[must_use]
pub(crate) const fn usual_length(field: Field) -> Option<RangeInclusive<usize>> {
    match field {
        Field::Name => Some(3..=50),
        Field::Email => Some(5..=60),
        Field::UserAgent => Some(5..=512),
        // An address has its own form, and a phone number of another length is not sent at all.
        Field::Ip | Field::Phone => None,
    }
}

impl UserRequest<'_> {
    /// Calls `each` with every field whose value is unusually short or long, as it is sent.
    pub(crate) fn unusual_lengths(&self, mut each: impl FnMut(Field)) {
        let values: [(Field, Option<&Cow<'_, str>>); 3] = [
            (Field::Name, Some(&self.name)),
            (Field::Email, self.email.as_ref()),
            (Field::UserAgent, Some(&self.user_agent)),
        ];
        for (field, value) in values {
            if let (Some(value), Some(usual)) = (value, usual_length(field))
                && !has_length(value, &usual)
            {
                each(field);
            }
        }
    }
}

/// Whether a text has a number of characters in this range. They are counted only if the number of bytes does not
/// decide it: a character has one to four.
fn has_length(text: &str, usual: &RangeInclusive<usize>) -> bool {
    let bytes = text.len();
    (bytes >= usual.start() * 4 && bytes <= *usual.end()) || usual.contains(&text.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unusual(name: &str, email: &str, user_agent: &str) -> Vec<Field> {
        let user = UserRequest {
            name: Cow::Borrowed(name),
            email: (!email.is_empty()).then_some(Cow::Borrowed(email)),
            phone: Some(Cow::Borrowed("+15550100199")),
            ip: Cow::Borrowed("::1"),
            user_agent: Cow::Borrowed(user_agent),
            dropped: None,
        };
        let mut found = Vec::new();
        user.unusual_lengths(|field| found.push(field));
        found
    }

    #[test]
    fn lengths_are_counted_in_characters_and_both_ends_are_usual() {
        let x = |times| "x".repeat(times);
        let e = |times| "\u{e9}".repeat(times);
        for (name, email, agent) in [
            ("abc".to_owned(), "a@b.c".to_owned(), "curl/".to_owned()),
            ("\u{738b}\u{4f1f}\u{738b}".to_owned(), String::new(), x(5)),
            (x(50), x(60), x(512)),
            (e(50), e(60), e(512)),
        ] {
            assert_eq!(unusual(&name, &email, &agent), [], "{name} {email}");
        }
        for (name, email, agent) in [
            ("ab".to_owned(), "a@bc".to_owned(), "curl".to_owned()),
            ("\u{738b}\u{4f1f}".to_owned(), e(4), e(4)),
            (x(51), x(61), x(513)),
            (e(51), e(61), e(513)),
        ] {
            let all = [Field::Name, Field::Email, Field::UserAgent];
            assert_eq!(unusual(&name, &email, &agent), all, "{name} {email}");
        }
    }
}
