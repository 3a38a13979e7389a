//! What the stand-in demands of a request: sections 2.1, 4.1 and 5 of the interface, word by word.
//!
//! It is stricter than the service may be: whatever it rejects is a mistake of the client.

use std::net::IpAddr;

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use serde::Deserialize;

use super::settings::SandboxPlan;
use crate::base::secret::Secret;

/// A user with valid fields.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// A request that is rejected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rejection {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: &'static str,
}

impl Rejection {
    pub(super) const fn new(status: StatusCode, code: &'static str, message: &'static str) -> Self {
        Self {
            status,
            code,
            message,
        }
    }
}

/// A rejection for the body.
const fn wrong(code: &'static str, message: &'static str) -> Rejection {
    Rejection::new(StatusCode::BAD_REQUEST, code, message)
}

/// Checks the headers that every request must have. If any keys are `accepted`, only these are.
pub(super) fn headers(headers: &HeaderMap, accepted: &[Secret]) -> Result<(), Rejection> {
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::trim)
    };
    let key = text(AUTHORIZATION.as_str())
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default();
    let key = key.trim();
    if key.is_empty() {
        return Err(Rejection::new(
            StatusCode::UNAUTHORIZED,
            "no_key",
            "the Authorization header has no bearer token",
        ));
    }
    if !accepted.is_empty() && accepted.iter().all(|accepted| accepted.expose() != key) {
        return Err(Rejection::new(
            StatusCode::UNAUTHORIZED,
            "bad_key",
            "the stand-in does not accept this key",
        ));
    }
    if text("x-service-id").unwrap_or_default().is_empty() {
        return Err(Rejection::new(
            StatusCode::UNAUTHORIZED,
            "no_service_id",
            "the X-Service-ID header is missing",
        ));
    }
    if text(CONTENT_TYPE.as_str()).and_then(|value| value.split(';').next())
        != Some("application/json")
    {
        return Err(Rejection::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "the Content-Type is not application/json",
        ));
    }
    Ok(())
}

#[derive(Deserialize)]
struct RequestBody {
    name: Option<String>,
    email: Option<String>,
    phone: Option<String>,
    ip: Option<String>,
    user_agent: Option<String>,
    vpn_check: Option<bool>,
    advanced: Option<bool>,
}

/// The user in a request's body.
pub(super) fn body(bytes: &[u8], plan: SandboxPlan) -> Result<User, Rejection> {
    let body: RequestBody = serde_json::from_slice(bytes).map_err(|_| {
        wrong(
            "bad_body",
            "the body is not a JSON object of the right types",
        )
    })?;
    if plan == SandboxPlan::Free && (body.vpn_check.is_some() || body.advanced.is_some()) {
        return Err(Rejection::new(
            StatusCode::FORBIDDEN,
            "paid_only",
            "vpn_check and advanced are for paid users only",
        ));
    }
    let user = User {
        name: body.name.unwrap_or_default(),
        email: body.email,
        phone: body.phone,
        ip: body.ip.unwrap_or_default(),
        user_agent: body.user_agent.unwrap_or_default(),
    };
    check_all(&user)?;
    check_each(&user)?;
    Ok(user)
}

/// The rules for all fields.
fn check_all(user: &User) -> Result<(), Rejection> {
    let required = [&user.name, &user.ip, &user.user_agent];
    let values = || {
        { required.into_iter() }
            .chain(&user.email)
            .chain(&user.phone)
    };
    if values().any(String::is_empty) {
        return Err(wrong(
            "missing_field",
            "name, ip and user_agent are required, and no field may be empty",
        ));
    }
    if values().any(|value| value.trim() != value || value.contains(char::is_control)) {
        return Err(wrong(
            "not_sanitised",
            "a field has white space around it or a control character in it",
        ));
    }
    if user.email.is_none() && user.phone.is_none() {
        return Err(wrong("no_contact", "email or phone is required"));
    }
    Ok(())
}

/// The forms of single fields.
fn check_each(user: &User) -> Result<(), Rejection> {
    if user.ip.parse::<IpAddr>().is_err() {
        return Err(wrong("bad_ip", "ip is not an IP address"));
    }
    if !user.email.as_deref().is_none_or(is_email) {
        return Err(wrong("bad_email", "email is not an email address"));
    }
    if !user.phone.as_deref().is_none_or(is_phone) {
        return Err(wrong(
            "bad_phone",
            "phone is not + and 7 to 15 digits, the first not 0",
        ));
    }
    Ok(())
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

    fn code(text: &str, plan: SandboxPlan) -> &'static str {
        body(text.as_bytes(), plan).map_or_else(|rejection| rejection.code, |_| "good")
    }

    #[test]
    fn the_rules_for_the_body_are_checked() {
        assert_eq!(code(GOOD, SandboxPlan::Free), "good");
        for (from, to, expected) in [
            (r#""Jane""#, r#""""#, "missing_field"),
            (r#""Jane""#, "7", "bad_body"),
            (r#""Jane""#, r#"" Jane""#, "not_sanitised"),
            (r#""Jane""#, r#""Ja\u0007ne""#, "not_sanitised"),
            ("::1", "1.2.3", "bad_ip"),
            ("j@example.com", "j", "bad_email"),
            (
                r#""email":"j@example.com""#,
                r#""phone":"0151""#,
                "bad_phone",
            ),
            (
                r#""email":"j@example.com""#,
                r#""phone":"+01512345""#,
                "bad_phone",
            ),
            (
                r#""email":"j@example.com""#,
                r#""phone":"+1234567""#,
                "good",
            ),
            (r#""email":"j@example.com","#, "", "no_contact"),
            ("{", "[", "bad_body"),
        ] {
            assert_eq!(
                code(&GOOD.replacen(from, to, 1), SandboxPlan::Paid),
                expected,
                "{from} → {to}"
            );
        }
    }

    #[test]
    fn flags_belong_to_the_paid_plan() {
        let flagged = GOOD.replacen('{', r#"{"vpn_check":false,"#, 1);
        assert_eq!(code(&flagged, SandboxPlan::Paid), "good");
        assert_eq!(code(&flagged, SandboxPlan::Free), "paid_only");
    }
}
