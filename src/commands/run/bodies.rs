//! How the bodies of requests are made.

use bytes::BytesMut;

use crate::fields::UserRequest;
use crate::input::Compose;
use crate::service::{self, Plan};

/// Makes the bodies of requests for this plan.
pub(super) fn bodies(plan: Plan) -> Compose {
    Compose::new(move |request: &UserRequest<'_>, to: &mut BytesMut| {
        service::write_body(request, plan, to);
    })
}
