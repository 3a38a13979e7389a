//! Why a certificate is not trusted, in words for a person.
//!
//! What stands in a certificate is anybody's: names are cut and quoted as any foreign text.

use std::time::{Duration, UNIX_EPOCH};

use rustls::CertificateError;

use crate::base::error::quoted;

/// Names of hosts that are shown; a certificate of a large hoster has hundreds.
const NAMES: usize = 3;
/// The longest explanation that is taken from the library, with what it quotes of the certificate.
const CHARACTERS: usize = 300;

/// Why a certificate is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Distrust {
    /// What is wrong with it.
    pub(crate) why: String,
    /// The way out, where there is one on this side.
    pub(crate) hint: Option<&'static str>,
}

/// For what was signed by nobody whom the system knows. It must be right as well where the option was given.
const BY_WHOM: &str = "`--ca-file FILE` takes the certificate of the authority that signed it, or the service's own certificate";

/// What is wrong with a certificate, and what can be done.
pub(super) fn distrust(error: &CertificateError) -> Distrust {
    use CertificateError as Wrong;
    let hint = match error {
        Wrong::UnknownIssuer | Wrong::BadSignature => Some(BY_WHOM),
        Wrong::Other(_) if is(error, CA_AS_SERVER) => Some(BY_WHOM),
        Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => Some(
            "give the address with a name that the certificate is for, as `--base-url https://NAME`",
        ),
        Wrong::NotValidYet | Wrong::NotValidYetContext { .. } => {
            Some("check this machine's clock with `date`")
        }
        _ => None,
    };
    Distrust {
        why: words(error),
        hint,
    }
}

/// What the library calls an authority's certificate that a server shows as its own.
const CA_AS_SERVER: &str = "CaUsedAsEndEntity";

/// Whether it is this error of the library below, which has no type that could be named.
fn is(error: &CertificateError, name: &str) -> bool {
    error.to_string().contains(name)
}

fn words(error: &CertificateError) -> String {
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
        Wrong::BadSignature => {
            "its signature is wrong: another authority of the same name signed it, or it was changed"
                .to_owned()
        }
        Wrong::BadEncoding => "it is damaged".to_owned(),
        Wrong::UnhandledCriticalExtension => {
            "it has an extension that must be understood and is not known here".to_owned()
        }
        Wrong::UnsupportedSignatureAlgorithmContext { .. }
        | Wrong::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "it is signed in a way that is not accepted, as with SHA-1".to_owned()
        }
        Wrong::InvalidPurpose | Wrong::InvalidPurposeContext { .. } => {
            "it is not meant for servers".to_owned()
        }
        Wrong::UnknownRevocationStatus
        | Wrong::ExpiredRevocationList
        | Wrong::ExpiredRevocationListContext { .. } => {
            "it is not known whether it was revoked".to_owned()
        }
        other => {
            let known = OTHERS.iter().find(|(name, _)| is(other, name));
            known.map_or_else(|| cut(other.to_string()), |(_, words)| (*words).to_owned())
        }
    }
}

/// Errors of the library below by their names. Were these to change, the new names would be shown.
const OTHERS: [(&str, &str); 5] = [
    (
        CA_AS_SERVER,
        "it is the certificate of an authority and not of a server, as `openssl req -x509` makes it",
    ),
    (
        "EndEntityUsedAsCa",
        "it was signed with the certificate of a server and not of an authority",
    ),
    (
        "UnsupportedCertVersion",
        "it is in the old form X.509 version 1, and version 3 is needed",
    ),
    (
        "NameConstraintViolation",
        "its authority may not sign for this host",
    ),
    (
        "PathLenConstraintViolated",
        "an authority signed it that may only sign for servers through fewer others",
    ),
];

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

    /// An error of the library below, as it names itself.
    struct OfLibrary(&'static str);

    impl std::fmt::Debug for OfLibrary {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::fmt::Display for OfLibrary {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for OfLibrary {}

    fn of_library(name: &'static str) -> CertificateError {
        CertificateError::Other(rustls::OtherError(std::sync::Arc::new(OfLibrary(name))))
    }

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
            (
                CertificateError::InvalidPurpose,
                "it is not meant for servers",
            ),
            (
                of_library("UnsupportedCertVersion"),
                "it is in the old form X.509 version 1, and version 3 is needed",
            ),
            (of_library("NewFashion"), "Other(OtherError(NewFashion))"),
        ] {
            assert_eq!(words(&error), said);
        }
        assert_eq!(distrust(&of_library(CA_AS_SERVER)).hint, Some(BY_WHOM));
        assert_eq!(distrust(&CertificateError::Expired).hint, None);
        let many = not_for(&vec!["DnsName(\"\u{1b}[2J.example\")"; 900]);
        assert!(words(&many).ends_with(", 897 more, not for `api.example.com`"));
        assert!(!words(&many).contains('\u{1b}'));
        assert_eq!(cut("é".repeat(900)).chars().count(), CHARACTERS + 1);
    }
}
