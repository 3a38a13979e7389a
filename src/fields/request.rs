//! A user's request: sanitised and checked.

use std::borrow::Cow;
use std::ops::AddAssign;

use serde::Serialize;

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
    /// An email address is sent as it is. A row with such a phone number fails: the service takes no other form.
    Send,
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
    /// A row may have any of the fields: those that it lacks are empty.
    pub(crate) is_list: bool,
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
    pub(crate) fn set_default(&mut self, field: Field, value: &str) -> Result<()> {
        let value = sanitise::constant(value, field).map_err(|wrong| {
            Error::usage(format!(
                "no row could be sent with `--default {field}=…`: its value {wrong}"
            ))
        })?;
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
    ///
    /// # Errors
    /// That of the cell, or quotes around its value.
    #[inline]
    pub(crate) fn cell<'a>(
        &self,
        cell: Result<Option<Cow<'a, str>>, Failure>,
    ) -> Result<Option<Cow<'a, str>>, Failure> {
        let is_value = |text: &Cow<'_, str>| !self.nulls.iter().any(|null| null == text.trim());
        match cell?.filter(is_value) {
            Some(text) if sanitise::is_quoted(&text) => Err(Failure::new(
                Reason::StrayQuotes,
                "a value has quotes at both ends that do not belong to it",
            )),
            cell => Ok(cell),
        }
    }
}

/// What a person should know of the values of rows, in numbers of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Noticed {
    /// Rows that are sent without a phone number or an email address that is invalid.
    pub(crate) dropped: u64,
    /// Rows that are sent with one address of a text that has more in it: the first public one of a list, or without its port.
    pub(crate) addresses_shortened: u64,
    /// Cells with a word such as `NULL`, which is taken for a value.
    pub(crate) null_words: u64,
}

impl AddAssign for Noticed {
    fn add_assign(&mut self, other: Self) {
        self.dropped += other.dropped;
        self.addresses_shortened += other.addresses_shortened;
        self.null_words += other.null_words;
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
}

impl<'a> UserRequest<'a> {
    /// Sanitises and checks the values that `find` returns for each field; `None` is absent. `region` returns what the
    /// row's column of regions says, if the file has one; it is asked only for a number that is not international. What is
    /// noticed is added to `noticed`.
    ///
    /// # Errors
    /// The first rule that the row breaks.
    pub(crate) fn new<'r>(
        mut find: impl FnMut(Field) -> Result<Option<Cow<'a, str>>, Failure>,
        rules: &'a FieldRules,
        region: impl FnOnce() -> Option<Cow<'r, str>>,
        noticed: &mut Noticed,
    ) -> Result<Self, Failure> {
        let mut clean = |field| {
            let value = match rules.cell(find(field))? {
                Some(text) => sanitise::clean(text, field)?,
                None => None,
            };
            let is_null = value.as_deref().is_some_and(sanitise::is_null_word);
            noticed.null_words += u64::from(is_null);
            let default = || rules.defaults.get(field).as_deref().map(Cow::Borrowed);
            Ok::<_, Failure>(value.or_else(default))
        };
        let nothing = || rules.is_list.then_some(Cow::Borrowed(""));
        let mut required = |field, reason| {
            let missing = || Failure::new(reason, format!("no {field}"));
            clean(field)?.or_else(nothing).ok_or_else(missing)
        };
        let name = required(Field::Name, Reason::MissingName)?;
        let ip = required(Field::Ip, Reason::MissingIp)?;
        let user_agent = required(Field::UserAgent, Reason::MissingUserAgent)?;
        let email = clean(Field::Email)?;
        let phone = clean(Field::Phone)?;

        let (ip, is_shortened) = match &*ip {
            "" => (ip, false),
            _ => sanitise::ip(ip)?,
        };
        let as_written = email.clone();
        let email = email.map(sanitise::email).transpose();
        let phone = phone.map(|value| phone::phone(value, rules.region, region));
        let (email, phone, dropped) = match (email, phone.transpose()) {
            (Err(_), phone) if rules.invalid == Invalid::Send => (as_written, phone?, 0),
            (Err(_), Ok(Some(phone))) if rules.invalid == Invalid::Drop => (None, Some(phone), 1),
            (Ok(Some(email)), Err(_)) if rules.invalid == Invalid::Drop => (Some(email), None, 1),
            (email, phone) => (email?, phone?, 0),
        };
        if email.is_none() && phone.is_none() && !rules.is_list {
            return Err(Failure::new(
                Reason::MissingContact,
                "neither email nor phone",
            ));
        }
        noticed.dropped += dropped;
        noticed.addresses_shortened += u64::from(is_shortened);
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
    use Field::{Email, Ip, Name, Phone, UserAgent};

    use super::super::sanitise::text;
    use super::*;
    use crate::base::encoding::TextEncoding;

    /// A user's request, except for what is set, whose values are read as text like CSV cells.
    fn request<'a>(
        set: &[(Field, &'a [u8])],
        rules: &'a FieldRules,
    ) -> Result<UserRequest<'a>, Failure> {
        noticing(set, rules, &mut Noticed::default())
    }

    /// The same, with what is noticed of it.
    fn noticing<'a>(
        set: &[(Field, &'a [u8])],
        rules: &'a FieldRules,
        noticed: &mut Noticed,
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
        UserRequest::new(find, rules, || None, noticed)
    }

    fn rules(invalid: Invalid) -> FieldRules {
        FieldRules {
            invalid,
            ..FieldRules::default()
        }
    }

    #[test]
    fn one_person_is_one_request_however_the_values_are_written() {
        for (field, written, sent) in [
            (Name, "\u{a0}\u{2003} Jane\u{7}\nDoe\u{85} ", "Jane Doe"),
            (Name, "Jane\tDoe", "Jane Doe"),
            (Name, "Jane  \r\n\r\n Doe", "Jane Doe"),
            (Name, "Jane \u{200b} Doe", "Jane Doe"),
            (Name, "Jane\u{2028}van\u{3000}Doe", "Jane van Doe"),
            (Name, "Zoe\u{308} Doe", "Zo\u{eb} Doe"),
            (Name, "Zoe\u{200b}\u{308}", "Zo\u{eb}"),
            (Name, "\u{212b}sa", "\u{c5}sa"),
            // Only another form of the same letters.
            (
                Name,
                "Zo\u{eb} \u{fb01}\u{2460}",
                "Zo\u{eb} \u{fb01}\u{2460}",
            ),
            (
                UserAgent,
                "Mozilla/5.0\n(X11;  Linux)",
                "Mozilla/5.0 (X11; Linux)",
            ),
            (Email, "Jane.Doe@EXAMPLE.Com", "Jane.Doe@example.com"),
            (Email, "a@B\u{dc}CHER.example", "a@b\u{fc}cher.example"),
            (Email, "mailto:A@x.org", "A@x.org"),
            (Email, "MAILTO: a@x.org", "a@x.org"),
            (Email, "SMTP:a@x.org", "a@x.org"),
            (Email, "<a@x.org>", "a@x.org"),
            (Email, "< a@x.org > ;", "a@x.org"),
            (Email, "<mailto:a@x.org>,", "a@x.org"),
            (Email, "a@x.org,", "a@x.org"),
            (Email, "a@x.org ; ", "a@x.org"),
            (Email, "o'neil+a|b!#@x-y_z.org.", "o'neil+a|b!#@x-y_z.org."),
            (Email, "\"a,b\"@x.org", "\"a,b\"@x.org"),
            (Email, "a@[192.0.2.1]", "a@[192.0.2.1]"),
            (Phone, "\n+372\t555 1234\r\n", "+3725551234"),
            (Ip, "::ffff:203.0.113.5", "203.0.113.5"),
            (Ip, "::FFFF:cb00:7105", "203.0.113.5"),
            (Ip, "2001:DB8::1", "2001:DB8::1"),
            (Ip, "\t10.0.0.1\n", "10.0.0.1"),
        ] {
            let rules = rules(Invalid::Reject);
            let request = request(&[(field, written.as_bytes())], &rules);
            let request = request.map_err(|failure| failure.message).unwrap();
            let found = match field {
                Name => &request.name,
                Email => request.email.as_ref().unwrap(),
                Phone => request.phone.as_ref().unwrap(),
                Ip => &request.ip,
                UserAgent => &request.user_agent,
            };
            assert_eq!(found, sent, "{field} {written:?}");
        }
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
            // Perhaps two numbers, which would be read as one.
            (Phone, b"+372 555 1234\n5551", Reason::InvalidPhone),
            (
                Phone,
                b"+372 555 1234\r\n+372 555 1235",
                Reason::InvalidPhone,
            ),
            (
                Phone,
                "+372 555\u{2028}1234".as_bytes(),
                Reason::InvalidPhone,
            ),
            (Email, long.as_bytes(), Reason::InvalidEmail),
            (Phone, b"0151 2345678", Reason::InvalidPhone),
            (Phone, b"+123456", Reason::InvalidPhone),
            (Phone, b"+1234567890123456", Reason::InvalidPhone),
            (Phone, b"+49 151 CALLME", Reason::InvalidPhone),
            // Decimals, of which more than one may be the end of a number; and a zero that is dialled within the country.
            (Phone, b"+491512345678.00", Reason::InvalidPhone),
            (Phone, b"1701234567.0", Reason::InvalidPhone),
            (Phone, b"+49 0151 234", Reason::InvalidPhone),
            // A country code never starts with 0.
            (Phone, b"+0151 2345678", Reason::InvalidPhone),
            (Phone, b"000151 2345678", Reason::InvalidPhone),
            (Phone, b"+ (0)151 2345678", Reason::InvalidPhone),
            // Neither the one nor the other.
            (Phone, b"=+442079460958+1", Reason::InvalidPhone),
            (Phone, b"=\"+442079460958", Reason::InvalidPhone),
            (Phone, b"tel:+442079460958;ext=5", Reason::InvalidPhone),
            (Phone, b"fax:+442079460958", Reason::InvalidPhone),
            (Phone, b"'+442079460958'", Reason::StrayQuotes),
            (Name, b"Jane\0", Reason::NulByte),
            (Name, b"Jane\xff", Reason::NotUtf8),
            // Quotes that are not those of the file's format.
            (Email, b" \"a@x.org\"", Reason::StrayQuotes),
            (Name, b"'Jane Doe'", Reason::StrayQuotes),
            (
                UserAgent,
                "\u{201c}curl\u{201d}".as_bytes(),
                Reason::StrayQuotes,
            ),
        ] {
            let rules = rules(Invalid::Reject);
            let failure = request(&[(field, value)], &rules).unwrap_err();
            assert_eq!(failure.reason, expected, "{field} {}", value.escape_ascii());
        }
        assert!(request(&[(Email, longest.as_bytes())], &rules(Invalid::Reject)).is_ok());
    }

    #[test]
    fn more_than_an_address_is_no_email() {
        for written in [
            "Jane <a@x.org>",
            "[a@x.org](mailto:a)",
            "a@x.org|",
            "a@x.org?subject=b",
            "<a@x.org",
            "xmpp:a@x.org",
            "mailto:",
            ",;",
            "a@x.org; b@x.org",
            "a@x.org\nb@x.org",
            "a@\nx.org",
        ] {
            let rules = rules(Invalid::Reject);
            let failure = request(&[(Email, written.as_bytes())], &rules).unwrap_err();
            assert_eq!(failure.reason, Reason::InvalidEmail, "{written}");
        }
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
            // A program took it for a decimal number.
            ("+491512345678.0", "+491512345678"),
            // The zero is dialled within the country, except in Italy.
            ("+44 (020) 7946 0958", "+442079460958"),
            ("+49 0170 1234567", "+491701234567"),
            ("0033 06 12 34 56 78", "+33612345678"),
            ("+39 06 698 12345", "+390669812345"),
            (
                "\u{ff0b}\u{ff14}\u{ff14} \u{ff12}\u{ff10} 7946 0958",
                "+442079460958",
            ),
            ("+\u{664}\u{664} 20 7946 0958", "+442079460958"),
            // What keeps a spreadsheet from making a number of it, and a link.
            ("'+442079460958", "+442079460958"),
            ("\u{2019}0044 20 7946 0958", "+442079460958"),
            ("=\"+442079460958\"", "+442079460958"),
            ("tel:+44-20-7946-0958", "+442079460958"),
            ("TEL:+442079460958.0", "+442079460958"),
        ] {
            let rules = rules(Invalid::Reject);
            let request = request(&[(Phone, written.as_bytes())], &rules).unwrap();
            assert_eq!(request.phone.as_deref(), Some(sent));
        }
    }

    #[test]
    fn what_is_not_seen_is_not_sent() {
        let rules = rules(Invalid::Reject);
        for unseen in [
            "\u{200b}", "\u{200e}", "\u{202c}", "\u{2066}", "\u{feff}", "\u{ad}", "\u{fe0f}",
            "\u{61c}",
        ] {
            let email = format!("ja{unseen}ne@example.com{unseen}");
            let phone = format!("{unseen}+1 555{unseen} 0100199");
            let set = [(Email, email.as_bytes()), (Phone, phone.as_bytes())];
            let request = request(&set, &rules).unwrap();
            let found = (request.email.as_deref(), request.phone.as_deref());
            assert_eq!(
                found,
                (Some("jane@example.com"), Some("+15550100199")),
                "{}",
                unseen.escape_unicode()
            );
        }
    }

    #[test]
    fn one_address_is_taken_out_of_a_list_and_without_its_port_and_words_for_nothing_are_noticed() {
        let rules = rules(Invalid::Reject);
        let mut noticed = Noticed::default();
        for (written, sent) in [
            ("203.0.113.5, 10.0.0.1", "203.0.113.5"),
            ("2001:db8::1;10.0.0.1", "2001:db8::1"),
            ("203.0.113.5:443", "203.0.113.5"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[::ffff:203.0.113.5]:443", "203.0.113.5"),
            ("10.0.0.1, 203.0.113.5", "203.0.113.5"),
            ("10.0.0.1:80 , 203.0.113.5:443", "203.0.113.5"),
            (
                "192.168.1.1;100.64.0.1 169.254.0.1\n172.31.0.1,172.32.0.1",
                "172.32.0.1",
            ),
            ("127.0.0.1,fd00::1,fe80::1,::1,2001:db8::1", "2001:db8::1"),
            ("::ffff:10.0.0.1, 203.0.113.5, 203.0.113.6", "203.0.113.5"),
            // None is public, or something else is before it.
            ("10.0.0.1, 10.0.0.2", "10.0.0.1"),
            ("10.0.0.1, unknown, 203.0.113.5", "10.0.0.1"),
            ("203.0.113.5 (proxy)", "203.0.113.5"),
        ] {
            let request = noticing(&[(Ip, written.as_bytes())], &rules, &mut noticed).unwrap();
            assert_eq!(request.ip, sent);
        }
        assert_eq!((noticed.addresses_shortened, noticed.null_words), (14, 0));
        for bad in ["unknown, 10.0.0.1", "10.0.0.1:x", ",10.0.0.1", "10.0.0.1/8"] {
            assert!(request(&[(Ip, bad.as_bytes())], &rules).is_err(), "{bad}");
        }
        let nulls: [(Field, &[u8]); 2] = [(Name, b"NULL"), (UserAgent, b"\\N")];
        assert!(noticing(&nulls, &rules, &mut noticed).is_ok());
        assert!(noticing(&[(Email, b"n/a")], &rules, &mut noticed).is_err());
        assert_eq!(noticed.null_words, 3);
    }

    #[test]
    fn an_invalid_phone_or_email_is_dropped_only_on_request_and_only_if_there_is_the_other() {
        let (number, bad_number) = ((Phone, &b"+15550100199"[..]), (Phone, &b"12"[..]));
        let (no_email, bad_email) = ((Email, &b""[..]), (Email, &b"jane"[..]));
        for (invalid, set, expected) in [
            (Invalid::Drop, &[bad_number][..], Ok(1)),
            (Invalid::Drop, &[bad_email, number], Ok(1)),
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
            (
                Invalid::Send,
                &[bad_email, bad_number],
                Err(Reason::InvalidPhone),
            ),
        ] {
            let rules = rules(invalid);
            let mut noticed = Noticed::default();
            let found = noticing(set, &rules, &mut noticed);
            if let Ok(request) = &found {
                let is_sent = [request.email.is_some(), request.phone.is_some()];
                assert_eq!(is_sent, [set.len() == 1, set.len() == 2]);
            }
            let found = found.map(|_| noticed.dropped);
            assert_eq!(found.map_err(|failure| failure.reason), expected, "{set:?}");
        }
    }

    #[test]
    fn an_invalid_email_is_sent_as_it_is_only_on_request() {
        let rules = rules(Invalid::Send);
        for (written, sent) in [
            (" Jane\n<a@X.org> ", Some("Jane <a@X.org>")),
            ("<a@X.org>", Some("a@x.org")),
            ("nobody", Some("nobody")),
            (" ", None),
        ] {
            let set = [(Email, written.as_bytes()), (Phone, b"+15550100199")];
            assert_eq!(request(&set, &rules).unwrap().email.as_deref(), sent);
        }
    }

    #[test]
    fn a_default_is_in_its_one_form_and_one_that_cannot_be_used_is_refused() {
        let mut rules = FieldRules::default();
        rules.set_default(UserAgent, " un\tknown ").unwrap();
        let request = request(&[(UserAgent, b"")], &rules);
        assert_eq!(request.unwrap().user_agent, "un known");
        for (field, value) in [(UserAgent, "again"), (Ip, "nowhere")] {
            assert!(rules.set_default(field, value).is_err());
        }
    }
}
