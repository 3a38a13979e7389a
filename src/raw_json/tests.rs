//! Objects, compared with `serde_json`.

#![allow(clippy::unwrap_used)]

use std::fmt;

use proptest::prelude::*;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{KnownKey, ObjectMember, TakeMembers, read_object};

/// The keys and values of an object, or what is wrong: whether it is JSON, and where it is not.
type Read = Result<Vec<(String, String)>, (bool, usize)>;

fn fault(error: &serde_json::Error) -> (bool, usize) {
    let is_json = error.is_data();
    (is_json, if is_json { 0 } else { error.column() })
}

fn by_serde(text: &str) -> Read {
    struct Entries;
    impl<'de> Visitor<'de> for Entries {
        type Value = Vec<(String, String)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                entries.push((key.get().to_owned(), value.get().to_owned()));
            }
            Ok(entries)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let entries = deserializer.deserialize_map(Entries);
    let ended = entries.and_then(|entries| deserializer.end().map(|()| entries));
    ended.map_err(|error| fault(&error))
}

/// Takes copies of members, and expects the keys of another object.
struct Copies<'t> {
    text: &'t str,
    expected: &'t [KnownKey],
    entries: Vec<(String, String)>,
}

impl<'a> TakeMembers<'a> for Copies<'_> {
    fn expected(&self) -> Option<&KnownKey> {
        self.expected.get(self.entries.len())
    }

    fn take(&mut self, ObjectMember { key, value, .. }: ObjectMember<'a>) {
        let start = value.get().as_ptr().addr() - self.text.as_ptr().addr();
        let there = self.text.get(start..start + value.get().len());
        assert_eq!(there, Some(value.get()));
        // A string that was passed over here is what serde_json makes of it.
        for part in [key, value] {
            let theirs = serde_json::from_str::<String>(part.get()).ok();
            assert_eq!(super::string(part).as_deref(), theirs.as_deref());
        }
        let entry = (key.get().to_owned(), value.get().to_owned());
        self.entries.push(entry);
    }
}

fn ours(text: &str, expected: &[KnownKey]) -> Read {
    let mut copies = Copies {
        text,
        expected,
        entries: Vec::new(),
    };
    let read = read_object(text, &mut copies);
    read.map_err(|error| fault(&error)).map(|()| copies.entries)
}

/// The keys of an object that was read before.
fn keys(text: &str) -> Vec<KnownKey> {
    let mut keys = Vec::new();
    let _ = read_object(text, &mut |member: ObjectMember<'_>| {
        keys.push(KnownKey::of(&member));
    });
    keys
}

#[track_caller]
fn same(text: &str, before: &str) {
    let theirs = by_serde(text);
    assert_eq!(ours(text, &[]), theirs, "{text}");
    assert_eq!(ours(text, &keys(before)), theirs, "{text} after {before}");
    assert_eq!(ours(text, &keys(text)), theirs, "{text} after itself");
}

#[test]
fn odd_objects_are_read_as_serde_json_reads_them() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(300), "]".repeat(300));
    let with_controls = [
        "",
        " ",
        " {\t} ",
        "{\"a\" : 1 , \"b\"\r\n:\t2 }",
        "{\"a\":\"\t\"}",
        "{\t\"a\":\"\",\"b\":\"\t\"}",
        "{\"a\t\":1}",
        "{\"a\":\"\u{7f}\u{85}\"}",
        "\u{feff}{\"a\":1}",
        "{\"a\":\"\0\"}",
        "{\"a\":\u{a0}1}",
        &deep,
    ];
    for text in with_controls.into_iter().chain(ODD.lines()) {
        same(text, "{\"a\":1,\"b\":2}");
    }
}

/// Objects and texts that are none, one in a line.
const ODD: &str = r#"{
{}
{}x
{} {}
[]
null
"a"
12
{,}
{"a"}
{"a":}
{"a":1,}
{"a":1 "b":2}
{"a":1,,"b":2}
{a:1}
{1:1}
{"a":1}}
{"a":1
{"a":01}
{"a":0}
{"a":0.}
{"a":.5}
{"a":1.5}
{"a":00.5}
{"a":-1}
{"a":-}
{"a":+1}
{"a":1e5}
{"a":1.5E-7}
{"a":1e}
{"a":1e999}
{"a":123456789012345678901234567890}
{"a":1x}
{"a":null}
{"a":nul}
{"a":nullx}
{"a":true,"b":false}
{"a":tru
{"a":NaN}
{"a":"b"c}
{"a":"\""}
{"a":"\\"}
{"a":"\"}
{"a":"\u00e9\n"}
{"a":"\ud800"}
{"a":"\x"}
{"a":"\u12"}
{"\u0061":1,"a":2}
{"\ud800":1}
{"a":1,"a":2}
{"":{}}
{"a":{"b":[1,{"c":"}"}]},"d":[]}
{"a":[1,]}
{"a":{]}
{"a":"é🦀","ü":""}
{"ab":1}
{"a":"
{"
{"a":0"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_object_is_read_as_serde_json_reads_it(
        text in "\\{((\"[ab]?\"|\"é\"|[,a]) ?:? ?(\"[^\"\\\\]{0,20}\"|-?[0-9]{0,3}(\\.[0-9]?)?|\"(\\\\.|[a\t\\\\]){0,3}\"|null|true|\\{\"a\":1\\}|\\[[0-9,]{0,3}\\]|nul) ?(,|\\}|)){0,4}\\}?[ \n}]{0,2}",
        before in "\\{(\"[ab]?\":1,){0,3}\"é\":2\\}",
    ) {
        same(&text, &before);
    }

    #[test]
    fn an_object_with_any_bytes_changed_is_read_as_serde_json_reads_it(
        at in 0_usize..90,
        changed in "[\\\\\"{}:, \t0-9.eE+a-zé-]{0,3}",
    ) {
        let whole = r#"{"id":17,"name":"J\u00f6rg Doe","ip":"192.0.2.1","x":null,"y":[1.5,{"z":"\\"}],"s":0.25}"#;
        let (start, rest) = whole.split_at(at.min(whole.len()));
        let mut rest = rest.chars();
        rest.next();
        same(&format!("{start}{changed}{}", rest.as_str()), whole);
    }
}
