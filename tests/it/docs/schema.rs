//! The JSON Schema in docs/schema/: what the program really writes is valid, and neither has a key that the other lacks.

use std::collections::BTreeSet;

use boon::{Compiler, Schemas};
use serde_json::{Value, json};

use crate::docs::documents::{
    clone, code_spans, document, names_in_first_column, program, section, table,
};
use crate::support::process::Place;
use crate::support::server::{Server, good, status};
use crate::support::users;

/// A name for the schema while it is compiled.
const URL: &str = "file:///rescore.schema.json";

/// The schema as it is published.
fn published() -> Value {
    serde_json::from_str(&document("docs/schema/rescore.schema.json")).unwrap()
}

/// The schema without room for keys that it does not name: later versions may add some, but not without adding them here.
fn strict() -> Value {
    fn close(schema: &mut Value) {
        if let Some(properties) = schema.get("properties") {
            let names: Vec<_> = properties.as_object().unwrap().keys().cloned().collect();
            // What is not known is null, never absent.
            assert_eq!(schema["required"], json!(names));
            schema["additionalProperties"] = false.into();
        }
        match schema {
            Value::Object(members) => members.values_mut().for_each(close),
            Value::Array(items) => items.iter_mut().for_each(close),
            _ => {}
        }
    }
    let mut schema = published();
    close(&mut schema);
    schema
}

/// Fails unless the object is valid, by the part of the schema for its type and by the whole.
#[track_caller]
pub(crate) fn assert_valid(object: &Value) {
    let part = match object["type"].as_str().unwrap() {
        "stopping" => "progress",
        name => name,
    };
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource(URL, strict()).unwrap();
    for schema in [format!("{URL}#/$defs/{part}"), URL.to_owned()] {
        let schema = compiler.compile(&schema, &mut schemas).unwrap();
        if let Err(wrong) = schemas.validate(object, schema) {
            panic!("{wrong}\n{object:#}");
        }
    }
}

fn parsed(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap()
}

#[test]
fn what_a_run_writes_is_valid() {
    let place = clone();
    // With a price, a ledger, a part, levels, drift, rejects, and a summary of all that.
    let run = "run samples/messy.csv -o scored.csv --sandbox --rate 5/s --progress json";
    let lines = |more: &str| -> BTreeSet<String> {
        let done = program(&place, &format!("{run} --summary summary.json {more}")).done();
        assert_valid(&parsed(&place.read("summary.json")));
        let objects = crate::cli::for_programs::objects(&done);
        let kinds = objects
            .iter()
            .map(|object| object["type"].as_str().unwrap().to_owned());
        kinds.collect()
    };
    let kinds = lines("--price 0.004EUR --ledger answers --changes changes.csv");
    assert!(
        kinds.contains("progress") && kinds.contains("summary"),
        "{kinds:?}"
    );
    let levels =
        "--decide-by level=/summary/risk_level --approve-levels low --fresh --limit 7 --overwrite";
    lines(levels);
    lines("--ledger answers --max-calls 1 --fresh --overwrite");
    // Nobody can replace what exists, and the summary says so.
    let kinds = lines("--no-ledger");
    assert_eq!(kinds, BTreeSet::from(["error".to_owned()]));
    assert_eq!(
        parsed(&place.read("summary.json"))["stopped"],
        "not_started"
    );
}

#[test]
fn a_summary_of_every_kind_of_trouble_is_valid() {
    let server = Server::start(|request| match (request.name().as_str(), request.attempt) {
        ("User 3", _) => status(422),
        ("User 4", 1 | 2) => status(500),
        _ if request.nth > 12 => status(401),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(20));
    let args = "-c 1 --progress json --summary summary.json";
    let done = place.score(&server, args);
    done.exits(4);
    let summary = parsed(&place.read("summary.json"));
    assert_valid(&summary);
    let objects = crate::cli::for_programs::objects(&done);
    let last = objects.iter().rfind(|object| object["type"] == "summary");
    assert_eq!(last, Some(&summary));
}

#[test]
fn what_check_and_decide_write_is_valid() {
    let place = clone();
    let run = "run samples/messy.csv -o scored.csv --sandbox --ledger answers";
    program(&place, run).done().exits(1);
    let mut compared = 0;
    for check in [
        "check samples/messy.csv --json",
        "check samples/messy.csv --json --sandbox --ledger answers --price 0.004",
        "decide scored.csv --what-if --json",
    ] {
        assert_valid(&parsed(&program(&place, check).done().stdout));
        compared += 1;
    }
    for decide in [
        "-o again.csv",
        "--changes changes.csv --approve-max 0 --overwrite -o again.csv",
    ] {
        let decide = format!("decide scored.csv --summary decided.json {decide}");
        program(&place, &decide).done();
        assert_valid(&parsed(&place.read("decided.json")));
        compared += 1;
    }
    assert_eq!(compared, 5);
}

#[test]
fn a_key_that_the_schema_lacks_or_that_the_program_lost_is_not_valid() {
    let place = clone();
    let run = "run samples/users.csv -o scored.csv --sandbox --summary summary.json";
    program(&place, run).done();
    let summary = parsed(&place.read("summary.json"));
    let fails = |changed: Value| std::panic::catch_unwind(|| assert_valid(&changed)).is_err();
    assert!(!fails(summary.clone()));
    let mut more = summary.clone();
    more["calls"]["more"] = 1.into();
    assert!(fails(more));
    let mut less = summary.clone();
    less["rows"].as_object_mut().unwrap().remove("left");
    assert!(fails(less));
    let mut other = summary;
    other["elapsed_seconds"] = "1 s".into();
    assert!(fails(other));
}

#[test]
fn the_schema_has_the_words_of_the_reference() {
    let (schema, reference) = (published(), document("docs/reference.md"));
    let words = |part: &str| -> BTreeSet<String> {
        let words = schema["$defs"][part]["enum"].as_array().unwrap();
        words
            .iter()
            .map(|word| word.to_string().trim_matches('"').to_owned())
            .collect()
    };
    let stops = names_in_first_column(&reference, "| Value | Meaning |");
    assert_eq!(words("stopped"), stops);
    let codes = table(&section(&reference, "## Exit codes"), "| Code | Meaning |");
    assert_eq!(
        words("exit_code"),
        codes.into_iter().map(|row| row[0].clone()).collect()
    );
    let lines = section(&reference, "### Counts");
    let row = lines
        .lines()
        .find(|line| line.starts_with("| `search` |"))
        .unwrap();
    let named = code_spans(row).into_iter().skip(1).collect();
    assert_eq!(words("search"), named);
}
