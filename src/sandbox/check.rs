//! What the stand-in asks of a request: the interface's sections 2.1, 4.1 and 5, word by word.
//!
//! It is stricter than the service may be: what it refuses is a mistake of the client.

use std::net::IpAddr;

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use serde::Deserialize;

use super::Plan;
use crate::base::secret::Secret;

/// A user that may be scored.
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

/// A refusal: status, code and message.
pub(super) type Refusal = (StatusCode, &'static str, &'static str);

/// The headers that every request carries; the key is one of those that are `accepted`, where any are named.
pub(super) fn headers(headers: &HeaderMap, accepted: &[Secret]) -> Result<(), Refusal> {
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
        return Err((
            StatusCode::UNAUTHORIZED,
            "no_key",
            "the Authorization header has no bearer token",
        ));
    }
    if !accepted.is_empty() && accepted.iter().all(|accepted| accepted.expose() != key) {
        return Err((
            StatusCode::UNAUTHORIZED,
            "bad_key",
            "the key is not one that the stand-in was told to accept",
        ));
    }
    if text("x-service-id").unwrap_or_default().is_empty() {
        return Err((
            StatusCode::UNAUTHORIZED,
            "no_service_id",
            "the X-Service-ID header is missing",
        ));
    }
    if text(CONTENT_TYPE.as_str()).and_then(|value| value.split(';').next())
        != Some("application/json")
    {
        return Err((
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "the Content-Type is not application/json",
        ));
    }
    Ok(())
}

#[derive(Deserialize)]
struct Wire {
    name: Option<String>,
    email: Option<String>,
    phone: Option<String>,
    ip: Option<String>,
    user_agent: Option<String>,
    vpn_check: Option<bool>,
    advanced: Option<bool>,
}

/// The user in a request's body.
pub(super) fn body(bytes: &[u8], plan: Plan) -> Result<User, Refusal> {
    let wrong = |code, message| (StatusCode::BAD_REQUEST, code, message);
    let wire: Wire = serde_json::from_slice(bytes)
        .map_err(|_| wrong("bad_body", "the body is no JSON object of the right types"))?;
    if plan == Plan::Free && (wire.vpn_check.is_some() || wire.advanced.is_some()) {
        return Err((
            StatusCode::FORBIDDEN,
            "paid_only",
            "vpn_check and advanced are for paid users only",
        ));
    }
    let user = User {
        name: wire.name.unwrap_or_default(),
        email: wire.email,
        phone: wire.phone,
        ip: wire.ip.unwrap_or_default(),
        user_agent: wire.user_agent.unwrap_or_default(),
    };
    let all = [
        Some(&user.name),
        Some(&user.ip),
        Some(&user.user_agent),
        user.email.as_ref(),
        user.phone.as_ref(),
    ];
    if all.iter().flatten().any(|value| value.is_empty()) {
        return Err(wrong(
            "missing_field",
            "name, ip and user_agent are required, and no field may be empty",
        ));
    }
    if all
        .iter()
        .flatten()
        .any(|value| value.trim() != value.as_str() || value.chars().any(char::is_control))
    {
        return Err(wrong(
            "not_sanitised",
            "a field has white space around it or a control character in it",
        ));
    }
    if user.email.is_none() && user.phone.is_none() {
        return Err(wrong("no_contact", "email or phone is required"));
    }
    if user.ip.parse::<IpAddr>().is_err() {
        return Err(wrong("bad_ip", "ip is no IP address"));
    }
    let email_is_sound = |email: &str| {
        email
            .split_once('@')
            .is_some_and(|(a, b)| !a.is_empty() && !b.is_empty() && !b.contains('@'))
    };
    if user
        .email
        .as_deref()
        .is_some_and(|email| !email_is_sound(email))
    {
        return Err(wrong("bad_email", "email is no email address"));
    }
    let phone_is_sound = |phone: &str| {
        let digits = phone.strip_prefix('+').unwrap_or_default();
        (7..=15).contains(&digits.len())
            && !digits.starts_with('0')
            && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if user
        .phone
        .as_deref()
        .is_some_and(|phone| !phone_is_sound(phone))
    {
        return Err(wrong(
            "bad_phone",
            "phone is not + and 7 to 15 digits, the first not 0",
        ));
    }
    Ok(user)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const GOOD: &str =
        r#"{"name":"Jane","email":"j@example.com","ip":"::1","user_agent":"x","extra":[1]}"#;

    fn code(text: &str, plan: Plan) -> &'static str {
        body(text.as_bytes(), plan).map_or_else(|(_, code, _)| code, |_| "good")
    }

    #[test]
    fn the_bodys_rules_are_held() {
        assert_eq!(code(GOOD, Plan::Free), "good");
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
                code(&GOOD.replacen(from, to, 1), Plan::Paid),
                expected,
                "{from} → {to}"
            );
        }
    }

    #[test]
    fn flags_belong_to_the_paid_plan() {
        let flagged = GOOD.replacen('{', r#"{"vpn_check":false,"#, 1);
        assert_eq!(code(&flagged, Plan::Paid), "good");
        assert_eq!(code(&flagged, Plan::Free), "paid_only");
    }
}
