//! Answers of the service: never a panic, a verdict only if there is one, and no message that repeats what was sent.
//!
//! The first line is the status, perhaps followed by `cut` and the number of a person; then come headers, one on each line,
//! an empty line, and the body.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use rescore::internals::{
    AddedColumns, Answer, ApiKeys, Classified, DecisionPolicy, Format, Layout, OutputFile, Plan,
    Pointer, RawRow, Reply, Row, RowFiles, RowNumber, RowState, Secret, SentRequest, Span,
    TextEncoding, UserRequest, VERDICT_COLUMNS, Verdict, Writer, classify, is_unsafe_to_print,
    write_body,
};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{Kept, headers, line};

const KEY: &str = "sk_live/51H?x~Qz+0aB";

/// Name, email, phone, address, user agent.
const PEOPLE: [[&str; 5]; 3] = [
    [
        "Quimby Xavier Doe",
        "quimby@zilla.example",
        "+15550100199",
        "203.0.113.77",
        "Zilla/9.4 (probe)",
    ],
    [
        "Zo\u{eb} \u{141}ukasz",
        "z+\u{eb}@b\u{fc}cher.example",
        "",
        "2001:db8::77",
        "\u{1f980} \"q\" \\ <b>",
    ],
    ["Ann Li", "a@b.example", "+4930123456", "192.0.2.1", "curl"],
];

/// Further fields to capture.
const COLUMNS: [&str; 4] = ["/summary/risk_level", "/a/0", "/", "/summary"];

pub(crate) fn holds(input: &[u8]) {
    let mut rest = input;
    let first = line(&mut rest).map_or(Cow::Borrowed(""), String::from_utf8_lossy);
    let mut words = first.split(' ');
    let status = words.next().and_then(|status| status.parse().ok());
    let status: u16 = status.unwrap_or(200);
    let (mut cut, mut person) = (false, 0);
    for word in words {
        cut |= word == "cut";
        person = word.parse().unwrap_or(person);
    }
    let person = PEOPLE[person % PEOPLE.len()];
    let headers = headers(&mut rest);
    let reply = Reply {
        status,
        headers,
        body: Bytes::copy_from_slice(rest),
        cut,
        sent: SentRequest {
            api_keys: ApiKeys::new(Secret::new(KEY)),
            body: request(&person),
        },
    };
    let columns = COLUMNS.map(|pointer| Pointer::parse(pointer).unwrap());
    let message = match classify(Ok(reply), &columns) {
        Classified::Answered(answer, _) => {
            assert!((200..=299).contains(&status) && !cut);
            check_answer(&answer, rest);
            return;
        }
        Classified::Throttled { .. } => {
            assert!((200..=299).contains(&status) || (400..=599).contains(&status));
            return;
        }
        Classified::Failed(fault) => {
            // The rejects have the row as well, but never a key.
            check_secrets(&fault.failure.message, &[]);
            fault.to_display().to_owned()
        }
        Classified::Refused(error) | Classified::KeyRefused(error) => {
            assert_eq!(error.exit().code(), 4);
            // The report has line ends of its own.
            error.report().replace('\n', " ")
        }
    };
    assert!(
        !message.contains(is_unsafe_to_print),
        "is_unsafe_to_print a terminal: {message:?}"
    );
    assert!(message.len() < 4096, "too long to be read: {message}");
    check_secrets(&message, &person);
}

fn request([name, email, phone, ip, user_agent]: &[&'static str; 5]) -> Bytes {
    let some = |text: &&'static str| Some(Cow::Borrowed(*text)).filter(|text| !text.is_empty());
    let request = UserRequest {
        name: Cow::Borrowed(name),
        email: some(email),
        phone: some(phone),
        ip: Cow::Borrowed(ip),
        user_agent: Cow::Borrowed(user_agent),
    };
    let mut body = BytesMut::new();
    write_body(&request, Plan::Free, &mut body);
    body.freeze()
}

/// Asserts that the words have neither the key, in any case or encoding, nor the person's data.
fn check_secrets(message: &str, person: &[&str]) {
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let lower = message.to_lowercase();
    let words = [KEY, &hex].into_iter().chain(person.iter().copied());
    // A short word may be part of an ordinary word.
    for word in words.filter(|word| word.chars().count() > 4) {
        assert!(
            !lower.contains(&word.to_lowercase()),
            "{word:?} is in {message:?}"
        );
    }
    assert!(!message.contains(&STANDARD.encode(KEY)), "{message:?}");
}

/// Asserts that the answer has what the body has, and can be written in both formats.
fn check_answer(answer: &Answer, body: &[u8]) {
    type Members<'a> = HashMap<String, &'a RawValue>;
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let body = String::from_utf8_lossy(body);
    let members: Members<'_> = serde_json::from_str(&body).unwrap();
    let summary: Members<'_> = serde_json::from_str(members["summary"].get()).unwrap();
    let digits = answer.score.digits();
    assert_eq!(summary["risk_score"].get(), digits);
    assert!(digits.parse::<f64>().unwrap().is_finite());
    assert!(serde_json::from_str::<serde_json::Number>(digits).is_ok());
    let id = answer.transaction_id.as_str();
    let sent = members["transaction_id"].get();
    assert!(sent == id || serde_json::from_str::<String>(sent).unwrap() == id);
    assert!(!id.is_empty() && id.len() <= 4096);
    assert_eq!(answer.captured.len(), COLUMNS.len());
    for value in answer.captured.iter().flatten() {
        assert!(serde_json::from_str::<IgnoredAny>(value).is_ok(), "{value}");
        assert!(!value.contains(is_unsafe_to_print), "{value:?}");
    }
    for delimiter in [b',', b';', b'\t', b'|', b' '] {
        check_row(answer, delimiter);
    }
    check_object(answer);
}

fn columns() -> AddedColumns {
    let further: Vec<_> = (0..COLUMNS.len())
        .map(|column| format!("further {column}"))
        .collect();
    AddedColumns::new("", further.iter().map(String::as_str), None)
}

/// As another CSV parser reads it, the row has exactly these cells, and none is a formula.
fn check_row(answer: &Answer, delimiter: u8) {
    let written = write(
        answer,
        Format::Delimited {
            delimiter,
            quotes: true,
        },
        "x",
    );
    let mut reader = ::csv::ReaderBuilder::new();
    let reader = reader
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter);
    let mut records = reader.from_reader(&*written).into_records();
    let record = records.next().unwrap().unwrap();
    assert!(records.next().is_none(), "two rows: {record:?}");
    assert_eq!(record.len(), 1 + columns().len());
    let decision = DecisionPolicy::default().decide(answer).unwrap().word();
    let id = answer.transaction_id.as_str();
    let seen = id.replace(is_unsafe_to_print, " ");
    let cell = &record[1];
    assert!(cell == seen || cell.strip_prefix('\'') == Some(&seen));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let is_harmless = cell.starts_with('-') && cell.chars().all(is_plain);
    assert!(is_harmless || !is_formula(cell), "a formula: {cell:?}");
    assert_eq!(
        [&record[0], &record[2], &record[3]],
        ["x", answer.score.digits(), decision]
    );
    for (cell, value) in record.iter().skip(4).zip(&answer.captured) {
        let is_number = cell.parse::<f64>().is_ok();
        assert!(is_number || !is_formula(cell), "a formula: {cell:?}");
        assert!(!cell.contains(is_unsafe_to_print), "{cell:?}");
        assert!(value.is_some() || cell.is_empty());
    }
}

/// Whether a spreadsheet would run a cell.
fn is_formula(cell: &str) -> bool {
    cell.starts_with(['=', '+', '-', '@', '\t', '\r'])
}

/// As another JSON parser reads it, the line has exactly these members.
fn check_object(answer: &Answer) {
    let written = write(answer, Format::Jsonl, "{}");
    let members: HashMap<String, &RawValue> = serde_json::from_slice(&written).unwrap();
    assert_eq!(members.len(), columns().len());
    let id = members["transaction_id"].get();
    assert!(!id.contains(is_unsafe_to_print), "{id:?}");
    let id: String = serde_json::from_str(id).unwrap();
    assert_eq!(id, answer.transaction_id.as_str());
    assert_eq!(members["risk_score"].get(), answer.score.digits());
    for (name, value) in columns()
        .iter()
        .skip(VERDICT_COLUMNS.len())
        .zip(&answer.captured)
    {
        assert_eq!(members[name].get(), value.as_deref().unwrap_or("null"));
    }
    assert_eq!(written.split(|byte| *byte == b'\n').count(), 2, "one line");
}

fn write(answer: &Answer, format: Format, content: &'static str) -> Vec<u8> {
    let raw = [content, "\n"].concat();
    let raw = RawRow {
        content: Span::new(0, content.len()),
        bytes: Bytes::from(raw),
        ..RawRow::default()
    };
    let layout = Layout {
        format,
        encoding: TextEncoding::UTF_8,
        preamble: Bytes::new(),
        header: None,
        columns: columns(),
    };
    let policy = DecisionPolicy::default();
    let decision = policy.decide(answer);
    let kept = Kept::default();
    let files = RowFiles::new(OutputFile::stream(kept.clone()), None, None);
    let mut writer = Writer::new(layout, policy, files);
    let finished = Row {
        number: RowNumber::FIRST,
        raw,
        state: RowState::Done {
            verdict: Verdict::Scored(answer.clone(), decision),
            old: None,
        },
    };
    assert!(writer.write(&[finished]).is_ok());
    kept.take()
}
