//! A user's request: sanitised and checked.

use std::borrow::Cow;

use super::names::{Field, PerField};
use super::phone::{self, PhoneRegion};
use super::sanitise;
use crate::base::error::{Error, Result};
use crate::verdict::{Failure, Reason};

/// What to do with a phone number or an email address that cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Invalid {
    /// The row fails.
    #[default]
    Reject,
    /// The row is sent without it, if it has the other of the two.
    Drop,
}

/// What values must be like, and what stands for one that is empty.
#[derive(Debug, Clone, Default)]
pub struct FieldRules {
    /// The region of national phone numbers, if the row does not name it.
    pub(crate) region: Option<PhoneRegion>,
    /// What to do with a phone number or an email address that cannot be sent.
    pub(crate) invalid: Invalid,
    /// Texts that stand for an empty cell.
    pub(crate) nulls: Vec<String>,
    /// What is sent where a row has no value.
    pub(crate) defaults: PerField<Option<String>>,
}

impl FieldRules {
    /// The rules of rows in which nothing stands for an empty value.
    pub fn new(region: Option<PhoneRegion>, invalid: Invalid) -> Self {
        Self {
            region,
            invalid,
            ..Self::default()
        }
    }

    /// Adds one `--default`.
    ///
    /// # Errors
    /// The field was given before, or no row could be sent with this value.
    pub(crate) fn set_default(&mut self, field: Field, value: String) -> Result<()> {
        if let Some(wrong) = sanitise::wrong_constant(&value, field) {
            return Err(Error::usage(format!(
                "no row could be sent with `--default {field}=…`: its value {wrong}"
            )));
        }
        let default = self.defaults.get_mut(field);
        if default.is_some() {
            return Err(Error::usage(format!(
                "`{field}` is given twice in `--default`"
            )));
        }
        *default = Some(value);
        Ok(())
    }

    /// A cell as it counts: one with a text that stands for an empty cell is empty.
    #[inline]
    pub(crate) fn cell<'a>(
        &self,
        cell: Result<Option<Cow<'a, str>>, Failure>,
    ) -> Result<Option<Cow<'a, str>>, Failure> {
        let is_value = |text: &Cow<'_, str>| !self.nulls.iter().any(|null| null == text.trim());
        cell.map(|cell| cell.filter(is_value))
    }
}

/// A user as sent to the service: sanitised, and valid by the interface's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRequest<'a> {
    /// The full name.
    pub name: Cow<'a, str>,
    /// The email address.
    pub email: Option<Cow<'a, str>>,
    /// The phone number: `+` and 7 to 15 digits.
    pub phone: Option<Cow<'a, str>>,
    /// The IPv4 or IPv6 address.
    pub ip: Cow<'a, str>,
    /// The browser's user agent.
    pub user_agent: Cow<'a, str>,
    /// The phone number or email address of the row that is invalid and was dropped.
    pub dropped: Option<Field>,
}

impl<'a> UserRequest<'a> {
    /// Sanitises and checks the values that `find` returns for each field; `None` is absent. `region` returns what the
    /// row's column of regions says, if the file has one; it is asked only for a number that is not international.
    ///
    /// # Errors
    /// The first rule that the row breaks.
    pub(crate) fn new<'r>(
        mut find: impl FnMut(Field) -> Result<Option<Cow<'a, str>>, Failure>,
        rules: &'a FieldRules,
        region: impl FnOnce() -> Option<Cow<'r, str>>,
    ) -> Result<Self, Failure> {
        let mut clean = |field| {
            let value = match rules.cell(find(field))? {
                Some(text) => sanitise::clean(text, field)?,
                None => None,
            };
            let default = || rules.defaults.get(field).as_deref().map(Cow::Borrowed);
            Ok::<_, Failure>(value.or_else(default))
        };
        let missing = |field, reason| move || Failure::new(reason, format!("no {field}"));
        let name = clean(Field::Name)?.ok_or_else(missing(Field::Name, Reason::MissingName))?;
        let ip = clean(Field::Ip)?.ok_or_else(missing(Field::Ip, Reason::MissingIp))?;
        let user_agent = clean(Field::UserAgent)?
            .ok_or_else(missing(Field::UserAgent, Reason::MissingUserAgent))?;
        let email = clean(Field::Email)?;
        let phone = clean(Field::Phone)?;

        let ip = sanitise::ip(ip)?;
        let email = email.map(sanitise::email).transpose();
        let phone = phone.map(|value| phone::phone(value, rules.region, region));
        let (email, phone, dropped) = match (email, phone.transpose()) {
            (Err(_), Ok(Some(phone))) if rules.invalid == Invalid::Drop => {
                (None, Some(phone), Some(Field::Email))
            }
            (Ok(Some(email)), Err(_)) if rules.invalid == Invalid::Drop => {
                (Some(email), None, Some(Field::Phone))
            }
            (email, phone) => (email?, phone?, None),
        };
        if email.is_none() && phone.is_none() {
            return Err(Failure::new(
                Reason::MissingContact,
                "neither email nor phone",
            ));
        }
        Ok(Self {
            name,
            email,
            phone,
            ip,
            user_agent,
            dropped,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use Field::{Email, Ip, Name, Phone, UserAgent};

    use super::super::sanitise::text;
    use super::*;
    use crate::base::encoding::TextEncoding;

    /// A user's request, except for what is set, whose values are read as text like CSV cells.
    fn request<'a>(
        set: &[(Field, &'a [u8])],
        rules: &'a FieldRules,
    ) -> Result<UserRequest<'a>, Failure> {
        let find = |field| {
            let value = match field {
                Name => Some(&b"Jane Doe"[..]),
                Email => Some(&b"jane@example.com"[..]),
                Phone => None,
                Ip => Some(&b"192.0.2.1"[..]),
                UserAgent => Some(&b"Mozilla/5.0"[..]),
            };
            let set = set.iter().find(|(name, _)| *name == field);
            let value = set.map(|(_, value)| *value).or(value);
            let value = value.map(|value| text(Cow::Borrowed(value), TextEncoding::UTF_8, field));
            value.transpose()
        };
        UserRequest::new(find, rules, || None)
    }

    fn rules(invalid: Invalid) -> FieldRules {
        FieldRules {
            invalid,
            ..FieldRules::default()
        }
    }

    #[test]
    fn unicode_white_space_and_control_characters_are_removed() {
        let (name, rules) = (
            "\u{a0}\u{2003} Jane\u{7}\nDoe\u{85} ",
            rules(Invalid::Reject),
        );
        let request = request(&[(Name, name.as_bytes())], &rules).unwrap();
        assert_eq!(request.name, "JaneDoe");
    }

    #[test]
    fn each_broken_rule_has_its_reason() {
        let email = |length: usize| format!("{}@example.com", "x".repeat(length - 12));
        let (longest, long) = (email(254), email(255));
        for (field, value, expected) in [
            (Name, &b" "[..], Reason::MissingName),
            (Ip, b"", Reason::MissingIp),
            (UserAgent, b"\t", Reason::MissingUserAgent),
            (Email, b"", Reason::MissingContact),
            (Ip, b"1.2.3", Reason::InvalidIp),
            (Ip, b"256.1.1.1", Reason::InvalidIp),
            (Ip, b"fe80::1%eth0", Reason::InvalidIp),
            (Email, b"jane", Reason::InvalidEmail),
            (Email, b"@example.com", Reason::InvalidEmail),
            (Email, b"jane@", Reason::InvalidEmail),
            (Email, b"a@b@c", Reason::InvalidEmail),
            (Email, b"a b@c", Reason::InvalidEmail),
            (Email, long.as_bytes(), Reason::InvalidEmail),
            (Phone, b"0151 2345678", Reason::InvalidPhone),
            (Phone, b"+123456", Reason::InvalidPhone),
            (Phone, b"+1234567890123456", Reason::InvalidPhone),
            (Phone, b"+49 151 CALLME", Reason::InvalidPhone),
            // A country code never starts with 0.
            (Phone, b"+0151 2345678", Reason::InvalidPhone),
            (Phone, b"000151 2345678", Reason::InvalidPhone),
            (Phone, b"+ (0)151 2345678", Reason::InvalidPhone),
            (Name, b"Jane\0", Reason::NulByte),
            (Name, b"Jane\xff", Reason::NotUtf8),
        ] {
            let rules = rules(Invalid::Reject);
            let failure = request(&[(field, value)], &rules).unwrap_err();
            assert_eq!(failure.reason, expected, "{field} {}", value.escape_ascii());
        }
        assert!(request(&[(Email, longest.as_bytes())], &rules(Invalid::Reject)).is_ok());
    }

    #[test]
    fn phone_numbers_are_converted_to_the_international_form() {
        for (written, sent) in [
            ("+1 (555) 010-0199", "+15550100199"),
            ("0049.151.2345678", "+491512345678"),
            ("0049 (0) 151 2345678", "+491512345678"),
            ("+44\u{a0}20\u{2011}7946 [0958]", "+442079460958"),
            ("(+44)(0)20 7946 0958", "+442079460958"),
            // A zero that is not directly after the country code is an ordinary digit.
            ("+44 20 (0)7946 0958", "+4420079460958"),
            ("+4420 (0)7946 0958", "+4420079460958"),
        ] {
            let rules = rules(Invalid::Reject);
            let request = request(&[(Phone, written.as_bytes())], &rules).unwrap();
            assert_eq!(request.phone.as_deref(), Some(sent));
        }
    }

    #[test]
    fn an_invalid_phone_or_email_is_dropped_only_on_request_and_only_if_there_is_the_other() {
        let (number, bad_number) = ((Phone, &b"+15550100199"[..]), (Phone, &b"12"[..]));
        let (no_email, bad_email) = ((Email, &b""[..]), (Email, &b"jane"[..]));
        for (invalid, set, expected) in [
            (Invalid::Drop, &[bad_number][..], Ok(Some(Phone))),
            (Invalid::Drop, &[bad_email, number], Ok(Some(Email))),
            (
                Invalid::Reject,
                &[bad_email, number],
                Err(Reason::InvalidEmail),
            ),
            (
                Invalid::Drop,
                &[no_email, bad_number],
                Err(Reason::InvalidPhone),
            ),
            (Invalid::Drop, &[bad_email], Err(Reason::InvalidEmail)),
            (
                Invalid::Drop,
                &[bad_email, bad_number],
                Err(Reason::InvalidEmail),
            ),
        ] {
            let rules = rules(invalid);
            let found = request(set, &rules);
            if let Ok(request) = &found {
                let is_sent = [request.email.is_some(), request.phone.is_some()];
                assert_eq!(is_sent, [set.len() == 1, set.len() == 2]);
            }
            let found = found.map(|request| request.dropped);
            assert_eq!(found.map_err(|failure| failure.reason), expected, "{set:?}");
        }
    }

    #[test]
    fn a_default_that_cannot_be_used_is_refused() {
        let mut rules = FieldRules::default();
        rules.set_default(UserAgent, "unknown".to_owned()).unwrap();
        for (field, value) in [(UserAgent, "again"), (Ip, "nowhere")] {
            assert!(rules.set_default(field, value.to_owned()).is_err());
        }
    }
}
