//! The requests of rows as this command needs them: the body that a run would send, behind a byte that says which of its
//! fields are unusually long or short.
//!
//! Both are made on the reader's thread, where the fields are at hand.

use bytes::{BufMut, BytesMut};

use crate::fields::{Field, UserRequest};
use crate::input::Compose;
use crate::service::{self, Plan};

/// Makes these requests.
pub(super) fn marked(plan: Plan) -> Compose {
    let compose = Compose::new(move |user: &UserRequest<'_>, to: &mut BytesMut| {
        let mut marks = Marks::default();
        user.unusual_lengths(|field| marks.add(field));
        to.put_u8(marks.0);
        service::write_body(user, plan, to);
    });
    compose.behind_marks(size_of::<Marks>())
}

/// The marks and the body of a request.
pub(super) fn split(request: &[u8]) -> (Marks, &[u8]) {
    match request.split_first() {
        Some((marks, body)) => (Marks(*marks), body),
        None => (Marks::default(), request),
    }
}

/// Fields of a row whose lengths are unusual, a bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Marks(u8);

impl Marks {
    fn add(&mut self, field: Field) {
        self.0 |= Self::bit(field);
    }

    const fn bit(field: Field) -> u8 {
        1 << field as u8
    }

    /// The marked fields. Nearly always there are none.
    pub(super) fn fields(self) -> impl Iterator<Item = Field> {
        let marked = if self.0 == 0 { &[][..] } else { &Field::ALL };
        { marked.iter().copied() }.filter(move |field| self.0 & Self::bit(*field) != 0)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    #[test]
    fn a_request_is_the_body_of_a_run_behind_its_marks() {
        let user = UserRequest {
            name: Cow::Borrowed("Jo"),
            email: Some(Cow::Borrowed("jo@example.com")),
            phone: None,
            ip: Cow::Borrowed("::1"),
            user_agent: Cow::Borrowed("curl"),
        };
        let request = marked(Plan::Free).body(&user);
        let mut body = BytesMut::new();
        service::write_body(&user, Plan::Free, &mut body);
        let (marks, rest) = split(&request);
        assert_eq!(rest, body);
        let fields: Vec<_> = marks.fields().collect();
        assert_eq!(fields, [Field::Name, Field::UserAgent]);
    }
}
