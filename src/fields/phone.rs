//! Phone numbers: international ones as they are, national ones by the rules of their region.
//!
//! A number that is international already never depends on a region.
//!
//! Numbering plans come from `rlibphonenumber`, a port of Google's libphonenumber. Of the two ports in Rust it is the faithful
//! one: it converts all 1,536 of libphonenumber's own examples, and `phonenumber` (0.3.10) fails on 19 of them, among others on
//! all toll-free numbers of Russia. It follows Google's releases by itself, and is compared with the original by fuzzing.
//! A national number costs about 1 µs (`phonenumber`: 11 to 25), after 5 ms for the metadata, which are loaded only
//! when a region is named. With `regex-lite` instead of `regex`, it would be 8 µs. The metadata take 7 MiB, and the rules
//! of a region 0.5 to 2 MiB more, once they are used.

use std::borrow::Cow;
use std::fmt;

use rlibphonenumber::{PHONE_NUMBER_UTIL, PhoneNumberFormat, Region};

use crate::base::text::quoted;
use crate::verdict::{Failure, Reason};

/// Digits of a phone number: ITU-T E.164 allows 15; the service documents at least 7.
const PHONE_DIGITS: std::ops::RangeInclusive<usize> = 7..=15;
/// Digits of a country code (ITU-T E.164).
const COUNTRY_CODE_DIGITS: std::ops::RangeInclusive<usize> = 1..=3;

/// The number in the international form. `named` returns what the row's column of regions says, if the file has one; it is called
/// only for a number that is not international. An unknown text there, such as `Austria`, does not stand for the region of all
/// rows.
///
/// # Errors
/// It is neither international nor valid in its region. If the region is known, the message does not repeat the number.
pub(super) fn phone<'a, 'r>(
    value: Cow<'a, str>,
    of_all_rows: Option<PhoneRegion>,
    named: impl FnOnce() -> Option<Cow<'r, str>>,
) -> Result<Cow<'a, str>, Failure> {
    let written = match international(value) {
        Ok(phone) => return Ok(phone),
        Err(written) => written,
    };
    let named = named();
    let region = match named.as_deref().map(str::trim) {
        None | Some("") => of_all_rows,
        Some(code) => PhoneRegion::of_code(code),
    };
    let invalid = |message: String| Failure::new(Reason::InvalidPhone, message);
    match (region, written.national()) {
        (Some(region), Some(national)) => {
            let phone = region.international(&national);
            phone.map(Cow::Owned).map_err(invalid)
        }
        (None, Some(_)) if named.is_some() => Err(invalid(
            "phone is not international, and the row names no known region".to_owned(),
        )),
        _ => Err(written.failure()),
    }
}

/// A phone number that is not in the international form.
#[derive(Debug)]
pub(super) struct NotInternational<'a> {
    written: Cow<'a, str>,
    /// The same without what people write between digits, and with `+` for a leading `00`.
    bare: String,
}

impl NotInternational<'_> {
    /// The digits of a number that could be a national one: it has no `+`, no leading `00`, and no letters, which could be an
    /// extension.
    fn national(&self) -> Option<String> {
        let digits = self.bare.replace('/', "");
        (!digits.is_empty() && digits.chars().all(char::is_numeric)).then_some(digits)
    }

    /// Why the row with this number fails.
    fn failure(&self) -> Failure {
        let wrong = if self.bare.starts_with("+0") {
            "has a country code that starts with 0"
        } else if is_international(&self.bare) {
            "has a 0 after its country code that no number there has"
        } else {
            "is not + and 7 to 15 digits"
        };
        let message = format!("phone {} {wrong}", quoted(&self.written));
        Failure::new(Reason::InvalidPhone, message)
    }
}

/// The number, if it is international apart from what people write between digits.
///
/// # Errors
/// It is not international.
pub(super) fn international(value: Cow<'_, str>) -> Result<Cow<'_, str>, NotInternational<'_>> {
    if is_international(&value) && !has_trunk_zero(&value) {
        return Ok(value);
    }
    let number = unwrapped(&value);
    let whole = match decimals(number) {
        Some((digits, "0")) => digits,
        // More zeros may be the end of a number with a dot in it.
        Some(_) => "",
        None => number,
    };
    let plain: String = whole.chars().map(ascii).collect();
    let bare = match plain.split_once("(0)") {
        Some((before, after)) if is_country_code(before) => {
            [before, after].concat().replace(is_ornament, "")
        }
        _ => plain.replace(is_ornament, ""),
    };
    let bare = match bare.strip_prefix("00") {
        Some(rest) => format!("+{rest}"),
        None => bare,
    };
    if is_international(&bare) {
        if !has_trunk_zero(&bare) {
            return Ok(Cow::Owned(bare));
        }
        // The library knows the countries whose zero is dialled from abroad as well, such as Italy.
        if let Some((_, number)) = existing(&bare, None) {
            return Ok(Cow::Owned(number));
        }
    }
    Err(NotInternational {
        written: value,
        bare,
    })
}

/// A number without what links and spreadsheets write around one: `tel:`, and an apostrophe or `="…"`, which keep it a text.
fn unwrapped(text: &str) -> &str {
    let inner = text.strip_prefix("=\"");
    let inner = inner.and_then(|text| text.strip_suffix('"'));
    let text = inner.unwrap_or(text).trim_start_matches(['\'', '’']);
    match text.split_once(':') {
        Some((scheme, number)) if scheme.eq_ignore_ascii_case("tel") => number,
        _ => text,
    }
}

/// Whether people write this character between digits. A line break is followed by another number.
fn is_ornament(c: char) -> bool {
    c.is_whitespace() && c != '\n'
        || matches!(
            c,
            '.' | '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '(' | ')' | '[' | ']'
        )
}

/// The parts of a number before and after its only dot, if the second has only zeros. Programs add these decimals if they take a
/// column of whole numbers for decimals, because one of them is missing.
fn decimals(value: &str) -> Option<(&str, &str)> {
    let is_number = |text: &str| {
        text.bytes()
            .all(|byte| byte == b'+' || byte.is_ascii_digit())
    };
    let (digits, decimals) = value.split_once('.')?;
    let is_decimal =
        is_number(digits) && !decimals.is_empty() && decimals.bytes().all(|byte| byte == b'0');
    is_decimal.then_some((digits, decimals))
}

/// The ASCII character for a full-width or Arabic digit, or for full-width punctuation, as keyboards elsewhere have them.
fn ascii(c: char) -> char {
    let plain = match c {
        '\u{ff08}'..='\u{ff0e}' | '\u{ff10}'..='\u{ff19}' => u32::from(c) - 0xfee0,
        '\u{660}'..='\u{669}' => u32::from(c) - 0x630,
        '\u{6f0}'..='\u{6f9}' => u32::from(c) - 0x6c0,
        c => u32::from(c),
    };
    char::from_u32(plain).unwrap_or(c)
}

/// Whether the number in the international form has one zero after its country code. In most countries that zero is dialled
/// only within the country, and no number has it from abroad.
fn has_trunk_zero(phone: &str) -> bool {
    let digits = phone.as_bytes().get(1..).unwrap_or_default();
    // The codes of ITU-T E.164 with one and two digits; all others have three.
    let code = match digits {
        [b'1' | b'7', ..] => 1,
        [b'2', b'0' | b'7', ..]
        | [b'3', b'0'..=b'4' | b'6' | b'9', ..]
        | [b'4', b'0' | b'1' | b'3'..=b'9', ..]
        | [b'5', b'1'..=b'8', ..]
        | [b'6', b'0'..=b'6', ..]
        | [b'8', b'1' | b'2' | b'4' | b'6', ..]
        | [b'9', b'0'..=b'5' | b'8', ..] => 2,
        _ => 3,
    };
    matches!(digits.get(code..), Some([b'0', b'1'..=b'9', ..]))
}

/// The country code and the international form of a number that is dialled in this region, or is international; `None` if no number
/// can be like this.
fn existing(dialled: &str, region: Option<Region>) -> Option<(i32, String)> {
    let number = PHONE_NUMBER_UTIL.parse(dialled, region).ok()?;
    let is_valid = PHONE_NUMBER_UTIL.is_valid_number(&number);
    let international = PHONE_NUMBER_UTIL.format(&number, PhoneNumberFormat::E164);
    (is_valid && is_international(&international))
        .then(|| (number.country_code, international.into_owned()))
}

/// Whether this is a country code and nothing else, such as the `+44 ` of `+44 (0)20 …`. A zero in
/// brackets after it is for callers within the country, and must be dropped to keep the number
/// right. Anywhere else it is an ordinary digit.
fn is_country_code(before: &str) -> bool {
    let before = before.trim_matches(is_ornament);
    let code = before.strip_prefix('+').or(before.strip_prefix("00"));
    let code = code.unwrap_or_default().trim_start_matches(is_ornament);
    COUNTRY_CODE_DIGITS.contains(&code.len())
        && !code.starts_with('0')
        && code.bytes().all(|byte| byte.is_ascii_digit())
}

/// No country code starts with 0 (ITU-T E.164, section 6.2.1).
fn is_international(phone: &str) -> bool {
    let digits = phone.strip_prefix('+').unwrap_or_default();
    PHONE_DIGITS.contains(&digits.len())
        && !digits.starts_with('0')
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// How a number that is not international is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhoneRegion {
    /// As it is dialled in a region with a numbering plan.
    Of(Region),
    /// As an international number without its plus.
    WithoutPlus,
}

impl PhoneRegion {
    /// The region with this ISO 3166 code of two letters, in upper or lower case; `+` stands for none.
    pub fn of_code(code: &str) -> Option<Self> {
        // ISO 3166 reserves `UK` for the same region, and many files have it.
        let code = match code.trim() {
            "+" => return Some(Self::WithoutPlus),
            uk if uk.eq_ignore_ascii_case("UK") => "GB",
            code => code,
        };
        let region = Region::from_code(code).ok()?;
        // The library knows every pair of letters, but only these have numbers.
        PHONE_NUMBER_UTIL
            .get_country_code_for_region(region)
            .map(|_| Self::Of(region))
    }

    /// The international form of a number as it is dialled in this region.
    ///
    /// Validity is decided by the ranges that are in use, not only by the length, because a wrong number may be another
    /// person's. Numbers of other regions with the same calling code are valid as well: they are dialled alike.
    ///
    /// # Errors
    /// What is wrong: it is not valid, or has two meanings.
    fn international(self, dialled: &str) -> Result<String, String> {
        let Self::Of(region) = self else {
            let number = existing(&format!("+{dialled}"), None).map(|(_, number)| number);
            return number.ok_or_else(|| "phone is not valid with a `+` before it".to_owned());
        };
        let (code, number) = existing(dialled, Some(region)).ok_or_else(|| {
            format!("phone is neither international nor a valid number in {self}")
        })?;
        // `4915123456789` in Germany: an area code without its 0, or the country code without its `+`?
        let code = code.to_string();
        let national = number.get(1 + code.len()..).unwrap_or_default();
        let is_whole = national.len() == dialled.chars().count();
        let may_be_code = is_whole && national.starts_with(&code);
        if may_be_code && existing(&format!("+{national}"), None).is_some() {
            return Err(format!(
                "phone may start with the country code of {self} or not: write it with `+`"
            ));
        }
        Ok(number)
    }
}

impl fmt::Display for PhoneRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(region) => f.write_str(region.as_region_str().as_str()),
            Self::WithoutPlus => f.write_str("+"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent for a number, with `--phone-region` and a row's own region.
    fn sent(written: &str, region: Option<&str>, named: Option<&str>) -> Result<String, String> {
        let region = region.map(|code| PhoneRegion::of_code(code).unwrap());
        phone(written.into(), region, || named.map(Cow::Borrowed))
            .map(Cow::into_owned)
            .map_err(|failure| failure.message.into())
    }

    #[test]
    fn national_numbers_are_read_as_dialled_in_their_region() {
        for (region, written, expected) in [
            ("DE", "0151 23456789", "+4915123456789"),
            ("DE", "(089) 12 34 56", "+4989123456"),
            // A spreadsheet took it for a number.
            ("DE", "15123456789", "+4915123456789"),
            ("FR", "06 12 34 56 78", "+33612345678"),
            ("GB", "020 7946 0958", "+442079460958"),
            // Jersey has the calling code of the United Kingdom.
            ("GB", "07797 712345", "+447797712345"),
            ("US", "415.555.2671", "+14155552671"),
            // No user has this number with the country code in front once more.
            ("GB", "44 20 7946 0958", "+442079460958"),
            ("US", "011 44 20 7946 0958", "+442079460958"),
            // A zero that belongs to the number.
            ("IT", "06 698 12345", "+390669812345"),
            ("RU", "8 (912) 345-67-89", "+79123456789"),
            ("AR", "011 15-2345-6789", "+5491123456789"),
            ("JP", "\u{ff10}\u{ff19}\u{ff10}-1234-5678", "+819012345678"),
        ] {
            assert_eq!(
                sent(written, Some(region), None).as_deref(),
                Ok(expected),
                "{region} {written}"
            );
        }
    }

    #[test]
    fn an_international_number_does_not_depend_on_the_region() {
        for written in ["+1 (415) 555-2671", "0014155552671", "+999 1234567"] {
            let today = sent(written, None, None).unwrap();
            for region in ["DE", "US", "JP"] {
                assert_eq!(sent(written, Some(region), Some("FR")), Ok(today.clone()));
            }
        }
        // Meant to be international, and wrong: never read as a national one.
        for written in ["+0151 23456789", "00 0151 23456789", "+49"] {
            assert_eq!(sent(written, Some("DE"), None), sent(written, None, None));
        }
    }

    #[test]
    fn what_is_invalid_or_has_two_meanings_is_not_converted() {
        for written in ["0", "110", "0151 2345", "1\u{bd}"] {
            let why = sent(written, Some("DE"), None).unwrap_err();
            assert_eq!(
                why,
                "phone is neither international nor a valid number in DE"
            );
        }
        // An extension cannot be sent, and without it the number would be another person's.
        for written in [
            "030 1234567 ext. 12",
            "030 1234567x12",
            "0800 REWE",
            "030#12",
            "-",
            "n/a",
        ] {
            let why = sent(written, Some("DE"), None).unwrap_err();
            assert_eq!(
                why,
                format!("phone `{written}` is not + and 7 to 15 digits")
            );
        }
        for written in ["4915123456789", "49 151 23456789"] {
            let why = sent(written, Some("DE"), None).unwrap_err();
            let expected = "phone may start with the country code of DE or not: write it with `+`";
            assert_eq!(why, expected);
        }
    }

    #[test]
    fn digits_without_a_plus_are_international_where_that_is_said_and_valid() {
        for (written, expected) in [
            ("4915123456789", Some("+4915123456789")),
            ("49 (151) 234-567.89", Some("+4915123456789")),
            ("4915123456789.0", Some("+4915123456789")),
            ("14155552671", Some("+14155552671")),
            ("+999 1234567", Some("+9991234567")),
            ("00 4915123456789", Some("+4915123456789")),
            ("0151 23456789", None),
            ("9991234567", None),
            ("49123", None),
            ("4915123456789 ext. 1", None),
            ("4915123456789\n4915123456788", None),
        ] {
            let found = sent(written, Some("+"), None).ok();
            assert_eq!(found.as_deref(), expected, "{written}");
        }
        assert_eq!(
            sent("030 123456", Some("+"), Some("DE")).unwrap(),
            "+4930123456"
        );
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_written_the_number_is_international_or_not_sent(
            written in "[0-9 ()./+-]{0,24}|[0-9\u{ff10}-\u{ff19}\u{b2}]{1,20}|\\PC{0,20}",
            region in "[A-Z]{2}|",
        ) {
            if let Ok(phone) = sent(&written, None, Some(&region)) {
                proptest::prop_assert!(is_international(&phone), "{phone}");
            }
        }
    }

    #[test]
    fn regions_are_known_by_their_codes() {
        for (code, expected) in [
            (" de\t", Some("DE")),
            ("+", Some("+")),
            ("+49", None),
            ("uk", Some("GB")),
            ("XK", Some("XK")),
            ("ZZ", None),
            ("001", None),
            ("DEU", None),
            ("", None),
            ("D\u{c9}", None),
        ] {
            let region = PhoneRegion::of_code(code).map(|region| region.to_string());
            assert_eq!(region.as_deref(), expected, "{code:?}");
        }
    }
}
