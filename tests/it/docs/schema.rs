//! The JSON Schema in docs/schema/: what the program writes is valid, neither has a key that the other lacks, and the reference
//! has them all.

use std::collections::BTreeSet;

use boon::{Compiler, Schemas};
use serde_json::{Value, json};

use crate::docs::documents::{
    blocks, clone, code_spans, document, first_cells, names_in_first_cells, program,
};

/// A name for the schema while it is compiled.
const URL: &str = "file:///rescore.schema.json";

/// The schema as it is published.
fn published() -> Value {
    serde_json::from_str(&document("docs/schema/rescore.schema.json")).unwrap()
}

/// Calls `visit` with each part of the schema that describes an object.
fn each_object(schema: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    if schema.get("properties").is_some() {
        visit(schema);
    }
    match schema {
        Value::Object(members) => members.values_mut().for_each(|it| each_object(it, visit)),
        Value::Array(items) => items.iter_mut().for_each(|it| each_object(it, visit)),
        _ => {}
    }
}

fn keys(object: &Value) -> Vec<String> {
    object["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

/// Fails unless the object is valid, by the part of the schema for its type and by the whole. Keys that the schema does not name
/// are not valid here, although later versions may add some.
#[track_caller]
pub(crate) fn assert_valid(object: &Value) {
    let mut strict = published();
    each_object(&mut strict, &mut |part| {
        // What is not known is null, never absent.
        assert_eq!(part["required"], json!(keys(part)));
        part["additionalProperties"] = false.into();
    });
    let part = match object["type"].as_str().unwrap() {
        "stopping" => "progress",
        name => name,
    };
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource(URL, strict).unwrap();
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
    let run = "run samples/messy.csv -o scored.csv --sandbox --rate 15/s --progress json --summary summary.json";
    for more in [
        "--price 0.004EUR --ledger answers --changes changes.csv",
        "--decide-by level=/summary/risk_level --approve-levels low --fresh --limit 7 --overwrite",
        "--ledger answers --max-calls 1 --fresh --overwrite",
        // This one cannot start, as it must not replace what exists.
        "--no-ledger",
    ] {
        let done = program(&place, &format!("{run} {more}")).done();
        let summary = place.json("summary.json");
        assert_valid(&summary);
        let printed = crate::cli::for_programs::objects(&done);
        assert!(summary["stopped"] == "not_started" || printed.contains(&summary));
    }
}

#[test]
fn what_check_and_decide_write_is_valid() {
    let place = clone();
    let run = "run samples/messy.csv -o scored.csv --sandbox --ledger answers";
    program(&place, run).exits(1);
    for printed in [
        "check samples/messy.csv --json",
        "check samples/messy.csv --json --sandbox --ledger answers --price 0.004",
        "decide scored.csv --what-if --json",
    ] {
        assert_valid(&program(&place, printed).done().json());
    }
    for decide in [
        "-o again.csv",
        "--changes changes.csv --approve-max 0 --overwrite -o again.csv",
    ] {
        let decide = format!("decide scored.csv --summary decided.json {decide}");
        program(&place, &decide).done();
        assert_valid(&place.json("decided.json"));
    }
}

#[test]
fn what_the_commands_of_a_ledger_print_is_valid() {
    let place = clone();
    let run = "run samples/users.csv -o scored.csv --sandbox --ledger answers --price 0.004";
    program(&place, run).exits(0);
    let users = place.text("samples/users.csv");
    let people: Vec<_> = users.lines().take(4).collect();
    place.write("people.csv", people.join("\n"));
    let numbers = |words: &str, code, keys: [&str; 3]| {
        let done = program(&place, &format!("ledger {words} --json")).done();
        let object = done.exits(code).json();
        assert_valid(&object);
        keys.map(|key| object[key].clone())
    };
    let stats = numbers("stats answers", 0, ["type", "answers", "ledger"]);
    assert_eq!(stats, [json!("ledger_stats"), json!(194), json!("answers")]);
    let copied = numbers("copy answers copy", 0, ["to", "added", "answers"]);
    assert_eq!(copied, [json!("copy"), json!(194), json!(194)]);
    let pruned = numbers(
        "prune copy --older-than 400d",
        0,
        ["removed", "cost", "left"],
    );
    assert_eq!(pruned, [json!(0), json!(0.0), json!(194)]);
    let forget = "forget people.csv --ledger copy --yes";
    let forgotten = numbers(forget, 0, ["removed", "cost", "left"]);
    assert_eq!(forgotten, [json!(3), json!(0.012), json!(191)]);
    let nobody = numbers(forget, 1, ["rows", "removed", "left"]);
    assert_eq!(nobody, [json!(3), json!(0), json!(191)]);
}

#[test]
fn the_reference_has_every_key_and_word_of_the_schema_and_no_others() {
    let (mut schema, reference) = (published(), document("docs/reference.md"));
    for example in blocks(&reference, "json") {
        let example = parsed(example.as_bytes());
        // A line of the log has no type.
        if example.get("type").is_some() {
            assert_valid(&example);
        }
    }
    let mut all = BTreeSet::new();
    each_object(&mut schema, &mut |part| all.extend(keys(part)));
    let tables = names_in_first_cells(&reference, "| Key ");
    let unknown: Vec<_> = tables.difference(&all).collect();
    assert!(unknown.is_empty(), "not in the schema: {unknown:?}");
    let named: BTreeSet<_> = code_spans(&reference).into_iter().collect();
    let missing: Vec<_> = all.difference(&named).collect();
    assert!(missing.is_empty(), "not in the reference: {missing:?}");

    let words = |part: &str| -> BTreeSet<String> {
        let words = schema["$defs"][part]["enum"].as_array().unwrap();
        let words = words.iter().map(ToString::to_string);
        words
            .map(|word| word.trim_matches('"').to_owned())
            .collect()
    };
    let stops = names_in_first_cells(&reference, "| Value |");
    assert_eq!(words("stopped"), stops);
    let codes = first_cells(&reference, "| Code |");
    assert_eq!(words("exit_code"), codes.into_iter().collect());
    assert!(words("search").is_subset(&named));
}
