//! Reads a success's body, tolerantly (interface, section 2.2).
//!
//! Only the fields that are used are checked. All others may be absent or of any type.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::api_key::ApiKeys;
use super::client::Reply;
use super::words;
use crate::raw_json::{self, Pointer};
use crate::verdict::{Answer, Score, TransactionId};

/// Further fields of the answer that the user asked for.
pub(crate) type Columns = [Pointer];

#[derive(Deserialize)]
struct AnswerBody<'a> {
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    transaction_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct AnswerSummary<'a> {
    #[serde(borrow, default)]
    risk_score: Option<&'a RawValue>,
}

const OTHER_SHAPE: &str = "the answer is JSON of an unknown shape";

/// Reads the answer from the body of a success.
///
/// # Errors
/// Why it is not a verdict, in one sentence.
pub(super) fn read(reply: &Reply, columns: &Columns) -> Result<Answer, String> {
    parse(&reply.body, columns, || words::not_json(reply))
}

/// Reads an answer again that was kept whole. `None` if it has no verdict. A column that was not read before may have a key in
/// it, as some services repeat what they are sent: it stays empty.
pub(crate) fn read_kept(body: &[u8], columns: &Columns, keys: &ApiKeys) -> Option<Answer> {
    let mut answer = parse(body, columns, String::new).ok()?;
    for column in &mut answer.captured {
        column.take_if(|text| keys.are_in(text));
    }
    Some(answer)
}

fn parse(
    body: &[u8],
    columns: &Columns,
    not_json: impl FnOnce() -> String,
) -> Result<Answer, String> {
    // Checked once, and not for each text. An answer that is not UTF-8 was paid for as well, and
    // the bad bytes may be in a field that is not read. The check alone costs a tenth of a repair.
    let body = words::without_mark(body);
    let text =
        std::str::from_utf8(body).map_or_else(|_| String::from_utf8_lossy(body), Cow::Borrowed);
    let body = &*text;
    let parsed: AnswerBody<'_> = match serde_json::from_str(body) {
        Ok(parsed) => parsed,
        Err(error) if error.is_data() => return Err(OTHER_SHAPE.to_owned()),
        Err(_) => return Err(not_json()),
    };
    // An array would be read as the fields in order.
    if !body.trim_ascii_start().starts_with('{') {
        return Err(OTHER_SHAPE.to_owned());
    }
    if parsed.status.is_some_and(|status| status.get() == "false") {
        return Err("the answer says `\"status\": false`".to_owned());
    }
    let summary = parsed.summary.map(RawValue::get);
    let score = summary
        .filter(|summary| summary.starts_with('{'))
        .and_then(|summary| serde_json::from_str::<AnswerSummary<'_>>(summary).ok())
        .and_then(|summary| summary.risk_score)
        .ok_or("the answer has no `summary.risk_score`, or has it twice")?;
    let score = Score::from_json_number(score.get())
        .map_err(|wrong| format!("the answer's `summary.risk_score` {wrong}"))?;
    let id = parsed
        .transaction_id
        .ok_or("the answer has no `transaction_id`")?;
    let transaction_id = transaction_id(id, matches!(text, Cow::Owned(_)))
        .map_err(|wrong| format!("the answer's `transaction_id` {wrong}"))?;
    let captured = columns.iter().map(|pointer| {
        let value = pointer.find(body).filter(|value| *value != "null");
        value.map(raw_json::on_one_line)
    });
    Ok(Answer {
        transaction_id,
        score,
        captured: captured.collect(),
    })
}

/// The id; `is_repaired` if the answer is not UTF-8, so that replacement characters stand for its bad bytes.
fn transaction_id(id: &RawValue, is_repaired: bool) -> Result<TransactionId, &'static str> {
    let text = id.get();
    if is_repaired && text.contains(char::REPLACEMENT_CHARACTER) {
        return Err("is not UTF-8");
    }
    let id = match text.as_bytes().first() {
        Some(b'"') => TransactionId::new(&raw_json::string(text).ok_or("has broken escapes")?)?,
        Some(b'0'..=b'9') => TransactionId::new(text)?,
        _ => return Err("is neither a string nor a positive number"),
    };
    if id.as_str().trim().is_empty() {
        return Err("is only white space");
    }
    Ok(id)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::base::secret::Secret;
    use crate::service::SentRequest;

    /// The id and the digits of the score, or why there is no verdict.
    fn answer(body: &[u8]) -> Result<(String, String), String> {
        let mut reply = Reply::ok("");
        reply.body = bytes::Bytes::copy_from_slice(body);
        let answer = read(&reply, &[])?;
        let id = answer.transaction_id.as_str().to_owned();
        Ok((id, answer.score.digits().to_owned()))
    }

    fn body(id: &str, summary: &str) -> String {
        format!(r#"{{"transaction_id":{id},"summary":{summary}}}"#)
    }

    #[test]
    fn the_digits_of_the_score_and_a_numeric_id_stay_as_sent() {
        for (sent, digits, id) in [
            ("\"a-1\"", "2.0", "a-1"),
            ("9007199254740993", "1e-3", "9007199254740993"),
            ("\"\\u0061\"", "1.2345678901234567", "a"),
            ("\" a\\u200b\"", "1", " a\u{200b}"),
            ("\"=1+1\"", "1", "=1+1"),
            ("\"-a\\t\\u001b\\ud83d\\ude00\"", "1", "-a\t\u{1b}\u{1f600}"),
            ("\"a\u{fffd}\"", "1", "a\u{fffd}"),
        ] {
            let body = body(sent, &format!(r#"{{"x":[1],"risk_score":{digits}}}"#));
            let expected = (id.to_owned(), digits.to_owned());
            assert_eq!(answer(body.as_bytes()).unwrap(), expected);
            let marked = format!("\u{feff}{body}");
            assert_eq!(answer(marked.as_bytes()).unwrap(), expected);
        }
        // Bytes that are not UTF-8 spoil only what is read.
        let echo = b"{\"echo\":\"J\xe9\",\"transaction_id\":\"a\",\"summary\":{\"risk_score\":1}}";
        assert_eq!(answer(echo).unwrap().0, "a");
        let id = b"{\"transaction_id\":\"\xe9\",\"summary\":{\"risk_score\":1}}";
        let why = answer(id).unwrap_err();
        assert_eq!(why, "the answer's `transaction_id` is not UTF-8");
    }

    #[test]
    fn an_answer_without_a_verdict_says_why() {
        const GOOD: &str = r#"{"risk_score":1}"#;
        const SHAPE: &str = " is JSON of an unknown shape";
        const NONE: &str = " has no `summary.risk_score`, or has it twice";
        const NO_NUMBER: &str = "'s `summary.risk_score` is not a number";
        let twice = body(r#""a","transaction_id":"b""#, GOOD);
        let failed = body(r#""a","status":false"#, GOOD);
        for (body, why) in [
            ("\u{feff}".to_owned(), " is empty"),
            ("[1]".to_owned(), SHAPE),
            (format!(r#"[true,"a",{GOOD}]"#), SHAPE),
            (twice, SHAPE),
            (failed, " says `\"status\": false`"),
            (
                format!(r#"{{"summary":{GOOD}}}"#),
                " has no `transaction_id`",
            ),
            (r#"{"transaction_id":"a"}"#.to_owned(), NONE),
            (body("1", r#"{"risk_score":1,"risk_score":2}"#), NONE),
            (body("1", "7"), NONE),
            (body("1", "[7]"), NONE),
            (body("1", r#"{"risk_score":null}"#), NONE),
            (body("1", r#"{"risk_score":"1"}"#), NO_NUMBER),
            (body("1", r#"{"risk_score":1e400}"#), NO_NUMBER),
        ] {
            let found = answer(body.as_bytes()).unwrap_err();
            assert_eq!(found, format!("the answer{why}"), "{body}");
        }
        for (id, why) in [
            ("{}", "is neither a string nor a positive number"),
            ("-1", "is neither a string nor a positive number"),
            ("\"\"", "is empty"),
            ("\"\\u2003\\u00a0\"", "is only white space"),
        ] {
            let found = answer(body(id, GOOD).as_bytes()).unwrap_err();
            assert_eq!(found, format!("the answer's `transaction_id` {why}"));
        }
    }

    #[test]
    fn a_deeply_nested_answer_takes_no_stack() {
        let deep = "[".repeat(200_000);
        let closed = format!("{deep}{}", "]".repeat(200_000));
        let columns = [Pointer::parse("/x/0/0").unwrap(), Pointer::to_all()];
        for (value, is_good) in [(deep, false), (closed, true)] {
            let body =
                format!(r#"{{"x":{value},"transaction_id":"a","summary":{{"risk_score":1}}}}"#);
            assert_eq!(read(&Reply::ok(&body), &columns).is_ok(), is_good);
            assert!(!words::said(&Reply::ok(&value), SentRequest::anything_is_in).is_empty());
            assert!(!words::said(&Reply::ok(&body), SentRequest::anything_is_in).is_empty());
        }
    }

    #[test]
    fn further_fields_are_captured_as_written_and_none_with_the_key() {
        let body = br#"{"transaction_id":"a","summary":{"risk_score":1,"level":0,"x":null},"echo":"Bearer sk-0123456789"}"#;
        let fields = ["/summary/level", "/summary/x", "/none", "/echo"];
        let mut columns = fields.map(|it| Pointer::parse(it).unwrap()).to_vec();
        columns.push(Pointer::to_all());
        let keys = ApiKeys::new(Secret::new("sk-0123456789"));
        let captured = read_kept(body, &columns, &keys).unwrap().captured;
        assert_eq!(*captured, [Some("0".into()), None, None, None, None]);
    }
}
