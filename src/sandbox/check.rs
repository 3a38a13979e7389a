//! What the stand-in demands of a request: sections 2.1, 4.1 and 5 of the interface, word by word.
//!
//! It is stricter than the service may be: whatever it rejects is a mistake of the client.

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
#[allow(
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

/// A request that is rejected: with which status and message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rejection(pub(super) StatusCode, pub(super) &'static str);

/// Whether a rule is broken, and the message with which a request is rejected then.
type Rule = (bool, &'static str);

/// Rejects with this status by the first rule that is broken.
fn check(status: StatusCode, rules: &[Rule]) -> Result<(), Rejection> {
    let broken = rules.iter().find(|(is_broken, _)| *is_broken);
    broken.map_or(Ok(()), |(_, message)| Err(Rejection(status, message)))
}

/// Checks the headers that every request must have. If any keys are `accepted`, only these are.
pub(super) fn headers(headers: &HeaderMap, accepted: &[Secret]) -> Result<(), Rejection> {
    let text = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.map(str::trim).unwrap_or_default()
    };
    let key = { text(AUTHORIZATION.as_str()).strip_prefix("Bearer ") }.map_or("", str::trim);
    let unknown = !accepted.is_empty() && accepted.iter().all(|accepted| accepted.expose() != key);
    let of_caller = [
        (
            key.is_empty(),
            "the Authorization header has no bearer token",
        ),
        (unknown, "the stand-in does not accept this key"),
        (
            text("x-service-id").is_empty(),
            "the X-Service-ID header is missing",
        ),
    ];
    check(StatusCode::UNAUTHORIZED, &of_caller)?;
    let kind = text(CONTENT_TYPE.as_str()).split(';').next();
    let not_json = kind != Some("application/json");
    let of_body = (not_json, "the Content-Type is not application/json");
    check(StatusCode::UNSUPPORTED_MEDIA_TYPE, &[of_body])
}

/// Reads and checks a request's body.
pub(super) fn body(bytes: &[u8], plan: SandboxPlan) -> Result<User, Rejection> {
    let wrong = "the body is not a JSON object of the right types";
    // An array would be read as the fields in order.
    let is_object = bytes.trim_ascii_start().starts_with(b"{");
    let user: Option<User> = serde_json::from_slice(bytes).ok().filter(|_| is_object);
    let user = user.ok_or(Rejection(StatusCode::BAD_REQUEST, wrong))?;
    let flagged = user.vpn_check.is_some() || user.advanced.is_some();
    let of_plan = (
        plan == SandboxPlan::Free && flagged,
        "vpn_check and advanced are for paid users only",
    );
    check(StatusCode::FORBIDDEN, &[of_plan])?;
    let required = [&user.name, &user.ip, &user.user_agent];
    let values: Vec<_> = { required.into_iter() }
        .chain(&user.email)
        .chain(&user.phone)
        .collect();
    let unclean = |value: &&String| value.trim() != **value || value.contains(char::is_control);
    let rules = [
        (
            values.iter().any(|value| value.is_empty()),
            "name, ip and user_agent are required, and no field may be empty",
        ),
        (
            values.iter().any(unclean),
            "a field has white space around it or a control character in it",
        ),
        (
            user.email.is_none() && user.phone.is_none(),
            "email or phone is required",
        ),
        (
            user.ip.parse::<IpAddr>().is_err(),
            "ip is not an IP address",
        ),
        (
            !user.email.as_deref().is_none_or(is_email),
            "email is not an email address",
        ),
        (
            !user.phone.as_deref().is_none_or(is_phone),
            "phone is not + and 7 to 15 digits, the first not 0",
        ),
    ];
    check(StatusCode::BAD_REQUEST, &rules)?;
    Ok(user)
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
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
}
