//! Why a certificate is not trusted, in words for people.
//!
//! Anybody can write a certificate: its names are cut and quoted like any text from outside.

use std::time::{Duration, UNIX_EPOCH};

use rustls::CertificateError;

use crate::base::error::quoted;

/// How many host names are shown: the certificate of a large hosting company has hundreds.
const NAMES: usize = 3;
/// The longest explanation that is taken from the library, including what it quotes from the
/// certificate.
const CHARACTERS: usize = 300;

/// Why a certificate is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Distrust {
    /// What is wrong with it.
    pub(crate) why: String,
    /// What the user can do about it, if anything.
    pub(crate) hint: Option<&'static str>,
}

/// For a certificate that was not signed by anybody whom the system trusts. It must also be right
/// if the option was given.
const BY_WHOM: &str = "`--ca-file FILE` accepts the certificate of the authority that signed \
    it, or the service's own certificate";

/// What is wrong with a certificate, and what the user can do.
pub(super) fn distrust(error: &CertificateError) -> Distrust {
    use CertificateError as Wrong;
    let hint = match error {
        Wrong::UnknownIssuer | Wrong::BadSignature => Some(BY_WHOM),
        Wrong::Other(_) if is(error, CA_AS_SERVER) => Some(BY_WHOM),
        Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => {
            Some("use a name that the certificate is for, as in `--base-url https://NAME`")
        }
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

/// The library's name for an authority's certificate that a server shows as its own.
const CA_AS_SERVER: &str = "CaUsedAsEndEntity";

/// Whether it is this error of the underlying library, which has no public type.
fn is(error: &CertificateError, name: &str) -> bool {
    error.to_string().contains(name)
}

fn words(error: &CertificateError) -> String {
    use CertificateError as Wrong;
    match error {
        Wrong::UnknownIssuer => {
            "it is not signed by an authority that this machine trusts".to_owned()
        }
        Wrong::Expired => "it has expired".to_owned(),
        Wrong::ExpiredContext { not_after, .. } => {
            format!("it is not valid after {}", date(not_after.as_secs()))
        }
        Wrong::NotValidYet => "it is not valid yet, by this machine's clock".to_owned(),
        Wrong::NotValidYetContext { not_before, .. } => format!(
            "it is not valid before {}, by this machine's clock",
            date(not_before.as_secs())
        ),
        Wrong::Revoked => "it has been revoked".to_owned(),
        Wrong::NotValidForName => "it is for another host".to_owned(),
        Wrong::NotValidForNameContext {
            expected,
            presented,
        } => other_names(&quoted(&expected.to_str()), presented),
        Wrong::BadSignature => {
            "its signature is wrong: it was changed, or signed by another authority of the same \
             name"
                .to_owned()
        }
        Wrong::BadEncoding => "it is damaged".to_owned(),
        Wrong::UnhandledCriticalExtension => {
            "it has a critical extension that is not supported".to_owned()
        }
        Wrong::UnsupportedSignatureAlgorithmContext { .. }
        | Wrong::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "its signature algorithm is not accepted (SHA-1, for instance)".to_owned()
        }
        Wrong::InvalidPurpose | Wrong::InvalidPurposeContext { .. } => {
            "it is not meant for servers".to_owned()
        }
        Wrong::UnknownRevocationStatus
        | Wrong::ExpiredRevocationList
        | Wrong::ExpiredRevocationListContext { .. } => {
            "it is not known whether it has been revoked".to_owned()
        }
        other => {
            let known = OTHERS.iter().find(|(name, _)| is(other, name));
            known.map_or_else(|| cut(other.to_string()), |(_, words)| (*words).to_owned())
        }
    }
}

/// What a certificate is for instead of the expected host.
fn other_names(expected: &str, presented: &[String]) -> String {
    if presented.is_empty() {
        return format!("it names no host at all, so it is not for {expected}");
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

/// Errors of the underlying library by name. If the names changed, the new ones would be shown.
const OTHERS: [(&str, &str); 5] = [
    (
        CA_AS_SERVER,
        "it is the certificate of an authority and not of a server, as created \
         by `openssl req -x509`",
    ),
    (
        "EndEntityUsedAsCa",
        "it was signed with the certificate of a server and not of an authority",
    ),
    (
        "UnsupportedCertVersion",
        "it is an X.509 version 1 certificate, and version 3 is required",
    ),
    (
        "NameConstraintViolation",
        "its authority is not allowed to sign for this host",
    ),
    (
        "PathLenConstraintViolated",
        "its chain is longer than one of its authorities allows",
    ),
];

/// The name itself: the library writes it in its own notation, such as `DnsName("example.com")`.
fn bare(name: &str) -> &str {
    let inner = name
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'))
        .unwrap_or(name);
    inner.trim_matches('"')
}

/// A date; a certificate may have one that no calendar has.
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

    /// An error of the underlying library with its name.
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
    fn reasons_are_plain_and_names_from_outside_are_cut() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let time = at(1_800_000_000);
        let not_for = |presented: &[&str]| CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("api.example.com").unwrap().to_owned(),
            presented: presented.iter().map(|&name| name.to_owned()).collect(),
        };
        for (error, said) in [
            (
                CertificateError::UnknownIssuer,
                "it is not signed by an authority that this machine trusts",
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
                "it is not valid before a date that no calendar has, by this machine's clock",
            ),
            (
                not_for(&["DnsName(\"a.example\")", "IpAddress(192.0.2.1)"]),
                "it is for `a.example`, `192.0.2.1`, not for `api.example.com`",
            ),
            (
                not_for(&[]),
                "it names no host at all, so it is not for `api.example.com`",
            ),
            (
                CertificateError::InvalidPurpose,
                "it is not meant for servers",
            ),
            (
                of_library("UnsupportedCertVersion"),
                "it is an X.509 version 1 certificate, and version 3 is required",
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
