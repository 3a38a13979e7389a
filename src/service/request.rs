//! A user's request as the bytes that are sent (interface, section 2.1).

use bytes::{BufMut, BytesMut};
use serde::Serialize;

use super::Plan;
use crate::fields::UserRequest;

#[derive(Serialize)]
struct Body<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phone: Option<&'a str>,
    ip: &'a str,
    user_agent: &'a str,
    // The default of `vpn_check` is described inconsistently: on the paid plan both flags are always said.
    #[serde(skip_serializing_if = "Option::is_none")]
    vpn_check: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advanced: Option<bool>,
}

/// Writes the body of a request behind what is in `to`. The same user and plan give the same bytes, always.
pub fn write_body(request: &UserRequest<'_>, plan: Plan, to: &mut BytesMut) {
    let (vpn_check, advanced) = match plan {
        Plan::Paid {
            vpn_check,
            advanced,
        } => (Some(vpn_check), Some(advanced)),
        Plan::Free => (None, None),
    };
    let body = Body {
        name: &request.name,
        email: request.email.as_deref(),
        phone: request.phone.as_deref(),
        ip: &request.ip,
        user_agent: &request.user_agent,
        vpn_check,
        advanced,
    };
    // Strings and booleans into memory: there is nothing that could fail, and an empty body would be refused unpaid.
    let written = serde_json::to_writer(to.writer(), &body);
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn body(request: &UserRequest<'_>, plan: Plan) -> BytesMut {
        let mut body = BytesMut::new();
        write_body(request, plan, &mut body);
        body
    }

    #[test]
    fn absent_fields_are_not_sent_and_flags_only_on_the_paid_plan() {
        let request = UserRequest {
            name: Cow::Borrowed("Jane \"J\" Doe"),
            email: None,
            phone: Some(Cow::Borrowed("+15550100199")),
            ip: Cow::Borrowed("::1"),
            user_agent: Cow::Borrowed("curl/8"),
        };
        assert_eq!(
            body(&request, Plan::Free),
            r#"{"name":"Jane \"J\" Doe","phone":"+15550100199","ip":"::1","user_agent":"curl/8"}"#
        );
        assert_eq!(
            body(
                &request,
                Plan::Paid {
                    vpn_check: true,
                    advanced: false
                }
            ),
            r#"{"name":"Jane \"J\" Doe","phone":"+15550100199","ip":"::1","user_agent":"curl/8","vpn_check":true,"advanced":false}"#
        );
    }
}
