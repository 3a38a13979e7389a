//! The body of a user's request as sent (interface, section 2.1).

use bytes::{BufMut, BytesMut};

use super::endpoint::Plan;
use crate::fields::UserRequest;
use crate::raw_json;

/// Appends the body of a request to `to`. The same user and plan always give the same bytes: a
/// ledger identifies requests by them.
pub fn write_body(request: &UserRequest<'_>, plan: Plan, to: &mut BytesMut) {
    write_member(br#"{"name":"#, &request.name, to);
    if let Some(email) = &request.email {
        write_member(br#","email":"#, email, to);
    }
    if let Some(phone) = &request.phone {
        write_member(br#","phone":"#, phone, to);
    }
    write_member(br#","ip":"#, &request.ip, to);
    write_member(br#","user_agent":"#, &request.user_agent, to);
    // The default of `vpn_check` is documented inconsistently, so both flags are always sent on the
    // paid plan.
    if let Plan::Paid {
        vpn_check,
        advanced,
    } = plan
    {
        write_flag(br#","vpn_check":"#, vpn_check, to);
        write_flag(br#","advanced":"#, advanced, to);
    }
    to.put_u8(b'}');
}

fn write_flag(key: &[u8], value: bool, to: &mut BytesMut) {
    to.put_slice(key);
    to.put_slice(if value { b"true" } else { b"false" });
}

fn write_member(key: &[u8], value: &str, to: &mut BytesMut) {
    to.put_slice(key);
    raw_json::put_string(value, to);
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
            dropped: None,
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
            concat!(
                r#"{"name":"Jane \"J\" Doe","phone":"+15550100199","ip":"::1","#,
                r#""user_agent":"curl/8","vpn_check":true,"advanced":false}"#
            )
        );
    }
}
