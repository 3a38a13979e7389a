//! Why a certificate is not trusted, in words for a person.
//!
//! What stands in a certificate is anybody's: names are cut and quoted as any foreign text.

use std::time::{Duration, UNIX_EPOCH};

use rustls::CertificateError;

use crate::error::quoted;

/// Names of hosts that are shown; a certificate of a large hoster has hundreds.
const NAMES: usize = 3;
/// The longest explanation that is taken from the library, with what it quotes of the certificate.
const CHARACTERS: usize = 300;

/// What is wrong with it.
pub(super) fn words(error: &CertificateError) -> String {
    use CertificateError as Wrong;
    match error {
        Wrong::UnknownIssuer => "it is not signed by anybody whom this machine trusts".to_owned(),
        Wrong::Expired => "it has expired".to_owned(),
        Wrong::ExpiredContext { not_after, .. } => {
            format!("it is not valid after {}", date(not_after.as_secs()))
        }
        Wrong::NotValidYet => "by this machine's clock it is not valid yet".to_owned(),
        Wrong::NotValidYetContext { not_before, .. } => format!(
            "by this machine's clock it is not valid before {}",
            date(not_before.as_secs())
        ),
        Wrong::Revoked => "it was revoked".to_owned(),
        Wrong::NotValidForName => "it is for another host".to_owned(),
        Wrong::NotValidForNameContext {
            expected,
            presented,
        } => {
            let expected = quoted(&expected.to_str());
            if presented.is_empty() {
                return format!("it is for no host at all, so not for {expected}");
            }
            let mut names: Vec<_> = presented
                .iter()
                .take(NAMES)
                .map(|name| quoted(bare(name)))
                .collect();
            let more = presented.len().saturating_sub(NAMES);
            if more > 0 {
                names.push(format!("{more} more"));
            }
            format!("it is for {}, not for {expected}", names.join(", "))
        }
        other => cut(other.to_string()),
    }
}

/// The name itself: the library gives it in its own notation, as `DnsName("example.com")`.
fn bare(name: &str) -> &str {
    let inner = name
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'))
        .unwrap_or(name);
    inner.trim_matches('"')
}

/// A date; a certificate may name one that no calendar has.
fn date(seconds: u64) -> String {
    const YEAR_10000: u64 = 253_402_300_800;
    let moment = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    match moment.filter(|_| seconds < YEAR_10000) {
        Some(moment) => httpdate::fmt_http_date(moment),
        None => "a date that no calendar has".to_owned(),
    }
}

fn cut(mut words: String) -> String {
    if let Some((end, _)) = words.char_indices().nth(CHARACTERS) {
        words.truncate(end);
        words.push('…');
    }
    words
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rustls::pki_types::{ServerName, UnixTime};

    use super::*;

    #[test]
    fn the_reason_is_said_and_foreign_names_are_short() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let time = at(1_800_000_000);
        let not_for = |presented: &[&str]| CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("api.example.com").unwrap().to_owned(),
            presented: presented.iter().map(|&name| name.to_owned()).collect(),
        };
        for (error, said) in [
            (
                CertificateError::UnknownIssuer,
                "it is not signed by anybody whom this machine trusts",
            ),
            (
                CertificateError::ExpiredContext {
                    time,
                    not_after: at(0),
                },
                "it is not valid after Thu, 01 Jan 1970 00:00:00 GMT",
            ),
            (
                CertificateError::NotValidYetContext {
                    time,
                    not_before: at(u64::MAX),
                },
                "by this machine's clock it is not valid before a date that no calendar has",
            ),
            (
                not_for(&["DnsName(\"a.example\")", "IpAddress(192.0.2.1)"]),
                "it is for `a.example`, `192.0.2.1`, not for `api.example.com`",
            ),
            (
                not_for(&[]),
                "it is for no host at all, so not for `api.example.com`",
            ),
            (CertificateError::BadSignature, "BadSignature"),
        ] {
            assert_eq!(words(&error), said);
        }
        let many = not_for(&vec!["DnsName(\"\u{1b}[2J.example\")"; 900]);
        assert!(words(&many).ends_with(", 897 more, not for `api.example.com`"));
        assert!(!words(&many).contains('\u{1b}'));
        assert_eq!(cut("é".repeat(900)).chars().count(), CHARACTERS + 1);
    }
}
