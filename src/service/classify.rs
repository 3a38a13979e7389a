//! What an outcome means: could it have been billed, and may it be sent again?
//!
//! The interface says nothing about errors, so this is caution by class, not by promise. README's table is this file.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;

use super::answer::{self, Columns};
use super::wait::wait;
use super::words::said;
use super::{Exchange, Quota, Reply, TransportFault, page};
use crate::base::error::{Error, quoted};
use crate::verdict::{Answer, Failure, Reason};

/// The outcome of one call.
#[derive(Debug)]
pub enum Outcome {
    /// A verdict.
    Answered(Answer),
    /// Class A, too fast: everybody waits, and the row's attempts are not used up.
    Throttled {
        /// How long the service asks to wait, where it says so.
        wait: Option<Duration>,
        /// The status that says so.
        status: u16,
    },
    /// Classes A to E: this call brought nothing.
    Failed(Fault),
    /// Class F: every further call would fail alike.
    Refused(Error),
    /// Class F, for the key: every further call with this key would fail alike.
    KeyRefused(Error),
}

/// A call that brought nothing.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it means for another attempt.
    pub(crate) class: Class,
    /// What it says of the service.
    pub(crate) health: Health,
    /// It does not come from the service, as far as its body tells: that is not JSON.
    pub(crate) from_stranger: bool,
    /// What becomes of the row when there is none.
    pub failure: Failure,
}

impl Fault {
    /// The fault of a row whose calls were throttled so many times, the last one with this status, while others were
    /// accepted. Nothing was processed, so a later run asks again.
    #[must_use]
    pub(crate) fn throttled(times: u32, status: u16) -> Self {
        let message = format!(
            "the service refused this row {times} times ({status}) while it accepted others"
        );
        Self {
            class: Class::NotProcessed,
            health: Health::AtWork,
            from_stranger: false,
            failure: Failure::new(Reason::Throttled, message),
        }
    }
}

/// What a call that brought nothing says of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// It does its work, whatever it thinks of this row.
    AtWork,
    /// It failed, perhaps over this row.
    Failed,
    /// It is not there, or what stands before it says so.
    Gone,
    /// It takes too long.
    Slow,
}

/// Could the call have been billed?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A: it was not processed.
    NotProcessed,
    /// A, and the name of the host or of its proxy does not resolve: before the first answer this is a wrong address.
    HostNotFound,
    /// B: the request went out and no whole answer came back.
    OutcomeUnknown,
    /// C: refused, cause unclear.
    Unclear,
    /// D: billed, but no verdict in it.
    Useless,
    /// E: this row is at fault.
    RowsFault,
    /// A bare 403: this row's fault amid good answers, the run's at the start or several times in a row.
    Forbidden,
}

impl Class {
    /// Whether a request that ends so is not to be sent again in the same run: it was billed, may have been, or would be
    /// refused again.
    #[must_use]
    pub(crate) const fn is_for_good(self) -> bool {
        match self {
            Self::OutcomeUnknown | Self::Useless | Self::RowsFault | Self::Forbidden => true,
            Self::NotProcessed | Self::HostNotFound | Self::Unclear => false,
        }
    }
}

/// Judges what came of a call.
#[must_use]
pub fn classify(exchange: Exchange, columns: &Columns) -> Outcome {
    match exchange {
        Ok(reply) => of_reply(&reply, columns),
        Err(fault) => of_transport(fault),
    }
}

fn of_reply(reply: &Reply, columns: &Columns) -> Outcome {
    let status = reply.status;
    match status {
        204..=206 => failed(Class::Useless, Reason::BadAnswer, format!("status {status}, without a verdict")),
        200..=299 if reply.cut => {
            failed(Class::Useless, Reason::BadAnswer, "the answer is longer than 1 MiB".to_owned())
        }
        200..=299 => match answer::read(reply, columns) {
            Ok(answer) => Outcome::Answered(answer),
            Err(wrong) => failed(Class::Useless, Reason::BadAnswer, wrong).with_speaker(reply),
        },
        300..=399 => refused(reply, "the service redirects elsewhere; neither key nor data were sent there")
            .with_hint("check the base address, including `https://` and a missing or extra `/`"),
        401 => Outcome::KeyRefused(
            refusal(reply, "the service does not accept the API key")
                .hint("check the key in `RESCORE_API_KEY` or `--api-key-file`, and that it belongs to this plan"),
        ),
        402 => out_of_credit(reply),
        404 | 410 => refused(reply, "the service has nothing at this address").with_hint("check the base address"),
        405 => refused(reply, "this address does not take requests").with_hint("check the base address"),
        407 => refused(reply, "the proxy asks for a login").with_hint(&proxy_login_hint("HTTP_PROXY")),
        511 => refused(reply, "the network asks for a login first").with_hint("log in to the network, or use another one"),
        429 if says_out_of_credit(&reply.body) => out_of_credit(reply),
        425 | 429 => throttled(reply),
        503 if reply.headers.contains_key(RETRY_AFTER) => throttled(reply),
        403 if carries_rate_limit(&reply.headers) => throttled(reply),
        403 => failed(Class::Forbidden, Reason::Forbidden, said(reply)),
        502..=504 => failed(Class::Unclear, Reason::ServerError, said(reply)).with_health(Health::Gone),
        408 | 500..=599 => failed(Class::Unclear, Reason::ServerError, said(reply)),
        400..=499 => failed(Class::RowsFault, Reason::Refused, said(reply)).with_speaker(reply),
        // 1xx never ends a call, and there are no statuses above 599.
        _ => failed(Class::OutcomeUnknown, Reason::NoAnswer, format!("status {status}, which is not an answer")),
    }
}

fn of_transport(fault: TransportFault) -> Outcome {
    let not_processed = |words: String| failed(Class::NotProcessed, Reason::Unreachable, words);
    match fault {
        TransportFault::HostNotFound(host) => failed(
            Class::HostNotFound,
            Reason::Unreachable,
            format!("cannot find host {}", quoted(&host)),
        ),
        TransportFault::ProxyNotFound(proxy) => failed(
            Class::HostNotFound,
            Reason::Unreachable,
            format!("cannot find {proxy}"),
        ),
        TransportFault::Unreachable(words) => not_processed(format!("cannot connect: {words}")),
        TransportFault::Handshake(words) => {
            not_processed(format!("the TLS handshake failed: {words}"))
        }
        TransportFault::NotTls => Outcome::Refused(
            Error::refused("the service does not speak TLS at this address")
                .hint("check scheme and port of the base address"),
        ),
        TransportFault::Certificate(distrust) => {
            let error = Error::refused(format!(
                "the service's certificate is not trusted: {}",
                distrust.why
            ));
            Outcome::Refused(match distrust.hint {
                Some(hint) => error.hint(hint),
                None => error,
            })
        }
        TransportFault::Proxy(proxy, words) => {
            not_processed(format!("cannot connect through {proxy}: {words}"))
        }
        TransportFault::ProxyLogin(proxy) => Outcome::Refused(
            Error::refused(format!("{proxy} asks for a login"))
                .hint(proxy_login_hint(proxy.variable())),
        ),
        TransportFault::Unprocessed(words) => {
            not_processed(format!("the service did not process the request: {words}"))
        }
        TransportFault::TimedOut => failed(
            Class::OutcomeUnknown,
            Reason::NoAnswer,
            "no complete answer in time".to_owned(),
        )
        .with_health(Health::Slow),
        TransportFault::Broken(words) => failed(
            Class::OutcomeUnknown,
            Reason::NoAnswer,
            format!("the connection broke: {words}"),
        ),
    }
}

fn proxy_login_hint(variable: &str) -> String {
    format!("give it in `{variable}`, such as `http://user:password@proxy:3128`")
}

fn failed(class: Class, reason: Reason, message: String) -> Outcome {
    let health = match class {
        Class::NotProcessed | Class::HostNotFound | Class::OutcomeUnknown => Health::Gone,
        Class::Unclear => Health::Failed,
        Class::Useless | Class::RowsFault | Class::Forbidden => Health::AtWork,
    };
    Outcome::Failed(Fault {
        class,
        health,
        from_stranger: false,
        failure: Failure::new(reason, message),
    })
}

fn throttled(reply: &Reply) -> Outcome {
    Outcome::Throttled {
        wait: wait(&reply.headers),
        status: reply.status,
    }
}

fn refused(reply: &Reply, what: &str) -> Outcome {
    Outcome::Refused(refusal(reply, what))
}

fn refusal(reply: &Reply, what: &str) -> Error {
    Error::refused(what).detail(format!("the service said: {}", said(reply)))
}

fn out_of_credit(reply: &Reply) -> Outcome {
    refused(reply, "the account is out of credit")
        .with_hint("top it up with the service, then run again")
}

impl Outcome {
    fn with_health(self, health: Health) -> Self {
        match self {
            Self::Failed(fault) => Self::Failed(Fault { health, ..fault }),
            other => other,
        }
    }

    /// Looks at the body for who has answered.
    fn with_speaker(self, reply: &Reply) -> Self {
        match self {
            Self::Failed(fault) => Self::Failed(Fault {
                from_stranger: page::is_page(&reply.body),
                ..fault
            }),
            other => other,
        }
    }

    fn with_hint(self, hint: &str) -> Self {
        match self {
            Self::Refused(error) => Self::Refused(error.hint(hint)),
            other => other,
        }
    }
}

/// Words by which a 429 says that waiting will not help. "Quota exceeded" alone is not one: it may be the minute's.
const OUT_OF_CREDIT: [&str; 5] = [
    "insufficient_quota",
    "insufficient_credit",
    "insufficient credit",
    "out of credit",
    "payment_required",
];

fn says_out_of_credit(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).to_lowercase();
    OUT_OF_CREDIT.iter().any(|words| text.contains(words))
}

/// Whether a 403 is a rate limit in disguise: it says when to come again, or that nothing remains. That a limit is
/// mentioned is not enough: some services do so in every answer, also to a wrong key.
fn carries_rate_limit(headers: &HeaderMap) -> bool {
    headers.contains_key(RETRY_AFTER) || Quota::of(headers, SystemTime::now).is_used_up()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use bytes::Bytes;
    use http::header::{HeaderName, HeaderValue};

    use super::super::{Distrust, ProxyName};
    use super::*;

    impl Class {
        /// The letter that README's table has.
        const fn letter(self) -> char {
            match self {
                Self::NotProcessed | Self::HostNotFound => 'A',
                Self::OutcomeUnknown => 'B',
                Self::Unclear => 'C',
                Self::Useless => 'D',
                Self::RowsFault | Self::Forbidden => 'E',
            }
        }
    }

    fn reply(status: u16, headers: &[(&str, &str)], body: &str) -> Outcome {
        let headers = headers
            .iter()
            .map(|(name, value)| {
                (
                    name.parse::<HeaderName>().unwrap(),
                    HeaderValue::from_str(value).unwrap(),
                )
            })
            .collect();
        let reply = Reply {
            status,
            headers,
            body: Bytes::copy_from_slice(body.as_bytes()),
            cut: false,
            sent: crate::service::Sent::nothing(),
        };
        classify(Ok(reply), &[])
    }

    const GOOD: &str = r#"{"transaction_id":"a","summary":{"risk_score":1}}"#;

    /// The letter of an outcome; `+` is a verdict, `T` a throttle.
    fn letter(outcome: &Outcome) -> char {
        match outcome {
            Outcome::Answered(_) => '+',
            Outcome::Throttled { .. } => 'T',
            Outcome::Failed(fault) => fault.class.letter(),
            Outcome::Refused(_) | Outcome::KeyRefused(_) => 'F',
        }
    }

    #[test]
    fn only_a_401_is_the_keys() {
        for status in 100..=599 {
            let of_key = matches!(reply(status, &[], GOOD), Outcome::KeyRefused(_));
            assert_eq!(of_key, status == 401, "status {status}");
        }
    }

    #[test]
    fn every_status_has_its_class() {
        for status in 100..=599 {
            let expected = match status {
                204..=206 => 'D',
                200..=299 => '+',
                300..=399 | 401 | 402 | 404 | 405 | 407 | 410 | 511 => 'F',
                425 | 429 => 'T',
                408 | 500..=599 => 'C',
                400..=499 => 'E',
                _ => 'B',
            };
            // The body is a good verdict each time: it must count only where the status says so.
            assert_eq!(
                letter(&reply(status, &[], GOOD)),
                expected,
                "status {status}"
            );
        }
    }

    #[test]
    fn every_transport_fault_has_its_class() {
        let words = String::new;
        for (fault, expected) in [
            (TransportFault::HostNotFound(words()), 'A'),
            (TransportFault::ProxyNotFound(ProxyName::any()), 'A'),
            (TransportFault::Unreachable(words()), 'A'),
            (TransportFault::Handshake(words()), 'A'),
            (TransportFault::NotTls, 'F'),
            (TransportFault::Certificate(Distrust::default()), 'F'),
            (TransportFault::Proxy(ProxyName::any(), words()), 'A'),
            (TransportFault::ProxyLogin(ProxyName::any()), 'F'),
            (TransportFault::Unprocessed(words()), 'A'),
            (TransportFault::TimedOut, 'B'),
            (TransportFault::Broken(words()), 'B'),
        ] {
            assert_eq!(
                letter(&classify(Err(fault.clone()), &[])),
                expected,
                "{fault:?}"
            );
        }
    }

    #[test]
    fn headers_and_bodies_that_change_the_class() {
        assert_eq!(letter(&reply(503, &[("retry-after", "7")], "")), 'T');
        assert_eq!(
            letter(&reply(403, &[("x-ratelimit-remaining", "0")], "")),
            'T'
        );
        assert_eq!(
            letter(&reply(403, &[("x-ratelimit-remaining", "12")], "")),
            'E'
        );
        let nothing_left = [("ratelimit", r#""default";r=0;t=30"#)];
        assert_eq!(letter(&reply(403, &nothing_left, "")), 'T');
        assert_eq!(
            letter(&reply(
                429,
                &[],
                r#"{"error":{"code":"insufficient_quota"}}"#
            )),
            'F'
        );
        assert_eq!(letter(&reply(200, &[], "<html>")), 'D');
    }

    #[test]
    fn a_throttle_has_its_status_and_a_row_that_fails_for_it_is_asked_by_a_later_run() {
        for (status, headers) in [
            (429, &[][..]),
            (503, &[("retry-after", "7")]),
            (403, &[("x-ratelimit-remaining", "0")]),
        ] {
            let Outcome::Throttled { status: told, .. } = reply(status, headers, "") else {
                panic!("{status} is a throttle");
            };
            assert_eq!(told, status);
        }
        let fault = Fault::throttled(7, 429);
        assert_eq!(
            (fault.failure.reason.word(), &*fault.failure.message),
            (
                "throttled",
                "the service refused this row 7 times (429) while it accepted others"
            )
        );
        assert_eq!(Reason::of_word("throttled"), Some(Reason::Throttled));
        // `--retry-failed` asks it, and so does a run that goes on.
        assert!(fault.failure.reason.is_of_call() && !fault.class.is_for_good());
    }

    #[test]
    fn retry_after_in_every_shape() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let wait = |headers: &[(&str, &str)]| match reply(429, headers, "") {
            Outcome::Throttled { wait, .. } => wait.map(|wait| wait.as_secs()),
            other => panic!("{other:?}"),
        };
        assert_eq!(wait(&[("retry-after", "30")]), Some(30));
        assert_eq!(wait(&[("retry-after", "0")]), Some(0));
        assert_eq!(wait(&[("retry-after", "-5")]), None);
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        assert_eq!(wait(&[]), None);
        assert_eq!(
            wait(&[("retry-after", "1000000000000")]),
            Some(1_000_000_000_000)
        );
        assert_eq!(
            wait(&[("retry-after", "99999999999999999999999")]),
            Some(u64::MAX)
        );
        assert_eq!(
            wait(&[
                ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"),
                ("date", date)
            ]),
            Some(30)
        );
        assert_eq!(
            wait(&[
                ("retry-after", date),
                ("date", "Sun, 06 Nov 1994 09:00:00 GMT")
            ]),
            Some(0)
        );
    }
}
