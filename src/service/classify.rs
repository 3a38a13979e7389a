//! What the result of a call means: whether it could have been billed, and whether the row may be sent again.
//!
//! The interface does not define errors, so these classes are a matter of caution and not of a
//! promise. The table in docs/reference.md describes this file.

use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::answer::{self, Columns};
use super::client::{Exchange, Reply, SentRequest};
use super::network_fault::TransportFault;
use super::quota::{Quota, named_wait, names_wait, wait};
use super::words::{described, is_page, said, spoken};
use crate::base::error::Error;
use crate::telemetry::event::FailureClass;
use crate::verdict::{Answer, Failure, Reason};

/// The result of one call.
#[derive(Debug)]
pub enum Classified {
    /// A verdict, and the whole body that it was read from.
    Answered(Answer, Bytes),
    /// Class A, too many calls: all calls wait, and the row's retries are not used up.
    Throttled {
        /// How long the service asks to wait, if it says so.
        wait: Option<Duration>,
        /// The status of the answer; `None` if an HTTP/2 stream was refused without one.
        status: Option<u16>,
    },
    /// Classes A to E: this call brought no verdict.
    Failed(Fault),
    /// Class F: every further call would fail in the same way.
    Refused(Error),
    /// Class F for the key: every further call with this key would fail in the same way.
    KeyRefused(Error),
}

/// A call that brought no verdict.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// Whether it could have been billed.
    pub(crate) class: FailureClass,
    /// What it says about the service.
    pub(crate) health: Health,
    /// Whether the answer seems to come from something other than the service: it is not HTTP, or its body is not JSON.
    pub(crate) from_other_program: bool,
    /// The row's failure if there is no further call. Its message may have the row's values, and is for the rejects only.
    pub failure: Failure,
    /// The words for everybody in place of that message.
    without_values: Option<Box<str>>,
}

impl Fault {
    fn new(
        class: FailureClass,
        health: Health,
        reason: Reason,
        message: impl Into<Box<str>>,
    ) -> Self {
        Self {
            class,
            health,
            from_other_program: false,
            failure: Failure::new(reason, message),
            without_values: None,
        }
    }

    /// The message for everybody, without the row's values.
    pub fn to_display(&self) -> &str {
        self.without_values
            .as_deref()
            .unwrap_or(&self.failure.message)
    }

    /// The fault of a row whose calls were throttled this number of times, the last time with this status,
    /// while others were accepted. Nothing was processed, so a later run asks again.
    pub(crate) fn throttled(times: u32, status: Option<u16>) -> Self {
        let by = status.map_or_else(|| "refused stream".to_owned(), |status| status.to_string());
        let message =
            format!("the service throttled this row {times} times ({by}) while it accepted others");
        let class = FailureClass::NotProcessed;
        Self::new(class, Health::AtWork, Reason::Throttled, message)
    }

    /// Whether the request must not be sent again in the same run: it was billed, may have been billed, or would be refused
    /// again.
    pub(crate) const fn is_for_good(&self) -> bool {
        !matches!(
            self.class,
            FailureClass::NotProcessed | FailureClass::Unclear
        )
    }
}

/// What a call without a verdict says about the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// It works, whatever its answer to this row.
    AtWork,
    /// It failed, perhaps because of this row.
    Failed,
    /// A bare 503: it gets too many calls, or it is down.
    BusyOrAway,
    /// It cannot be reached, or a gateway in front of it says so.
    Gone,
    /// The name of its host or its proxy cannot be resolved: before the first answer, this means that the address is wrong.
    HostNotFound,
    /// There is no connection: the run waits for the service, also before the first answer.
    NotConnected,
    /// It takes too long to answer.
    Slow,
    /// It did not take the request, as its connection had ended in order, which says nothing about the service.
    LeftOut,
}

/// Classifies the result of a call.
pub fn classify(exchange: Exchange, columns: &Columns) -> Classified {
    match exchange {
        Ok(reply) => of_reply(&reply, columns),
        Err(fault) => of_transport(fault),
    }
}

fn of_reply(reply: &Reply, columns: &Columns) -> Classified {
    use FailureClass::{OutcomeUnknown, RowRefused, Unclear};
    let status = reply.status;
    let failed = |class, health, reason, words: String| {
        Classified::Failed(Fault::new(class, health, reason, words))
    };
    let unclear = |health| failed(Unclear, health, Reason::ServerError, described(reply));
    let refused_row = |reason| {
        let words = said(reply, SentRequest::key_is_in);
        Classified::Failed(Fault {
            from_other_program: is_page(&reply.body),
            without_values: Some(said(reply, SentRequest::anything_is_in).into()),
            ..Fault::new(RowRefused, Health::AtWork, reason, words)
        })
    };
    match status {
        204 | 205 => useless(format!("status {status}, without a verdict")),
        206 => useless("status 206, only a part of an answer"),
        200..=299 if reply.cut => useless("the answer is longer than 1 MiB"),
        200..=299 => match answer::read(reply, columns) {
            Ok(answer) if repeats_a_key(&answer, reply) => {
                useless("the answer repeats the API key where a cell is read")
            }
            Ok(answer) => Classified::Answered(answer, reply.body.clone()),
            Err(_) if says_rate_limit(&reply.body) => throttled(reply),
            Err(wrong) => {
                let and = |hides| match spoken(reply, hides) {
                    Some(words) => format!("{wrong}; the service said: {words}"),
                    None => wrong.clone(),
                };
                Classified::Failed(Fault {
                    from_other_program: is_page(&reply.body),
                    without_values: Some(and(SentRequest::anything_is_in).into()),
                    ..without_verdict(and(SentRequest::key_is_in))
                })
            }
        },
        429 if says_out_of_credit(&reply.body) => out_of_credit(reply),
        _ if is_throttle(reply) => throttled(reply),
        300..=399 | 401 | 402 | 404 | 405 | 407 | 410 | 511 => of_refusal(reply),
        403 => refused_row(Reason::Forbidden),
        503 => unclear(Health::BusyOrAway),
        502 | 504 => unclear(Health::Gone),
        408 | 500..=599 => unclear(Health::Failed),
        400..=499 => refused_row(Reason::Refused),
        // 1xx never ends a call, and statuses above 599 do not exist.
        _ => {
            let words = format!("status {status}, which is not an answer");
            failed(OutcomeUnknown, Health::Gone, Reason::NoAnswer, words)
        }
    }
}

/// Class F, by status: why no call can succeed, and what the user can do.
fn of_refusal(reply: &Reply) -> Classified {
    let (what, hint) = match reply.status {
        401 => {
            let refused = refusal(reply, "the service does not accept the API key");
            return Classified::KeyRefused(refused.hint(
                "check the key in `RESCORE_API_KEY` or `--api-key-file`, and whether it belongs \
                 to this plan",
            ));
        }
        402 => return out_of_credit(reply),
        407 | 511 => (
            "the proxy or the network requires a login",
            "give it in `HTTP_PROXY`, such as `http://user:password@proxy:3128`",
        ),
        300..=399 => (
            "the service redirects to another address; neither key nor data were sent there",
            "check the base address, including `https://` and a missing or extra `/`",
        ),
        _ => (
            "the service does not accept requests at this address",
            "check the base address",
        ),
    };
    Classified::Refused(refusal(reply, what).hint(hint))
}

fn of_transport(fault: TransportFault) -> Classified {
    use FailureClass::{NotProcessed, OutcomeUnknown};
    let broken = |words| format!("the connection broke: {words}");
    let not_processed = |words| format!("the service did not process the request: {words}");
    let from_other_program = matches!(fault, TransportFault::NotHttp(_));
    let (class, health, message) = match fault {
        TransportFault::Refused(what, hint) => {
            return Classified::Refused(Error::refused(what).hint(hint));
        }
        TransportFault::HostNotFound(host) => {
            let message = format!("cannot resolve the host name {host}");
            (NotProcessed, Health::HostNotFound, message)
        }
        TransportFault::NotConnected(words) => (NotProcessed, Health::NotConnected, words),
        TransportFault::Unreachable(words) => (NotProcessed, Health::Gone, words),
        TransportFault::StreamRefused => {
            return Classified::Throttled {
                wait: None,
                status: None,
            };
        }
        TransportFault::Unprocessed(words) | TransportFault::ConnectionEnded(words) => {
            (NotProcessed, Health::LeftOut, not_processed(words))
        }
        TransportFault::WantsHttp1 => {
            let words = "it does not accept HTTP/2".to_owned();
            (NotProcessed, Health::LeftOut, not_processed(words))
        }
        TransportFault::TimedOut => {
            let words = "no complete answer in time".to_owned();
            (OutcomeUnknown, Health::Slow, words)
        }
        TransportFault::Stale(words) => (OutcomeUnknown, Health::AtWork, broken(words)),
        TransportFault::Broken(words) => (OutcomeUnknown, Health::Gone, broken(words)),
        TransportFault::NotHttp(words) => {
            let message = format!("the answer is not HTTP: {words}");
            (OutcomeUnknown, Health::Gone, message)
        }
    };
    let reason = match class {
        NotProcessed => Reason::Unreachable,
        _ => Reason::NoAnswer,
    };
    Classified::Failed(Fault {
        from_other_program,
        ..Fault::new(class, health, reason, message)
    })
}

fn without_verdict(wrong: impl Into<Box<str>>) -> Fault {
    let class = FailureClass::Useless;
    Fault::new(class, Health::AtWork, Reason::BadAnswer, wrong)
}

fn useless(wrong: impl Into<Box<str>>) -> Classified {
    Classified::Failed(without_verdict(wrong))
}

fn throttled(reply: &Reply) -> Classified {
    Classified::Throttled {
        wait: wait(&reply.headers),
        status: Some(reply.status),
    }
}

/// Whether the id or a cell that would be written has a key in it.
fn repeats_a_key(answer: &Answer, reply: &Reply) -> bool {
    let cells = answer.captured.iter().flatten().map(|cell| &**cell);
    let mut written = cells.chain([answer.transaction_id.as_str()]);
    written.any(|text| reply.sent.api_keys.are_in(text))
}

fn refusal(reply: &Reply, what: &str) -> Error {
    Error::refused(what).detail(format!(
        "the service said: {}",
        said(reply, SentRequest::anything_is_in)
    ))
}

fn out_of_credit(reply: &Reply) -> Classified {
    let error = refusal(reply, "the account is out of credit");
    Classified::Refused(error.hint("top it up with the service, then run again"))
}

/// Words by which a 429 says that waiting does not help. "Quota exceeded" is not among them: it may
/// be the quota of a minute.
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

/// Whether an unsuccessful answer asks for fewer calls, or to wait: by its status, by naming a wait, or in words.
fn is_throttle(reply: &Reply) -> bool {
    let headers = &reply.headers;
    let names_time = || named_wait(headers).is_some_and(|wait| !wait.is_zero());
    match reply.status {
        420 | 425 | 429 => true,
        503 => names_wait(headers),
        // Mentioning a limit is not enough: some services do so in every answer, even to a wrong key.
        403 => {
            names_wait(headers)
                || Quota::of(headers, SystemTime::now).is_used_up()
                || says_rate_limit(&reply.body)
        }
        401 | 402 | 404 | 405 | 511 => false,
        400..=499 => names_time() || says_rate_limit(&reply.body),
        500..=599 => names_time(),
        _ => false,
    }
}

/// Whether a body names a rate limit, such as `rate_limit_exceeded`, and is not an answer that only lacks a part.
fn says_rate_limit(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).to_lowercase();
    let text = text.replace(['_', '-', ' '], "");
    let says = |words| text.contains(words);
    (says("ratelimit") || says("toomanyrequests")) && !says("transactionid")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;
    use crate::raw_json::Pointer;

    const GOOD: &str = r#"{"transaction_id":"a","summary":{"risk_score":1}}"#;

    /// The class of an answer with this status, these headers and this body.
    fn of(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> char {
        of_columns(status, headers, body, &[])
    }

    fn of_columns(
        status: u16,
        headers: &[(&'static str, &'static str)],
        body: &str,
        columns: &Columns,
    ) -> char {
        let headers = headers.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        let reply = Reply {
            status,
            headers: headers.collect(),
            ..Reply::ok(body)
        };
        letter(&classify(Ok(reply), columns))
    }

    /// The letter of a result; `+` is a verdict, `T` a throttle, `K` a refused key.
    fn letter(result: &Classified) -> char {
        match result {
            Classified::Answered(..) => '+',
            Classified::Throttled { .. } => 'T',
            Classified::Failed(fault) => {
                let class = serde_json::to_value(fault.class).unwrap();
                class.as_str().unwrap().chars().next().unwrap()
            }
            Classified::Refused(_) => 'F',
            Classified::KeyRefused(_) => 'K',
        }
    }

    #[test]
    fn every_status_has_its_class() {
        for status in 100..=599 {
            let expected = match status {
                204..=206 => 'D',
                200..=299 => '+',
                401 => 'K',
                300..=399 | 402 | 404 | 405 | 407 | 410 | 511 => 'F',
                420 | 425 | 429 => 'T',
                408 | 500..=599 => 'C',
                400..=499 => 'E',
                _ => 'B',
            };
            // The body is a good verdict each time: it must count only if the status says so.
            assert_eq!(of(status, &[], GOOD), expected, "status {status}");
        }
    }

    #[test]
    fn every_transport_fault_has_its_class() {
        let words = String::new;
        for (fault, expected) in [
            (TransportFault::HostNotFound(words()), 'A'),
            (TransportFault::Unreachable(words()), 'A'),
            (TransportFault::NotConnected(words()), 'A'),
            (TransportFault::Refused(words(), ""), 'F'),
            (TransportFault::Unprocessed(words()), 'A'),
            (TransportFault::ConnectionEnded(words()), 'A'),
            (TransportFault::StreamRefused, 'T'),
            (TransportFault::WantsHttp1, 'A'),
            (TransportFault::TimedOut, 'B'),
            (TransportFault::Stale(words()), 'B'),
            (TransportFault::Broken(words()), 'B'),
            (TransportFault::NotHttp(words()), 'B'),
        ] {
            let class = letter(&classify(Err(fault.clone()), &[]));
            assert_eq!(class, expected, "{fault:?}");
        }
    }

    #[test]
    fn headers_and_bodies_that_change_the_class() {
        let nothing_left = r#""default";r=0;t=30"#;
        let after = |value| [("retry-after", value)];
        let (later, now, soon, never) = (after("7"), after("0"), after("soon"), after("99999999"));
        // Whatever the status of a refusal is, a wait is waited for.
        for status in [400, 406, 408, 410, 413, 418, 420, 430, 451, 499] {
            assert_eq!(of(status, &later, ""), 'T', "{status}");
        }
        for status in [500, 501, 502, 503, 504, 507, 520, 529, 599] {
            assert_eq!(of(status, &later, ""), 'T', "{status}");
        }
        let limit = r#"{"error":{"type":"rate_limit_error","message":"slow down"}}"#;
        for (status, headers, body, expected) in [
            (413, &now[..], "", 'E'),
            (413, &soon, "", 'E'),
            (500, &now, "", 'C'),
            (502, &never, "", 'C'),
            (503, &soon, "", 'T'),
            (200, &later, GOOD, '+'),
            (200, &later, "{}", 'D'),
            (301, &later, "", 'F'),
            (401, &later, limit, 'K'),
            (402, &later, "", 'F'),
            (404, &later, "", 'F'),
            (511, &later, "", 'F'),
            (200, &[], limit, 'T'),
            (400, &[], limit, 'T'),
            (403, &[], limit, 'T'),
            (422, &[], r#"{"code":"RateLimitExceeded"}"#, 'T'),
            (400, &[], "Too many requests", 'T'),
            (500, &[], limit, 'C'),
            // An answer that only lacks its score is not asked for again.
            (
                200,
                &[],
                r#"{"transaction_id":"a","risk_patterns":["rate_limit"]}"#,
                'D',
            ),
            (400, &[], r#"{"error":"no rate for this country"}"#, 'E'),
            (503, &later, "", 'T'),
            (403, &[("x-ratelimit-remaining", "0")], "", 'T'),
            (403, &[("x-ratelimit-remaining", "12")], "", 'E'),
            (403, &[("ratelimit", nothing_left)], "", 'T'),
            (429, &[], r#"{"error":{"code":"insufficient_quota"}}"#, 'F'),
            (200, &[], "<html>", 'D'),
        ] {
            assert_eq!(
                of(status, headers, body),
                expected,
                "{status} {headers:?} {body}"
            );
        }
        // An answer with the key in an id or a cell is no verdict.
        let level = [Pointer::parse("/level").unwrap()];
        let in_id = GOOD.replace("\"a\"", "\"for test-key-0123\"");
        let in_field = GOOD.replacen('{', "{\"level\":\"test\\u002dkey-0123\",", 1);
        for (body, columns, expected) in [
            (&*in_id, &[][..], 'D'),
            (GOOD, &level, '+'),
            (&in_field, &[], '+'),
            (&in_field, &level, 'D'),
        ] {
            assert_eq!(of_columns(200, &[], body, columns), expected, "{body}");
        }
    }

    #[test]
    fn a_row_that_fails_for_throttles_is_sent_by_a_later_run() {
        let fault = Fault::throttled(7, Some(429));
        assert_eq!(
            Reason::of_word(fault.failure.reason.word()),
            Some(Reason::Throttled)
        );
        assert!(!fault.is_for_good());
    }
}
