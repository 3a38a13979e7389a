//! A user's request: sanitised and checked.

use std::borrow::Cow;

use super::field::Field;
use super::phone::{self, InvalidPhone, PhoneRules};
use super::sanitise;
use crate::verdict::{Failure, Reason};

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
}

impl<'a> UserRequest<'a> {
    /// Sanitises and checks the values that `find` returns for each field; `None` is absent. `region` returns what the
    /// row's column of regions says, if the file has one; it is asked only for a number that is not international.
    ///
    /// # Errors
    /// The first rule that the row breaks.
    pub(crate) fn new<'r>(
        mut find: impl FnMut(Field) -> Result<Option<Cow<'a, str>>, Failure>,
        phones: PhoneRules,
        region: impl FnOnce() -> Option<Cow<'r, str>>,
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
        let phone = phone.map(|value| phone::phone(value, phones, region));
        let phone = match phone.transpose() {
            Err(_) if phones.invalid == InvalidPhone::Drop && email.is_some() => None,
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
    use super::super::field::PerField;
    use super::super::sanitise::text;
    use super::*;
    use crate::base::encoding::TextEncoding;

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

    /// The request from these values, which are read as text like CSV cells.
    fn request(
        mut found: PerField<Option<Cow<'static, [u8]>>>,
        invalid_phone: InvalidPhone,
    ) -> Result<UserRequest<'static>, Failure> {
        let find = |field| {
            let bytes = found.get_mut(field).take();
            bytes
                .map(|bytes| text(bytes, TextEncoding::UTF_8, field))
                .transpose()
        };
        let phones = PhoneRules {
            invalid: invalid_phone,
            ..PhoneRules::default()
        };
        UserRequest::new(find, phones, || None)
    }

    fn reason(set: &[(Field, &'static [u8])]) -> Reason {
        request(user(set), InvalidPhone::Reject).unwrap_err().reason
    }

    #[test]
    fn unicode_white_space_and_control_characters_are_removed() {
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
    fn phone_numbers_are_converted_to_the_international_form() {
        for (written, sent) in [
            ("+1 (555) 010-0199", "+15550100199"),
            ("0049.151.2345678", "+491512345678"),
            ("+44 (0)20 7946 0958", "+442079460958"),
            ("0049 (0) 151 2345678", "+491512345678"),
            ("+44\u{a0}20\u{2011}7946 [0958]", "+442079460958"),
            ("(+44)(0)20 7946 0958", "+442079460958"),
            ("00 44-(0)20 7946 0958", "+442079460958"),
            // A zero that is not directly after the country code is an ordinary digit.
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
    fn an_invalid_phone_is_dropped_only_on_request_and_only_if_there_is_an_email() {
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
