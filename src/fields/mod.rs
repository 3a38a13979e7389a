//! Columns to a sanitised, valid request.
//!
//! `input` hands in what it found for each field; out comes a [`UserRequest`] that the service's interface allows, or
//! the reason why there is none. This room knows neither files nor HTTP.

mod aliases;
mod mapping;
mod missing;
mod names;
mod sanitise;
mod template;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

pub use mapping::Assignments;
pub(crate) use mapping::{Assigned, ColumnSource, Mapping, Sample};
pub(crate) use names::rank;
pub(crate) use sanitise::{text, value_in};
pub(crate) use template::{Part, Template};

use crate::verdict::{Failure, Reason};

/// The five fields of a user that the service asks for (interface, section 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// Full name; required.
    Name,
    /// Email address; required when there is no phone.
    Email,
    /// Phone number in the international form; required when there is no email.
    Phone,
    /// IP address; required.
    Ip,
    /// The browser's user agent; required.
    UserAgent,
}

impl Field {
    /// Every field, in the order in which they are sent and shown.
    pub(crate) const ALL: [Self; 5] = [
        Self::Name,
        Self::Email,
        Self::Phone,
        Self::Ip,
        Self::UserAgent,
    ];

    /// The field's name in the interface and on the command line.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Email => "email",
            Self::Phone => "phone",
            Self::Ip => "ip",
            Self::UserAgent => "user_agent",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|field| field.name() == text)
            .ok_or_else(|| {
                format!("no field `{text}`: allowed are name, email, phone, ip, user_agent")
            })
    }
}

/// One value a field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PerField<T> {
    /// For [`Field::Name`].
    pub(crate) name: T,
    /// For [`Field::Email`].
    pub(crate) email: T,
    /// For [`Field::Phone`].
    pub(crate) phone: T,
    /// For [`Field::Ip`].
    pub(crate) ip: T,
    /// For [`Field::UserAgent`].
    pub(crate) user_agent: T,
}

impl<T> PerField<T> {
    /// The value of one field.
    pub(crate) const fn get(&self, field: Field) -> &T {
        match field {
            Field::Name => &self.name,
            Field::Email => &self.email,
            Field::Phone => &self.phone,
            Field::Ip => &self.ip,
            Field::UserAgent => &self.user_agent,
        }
    }

    /// The value of one field, to change it.
    pub(crate) const fn get_mut(&mut self, field: Field) -> &mut T {
        match field {
            Field::Name => &mut self.name,
            Field::Email => &mut self.email,
            Field::Phone => &mut self.phone,
            Field::Ip => &mut self.ip,
            Field::UserAgent => &mut self.user_agent,
        }
    }

    /// A value for each field, made from the field.
    pub(crate) fn from_fn(mut make: impl FnMut(Field) -> T) -> Self {
        Self {
            name: make(Field::Name),
            email: make(Field::Email),
            phone: make(Field::Phone),
            ip: make(Field::Ip),
            user_agent: make(Field::UserAgent),
        }
    }

    /// As [`PerField::from_fn`], ending at the first error.
    pub(crate) fn try_from_fn<E>(mut make: impl FnMut(Field) -> Result<T, E>) -> Result<Self, E> {
        Ok(Self {
            name: make(Field::Name)?,
            email: make(Field::Email)?,
            phone: make(Field::Phone)?,
            ip: make(Field::Ip)?,
            user_agent: make(Field::UserAgent)?,
        })
    }
}

/// What to do with a phone number that cannot be brought into the international form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InvalidPhone {
    /// The row fails.
    #[default]
    Reject,
    /// The row is sent without it where it has an email.
    Drop,
}

/// A user as the service may be asked about: sanitised and valid by the interface's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRequest<'a> {
    /// Full name.
    pub name: Cow<'a, str>,
    /// Email address.
    pub email: Option<Cow<'a, str>>,
    /// Phone number: `+` and 7 to 15 digits.
    pub phone: Option<Cow<'a, str>>,
    /// IPv4 or IPv6 address.
    pub ip: Cow<'a, str>,
    /// The browser's user agent.
    pub user_agent: Cow<'a, str>,
}

impl<'a> UserRequest<'a> {
    /// Sanitises and checks what `find` finds in a row for each field; `None` is absent.
    ///
    /// # Errors
    /// The first rule that the row breaks.
    pub(crate) fn new(
        mut find: impl FnMut(Field) -> Result<Option<Cow<'a, str>>, Failure>,
        invalid_phone: InvalidPhone,
    ) -> Result<Self, Failure> {
        let mut clean = |field| match find(field)? {
            Some(text) => sanitise::clean(text, field),
            None => Ok(None),
        };
        let missing = |field, reason| move || Failure::new(reason, format!("no {field}"));
        let name = clean(Field::Name)?.ok_or_else(missing(Field::Name, Reason::MissingName))?;
        let ip = clean(Field::Ip)?.ok_or_else(missing(Field::Ip, Reason::MissingIp))?;
        let user_agent = clean(Field::UserAgent)?
            .ok_or_else(missing(Field::UserAgent, Reason::MissingUserAgent))?;
        let email = clean(Field::Email)?;
        let phone = clean(Field::Phone)?;

        let ip = sanitise::ip(ip)?;
        let email = email.map(sanitise::email).transpose()?;
        let phone = match phone.map(sanitise::phone).transpose() {
            Err(_) if invalid_phone == InvalidPhone::Drop && email.is_some() => None,
            checked => checked?,
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
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn user(set: &[(Field, &'static [u8])]) -> PerField<Option<Cow<'static, [u8]>>> {
        let mut found = PerField {
            name: Some(Cow::Borrowed(&b"Jane Doe"[..])),
            email: Some(Cow::Borrowed(&b"jane@example.com"[..])),
            phone: None,
            ip: Some(Cow::Borrowed(&b"192.0.2.1"[..])),
            user_agent: Some(Cow::Borrowed(&b"Mozilla/5.0"[..])),
        };
        for (field, value) in set {
            *found.get_mut(*field) = Some(Cow::Borrowed(value));
        }
        found
    }

    /// The request of what was found, taken for text as CSV's cells are.
    fn request(
        mut found: PerField<Option<Cow<'static, [u8]>>>,
        invalid_phone: InvalidPhone,
    ) -> Result<UserRequest<'static>, Failure> {
        let find = |field| {
            let bytes = found.get_mut(field).take();
            bytes.map(|bytes| text(bytes, field)).transpose()
        };
        UserRequest::new(find, invalid_phone)
    }

    fn reason(set: &[(Field, &'static [u8])]) -> Reason {
        request(user(set), InvalidPhone::Reject).unwrap_err().reason
    }

    #[test]
    fn values_are_trimmed_of_unicode_white_space_and_control_characters() {
        let request = request(
            user(&[(
                Field::Name,
                "\u{a0}\u{2003} Jane\u{7}\nDoe\u{85} ".as_bytes(),
            )]),
            InvalidPhone::Reject,
        )
        .unwrap();
        assert_eq!(request.name, "JaneDoe");
    }

    #[test]
    fn each_broken_rule_has_its_reason() {
        use Field::{Email, Ip, Name, Phone, UserAgent};
        for (set, expected) in [
            (&[(Name, &b" "[..])][..], Reason::MissingName),
            (&[(Ip, b"")], Reason::MissingIp),
            (&[(UserAgent, b"\t")], Reason::MissingUserAgent),
            (&[(Email, b"")], Reason::MissingContact),
            (&[(Ip, b"1.2.3")], Reason::InvalidIp),
            (&[(Ip, b"256.1.1.1")], Reason::InvalidIp),
            (&[(Ip, b"fe80::1%eth0")], Reason::InvalidIp),
            (&[(Email, b"jane")], Reason::InvalidEmail),
            (&[(Email, b"@example.com")], Reason::InvalidEmail),
            (&[(Email, b"jane@")], Reason::InvalidEmail),
            (&[(Email, b"a@b@c")], Reason::InvalidEmail),
            (&[(Email, b"a b@c")], Reason::InvalidEmail),
            (&[(Phone, b"0151 2345678")], Reason::InvalidPhone),
            (&[(Phone, b"+123456")], Reason::InvalidPhone),
            (&[(Phone, b"+1234567890123456")], Reason::InvalidPhone),
            (&[(Phone, b"+49 151 CALLME")], Reason::InvalidPhone),
            (&[(Name, b"Jane\0")], Reason::NulByte),
            (&[(Name, b"Jane\xff")], Reason::NotUtf8),
        ] {
            assert_eq!(reason(set), expected, "{set:?}");
        }
    }

    #[test]
    fn an_email_of_254_characters_passes_and_of_255_does_not() {
        let email = |length: usize| {
            Cow::Owned(format!("{}@example.com", "x".repeat(length - 12)).into_bytes())
        };
        let with = |length| {
            request(
                PerField {
                    email: Some(email(length)),
                    ..user(&[])
                },
                InvalidPhone::Reject,
            )
        };
        assert!(with(254).is_ok());
        assert_eq!(with(255).unwrap_err().reason, Reason::InvalidEmail);
    }

    #[test]
    fn phones_come_into_the_international_form() {
        for (written, sent) in [
            ("+1 (555) 010-0199", "+15550100199"),
            ("0049.151.2345678", "+491512345678"),
            ("+44 (0)20 7946 0958", "+442079460958"),
            ("0049 (0) 151 2345678", "+491512345678"),
            ("+44\u{a0}20\u{2011}7946 [0958]", "+442079460958"),
            ("(+44)(0)20 7946 0958", "+442079460958"),
            ("00 44-(0)20 7946 0958", "+442079460958"),
            // A zero that is not directly behind the country code is a digit like any other.
            ("+44 20 (0)7946 0958", "+4420079460958"),
            ("+4420 (0)7946 0958", "+4420079460958"),
            ("+1 555 010 (0)199", "+15550100199"),
        ] {
            let request = request(
                user(&[(Field::Phone, written.as_bytes())]),
                InvalidPhone::Reject,
            )
            .unwrap();
            assert_eq!(request.phone.as_deref(), Some(sent));
        }
    }

    #[test]
    fn a_country_code_never_starts_with_0() {
        for written in [
            "+0151 2345678",
            "000151 2345678",
            "+ (0)151 2345678",
            "+0(0)151 2345678",
        ] {
            let failure = request(
                user(&[(Field::Phone, written.as_bytes())]),
                InvalidPhone::Reject,
            )
            .unwrap_err();
            assert_eq!(
                (failure.reason, &*failure.message),
                (
                    Reason::InvalidPhone,
                    &*format!("phone `{written}` has a country code that starts with 0")
                )
            );
        }
    }

    #[test]
    fn a_bad_phone_is_dropped_only_when_asked_and_only_beside_an_email() {
        let bad = || user(&[(Field::Phone, b"12")]);
        assert_eq!(request(bad(), InvalidPhone::Drop).unwrap().phone, None);
        let alone = PerField {
            email: None,
            ..bad()
        };
        assert_eq!(
            request(alone, InvalidPhone::Drop).unwrap_err().reason,
            Reason::InvalidPhone
        );
    }
}
