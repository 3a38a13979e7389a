//! The stand-in's demands on a request (sections 2.1, 4.1 and 5 of the interface, word by word), and the score that it makes
//! up for a user.
//!
//! It is stricter than the service may be: whatever it rejects is a mistake of the client. The score is a documented function of
//! a user's fields and means nothing: it starts at 0.20, adds the points of every pattern that the user shows, and up to 0.59 by
//! a hash of the fields, so that scores differ. The maximum is 10.00.

use std::net::IpAddr;

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use serde::Deserialize;

use crate::base::secret::Secret;

/// The plan that the stand-in simulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SandboxPlan {
    /// `vpn_check` and `advanced` are allowed.
    #[default]
    Paid,
    /// They are rejected.
    Free,
}

/// The user in a request's body.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(
    clippy::struct_field_names,
    reason = "the interface calls it `user_agent`"
)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) email: Option<String>,
    pub(super) phone: Option<String>,
    pub(super) ip: String,
    pub(super) user_agent: String,
    pub(super) vpn_check: Option<bool>,
    pub(super) advanced: Option<bool>,
}

/// The status and the message with which a request is rejected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rejection(pub(super) StatusCode, pub(super) &'static str);

/// Checks the headers that every request must have. If any keys are `accepted`, only these are.
pub(super) fn headers(headers: &HeaderMap, accepted: &[Secret]) -> Result<(), Rejection> {
    let text = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.map(str::trim).unwrap_or_default()
    };
    let key = text(AUTHORIZATION.as_str()).strip_prefix("Bearer ");
    let key = key.map_or("", str::trim);
    let is_refused = !accepted.is_empty() && accepted.iter().all(|it| it.expose() != key);
    let wrong = if key.is_empty() {
        "the Authorization header has no bearer token"
    } else if is_refused {
        "the stand-in does not accept this key"
    } else if text("x-service-id").is_empty() {
        "the X-Service-ID header is missing"
    } else if text(CONTENT_TYPE.as_str()).split(';').next() != Some("application/json") {
        let wrong = "the Content-Type is not application/json";
        return Err(Rejection(StatusCode::UNSUPPORTED_MEDIA_TYPE, wrong));
    } else {
        return Ok(());
    };
    Err(Rejection(StatusCode::UNAUTHORIZED, wrong))
}

/// Reads and checks a request's body.
pub(super) fn body(bytes: &[u8], plan: SandboxPlan) -> Result<User, Rejection> {
    let wrong = "the body is not a JSON object of the right types";
    // An array would be read as the fields in order.
    let is_object = bytes.trim_ascii_start().starts_with(b"{");
    let user: Option<User> = serde_json::from_slice(bytes).ok().filter(|_| is_object);
    let user = user.ok_or(Rejection(StatusCode::BAD_REQUEST, wrong))?;
    let is_flagged = user.vpn_check.is_some() || user.advanced.is_some();
    if plan == SandboxPlan::Free && is_flagged {
        let wrong = "vpn_check and advanced are for paid users only";
        return Err(Rejection(StatusCode::FORBIDDEN, wrong));
    }
    let mut values = vec![&user.name, &user.ip, &user.user_agent];
    values.extend(user.email.iter().chain(&user.phone));
    let unclean = |value: &&String| value.trim() != **value || value.contains(char::is_control);
    let wrong = if values.iter().any(|value| value.is_empty()) {
        "name, ip and user_agent are required, and no field may be empty"
    } else if values.iter().any(unclean) {
        "a field has white space around it or a control character in it"
    } else if user.email.is_none() && user.phone.is_none() {
        "email or phone is required"
    } else if user.ip.parse::<IpAddr>().is_err() {
        "ip is not an IP address"
    } else if !user.email.as_deref().is_none_or(is_email) {
        "email is not an email address"
    } else if !user.phone.as_deref().is_none_or(is_phone) {
        "phone is not + and 7 to 15 digits, the first not 0"
    } else {
        return Ok(user);
    };
    Err(Rejection(StatusCode::BAD_REQUEST, wrong))
}

fn is_email(text: &str) -> bool {
    let parts = text.split_once('@');
    parts.is_some_and(|(a, b)| !a.is_empty() && !b.is_empty() && !b.contains('@'))
}

fn is_phone(text: &str) -> bool {
    let digits = text.strip_prefix('+').unwrap_or_default();
    (7..=15).contains(&digits.len())
        && !digits.starts_with('0')
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A pattern that adds to a score: its name in `risk_patterns`, how many hundredths it adds, and whether a user has it.
type Pattern = (&'static str, u32, fn(&User) -> bool);

const PATTERNS: [Pattern; 8] = [
    ("disposable_mail_domain", 350, disposable_domain),
    ("private_ip", 250, private_ip),
    ("bot_like_agent", 250, |user| {
        contains_any(&user.user_agent, BOTS)
    }),
    ("digits_in_name", 150, |user| {
        user.name.contains(|c: char| c.is_ascii_digit())
    }),
    ("mail_unlike_name", 120, mail_unlike_name),
    ("no_email", 80, |user| user.email.is_none()),
    ("no_phone", 40, |user| user.phone.is_none()),
    ("single_word_name", 60, |user| {
        user.name.split_whitespace().nth(1).is_none()
    }),
];

/// The lowest and the highest score, and how far a hash spreads them, in hundredths.
const MIN_SCORE: u32 = 20;
const MAX_SCORE: u32 = 1000;
const SPREAD: u64 = 60;

/// The score in hundredths, and the names of the user's patterns.
pub(super) fn score(user: &User) -> (u32, Vec<&'static str>) {
    let found = PATTERNS.iter().filter(|(_, _, is_found)| is_found(user));
    let points: u32 = found.clone().map(|(_, points, _)| points).sum();
    let spread = u32::try_from(hash(user) % SPREAD).unwrap_or(0);
    let names = found.map(|(name, ..)| *name).collect();
    ((MIN_SCORE + points + spread).min(MAX_SCORE), names)
}

/// FNV-1a of the fields: the same on every machine and in every version.
pub(super) fn hash(user: &User) -> u64 {
    let fields = [
        Some(&user.name),
        user.email.as_ref(),
        user.phone.as_ref(),
        Some(&user.ip),
        Some(&user.user_agent),
    ];
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for field in fields {
        let bytes = field.map(String::as_bytes).unwrap_or_default();
        for byte in bytes.iter().chain(&[0xff]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

const DISPOSABLE: &str =
    "mailinator trashmail tempmail guerrillamail 10minutemail yopmail disposable throwaway";

fn disposable_domain(user: &User) -> bool {
    let email = user.email.as_deref().unwrap_or_default();
    email
        .split_once('@')
        .is_some_and(|(_, domain)| contains_any(domain, DISPOSABLE))
}

fn private_ip(user: &User) -> bool {
    match user.ip.parse() {
        Ok(IpAddr::V4(ip)) => ip.is_private() || ip.is_loopback() || ip.is_link_local(),
        Ok(IpAddr::V6(ip)) => {
            ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()
        }
        Err(_) => false,
    }
}

const BOTS: &str = "bot crawler spider curl wget python headless go-http-client";

/// True only if the name has a word that could be in an address at all.
fn mail_unlike_name(user: &User) -> bool {
    let Some((local, _)) = user
        .email
        .as_deref()
        .and_then(|email| email.split_once('@'))
    else {
        return false;
    };
    let local = local.to_ascii_lowercase();
    let name = user.name.to_ascii_lowercase();
    let mut words = name
        .split(|c: char| !c.is_ascii_alphabetic())
        .filter(|word| word.len() >= 3)
        .peekable();
    words.peek().is_some() && !words.any(|word| local.contains(word))
}

fn contains_any(text: &str, words: &str) -> bool {
    let text = text.to_ascii_lowercase();
    words.split(' ').any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        r#"{"name":"Jane","email":"j@example.com","ip":"::1","user_agent":"x","extra":[1]}"#;

    fn said(text: &str, plan: SandboxPlan) -> &'static str {
        body(text.as_bytes(), plan).map_or_else(|rejection| rejection.1, |_| "good")
    }

    #[test]
    fn the_rules_for_the_body_are_checked() {
        assert_eq!(said(GOOD, SandboxPlan::Free), "good");
        for (from, to, expected) in [
            (r#""Jane""#, r#""""#, "are required"),
            (r#""Jane""#, "7", "right types"),
            (r#""Jane""#, r#"" Jane""#, "white space"),
            (r#""Jane""#, r#""Ja\u0007ne""#, "white space"),
            ("::1", "1.2.3", "not an IP"),
            ("j@example.com", "j", "not an email"),
            (
                r#""email":"j@example.com""#,
                r#""phone":"0151""#,
                "phone is not",
            ),
            (
                r#""email":"j@example.com""#,
                r#""phone":"+01512345""#,
                "phone is not",
            ),
            (
                r#""email":"j@example.com""#,
                r#""phone":"+1234567""#,
                "good",
            ),
            (r#""email":"j@example.com","#, "", "email or phone"),
            ("{", "[", "right types"),
        ] {
            let said = said(&GOOD.replacen(from, to, 1), SandboxPlan::Paid);
            assert!(said.contains(expected), "{from} → {to}: {said}");
        }
    }

    #[test]
    fn flags_belong_to_the_paid_plan() {
        let flagged = GOOD.replacen('{', r#"{"vpn_check":false,"#, 1);
        assert_eq!(said(&flagged, SandboxPlan::Paid), "good");
        assert_eq!(
            said(&flagged, SandboxPlan::Free),
            "vpn_check and advanced are for paid users only"
        );
    }

    fn user(name: &str, email: Option<&str>, ip: &str, user_agent: &str) -> User {
        User {
            name: name.to_owned(),
            email: email.map(str::to_owned),
            phone: Some("+15550100199".to_owned()),
            ip: ip.to_owned(),
            user_agent: user_agent.to_owned(),
            ..User::default()
        }
    }

    #[test]
    fn an_ordinary_user_is_low_and_the_same_every_time() {
        let jane = user(
            "Jane Doe",
            Some("jane@example.com"),
            "192.0.2.1",
            "Mozilla/5.0",
        );
        let (points, patterns) = score(&jane);
        assert!(
            (20..80).contains(&points) && patterns.is_empty(),
            "{points} {patterns:?}"
        );
        assert_eq!(score(&jane), score(&jane.clone()));
    }

    #[test]
    fn patterns_add_up_to_ten_at_most() {
        let bot = user("x1", Some("zz@mailinator.example"), "10.0.0.1", "curl/8.5");
        let (points, patterns) = score(&bot);
        assert_eq!(
            patterns,
            [
                "disposable_mail_domain",
                "private_ip",
                "bot_like_agent",
                "digits_in_name",
                "single_word_name"
            ]
        );
        assert_eq!(points, 1000);
        let other = user("Jane Doe", Some("bob@example.com"), "::1", "Mozilla/5.0");
        assert_eq!(score(&other).1, ["private_ip", "mail_unlike_name"]);
    }
}
