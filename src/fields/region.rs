//! Regions and their numbering plans, by a port of Google's libphonenumber.
//!
//! This is the only file that names the port, `rlibphonenumber`. Of the two ports in Rust it is the faithful one: it converts
//! all 1,536 of libphonenumber's own examples, and `phonenumber` (0.3.10) fails on 19 of them, among others on all
//! toll-free numbers of Russia. It follows Google's releases by itself, and is compared with the original by fuzzing.
//! A national number costs about 1 µs (`phonenumber`: 11 to 25), after 5 ms for the metadata, which are loaded only
//! when a region is named. With `regex-lite` instead of `regex`, it would be 8 µs. The metadata take 7 MiB, and the rules
//! of a region 0.5 to 2 MiB more, once they are used.

use std::fmt;

use rlibphonenumber::{PHONE_NUMBER_UTIL, PhoneNumberFormat, Region};

/// A region with a numbering plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhoneRegion(Region);

impl PhoneRegion {
    /// The region with this ISO 3166 code of two letters, in upper or lower case.
    #[must_use]
    pub fn of_code(code: &str) -> Option<Self> {
        // ISO 3166 reserves `UK` for the same region, and many files have it.
        let code = match code.trim() {
            uk if uk.eq_ignore_ascii_case("UK") => "GB",
            code => code,
        };
        let region = Region::from_code(code).ok()?;
        // The library knows every pair of letters, but only these have numbers.
        PHONE_NUMBER_UTIL
            .get_country_code_for_region(region)
            .map(|_| Self(region))
    }

    /// The international form of a number as it is dialled in this region.
    ///
    /// Validity is decided by the ranges that are in use, not only by the length, because a wrong number may be somebody
    /// else's. Numbers of other regions with the same calling code are valid as well: they are dialled alike.
    ///
    /// # Errors
    /// It is not valid, or has two meanings.
    pub(super) fn international(self, dialled: &str) -> Result<String, NotDialled> {
        let parse = |number: &str, region| {
            let number = PHONE_NUMBER_UTIL.parse(number, region).ok()?;
            PHONE_NUMBER_UTIL.is_valid_number(&number).then_some(number)
        };
        let number = parse(dialled, Some(self.0)).ok_or(NotDialled::Invalid)?;
        let format = |number| PHONE_NUMBER_UTIL.format(number, PhoneNumberFormat::E164);
        let international = format(&number).into_owned();
        // `4915123456789` in Germany: an area code without its 0, or the country code without its `+`?
        let code = number.country_code.to_string();
        let national = international.get(1 + code.len()..).unwrap_or_default();
        let is_whole = national.len() == dialled.chars().count();
        if is_whole && national.starts_with(&code) && parse(&format!("+{national}"), None).is_some()
        {
            return Err(NotDialled::Ambiguous);
        }
        Ok(international)
    }
}

/// Why a number cannot be converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotDialled {
    /// Nobody has it.
    Invalid,
    /// It may or may not start with the country code.
    Ambiguous,
}

impl fmt::Display for PhoneRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_region_str().as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_known_by_their_codes() {
        for (code, expected) in [
            ("DE", Some("DE")),
            (" de\t", Some("DE")),
            ("uk", Some("GB")),
            ("XK", Some("XK")),
            ("ZZ", None),
            ("001", None),
            ("DEU", None),
            ("49", None),
            ("", None),
            ("D\u{c9}", None),
        ] {
            let region = PhoneRegion::of_code(code).map(|region| region.to_string());
            assert_eq!(region.as_deref(), expected, "{code:?}");
        }
    }
}
