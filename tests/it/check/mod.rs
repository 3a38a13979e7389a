//! `rescore check`: its numbers are those of the run that follows with the same options, and it says them without writing
//! anything.

mod any_case;
mod ledger;
mod numbers;
mod values;
mod words;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::process::{KEY, Place, Program};
use crate::support::stand_in::StandIn;

/// A command with the settings of a cron job in variables; only a run has the key.
fn command<'a>(place: &'a Place, url: &str, words: &[&str]) -> Program<'a> {
    let program = place.rescore(words).env("RESCORE_BASE_URL", url);
    let program = program.env("RESCORE_SERVICE_ID", "test");
    if words.first() == Some(&"run") {
        program.env("RESCORE_API_KEY", KEY)
    } else {
        program
    }
}

/// What a check says with these options, as JSON.
#[track_caller]
fn check(place: &Place, url: &str, options: &[&str]) -> Value {
    let words = [&["check", "--json"], options].concat();
    let done = command(place, url, &words).done();
    done.exits_with_one_of(&[0, 1]);
    done.json()
}

/// Checks files, which writes nothing, then runs over them with the same options and these further ones: the stand-in must
/// bill as many calls as the check has counted, and all other numbers are those of the run's summary. Returns what the check
/// says.
#[track_caller]
fn agree(place: &Place, stand_in: &StandIn<'_>, both: &[&str], run_only: &[&str]) -> Value {
    let names = place.names();
    let said = check(place, &stand_in.url(), both);
    assert_eq!(place.names(), names, "nothing is written");
    let billed = || stand_in.bill()["billed"].as_u64().unwrap();
    let before = billed();
    let summary = ["--summary", "summary.json"];
    let words = [&["run"], both, run_only, &summary].concat();
    let done = command(place, &stand_in.url(), &words).done();
    done.exits_with_one_of(&[0, 1]);
    let billed = billed() - before;
    let expected = format!("{billed} calls, as {said}");
    done.check(said["calls"] == billed, &expected);
    assert_eq!(stand_in.bill()["refused"], 0, "{done}");

    let summary = place.json("summary.json");
    assert_eq!(summary["calls"]["sent"], said["calls"], "{done}");
    // The run's own first pass says the same.
    for (first, there) in [("calls", "calls"), ("known", "known")] {
        let expected = &summary["expected"][first];
        assert!(expected.is_null() || *expected == said[there], "{done}");
    }
    assert_eq!(summary["rows"]["read"], said["rows"]["read"], "{done}");
    let mut reasons = BTreeMap::<_, u64>::new();
    for file in said["files"].as_array().unwrap() {
        for (reason, tally) in file["unsendable"].as_object().into_iter().flatten() {
            *reasons.entry(reason).or_default() += tally["rows"].as_u64().unwrap();
        }
    }
    let failed = summary["failed"]["reasons"].as_object().unwrap();
    for (reason, rows) in reasons {
        assert_eq!(failed.get(reason), Some(&json!(rows)), "{reason}\n{done}");
    }
    for number in ["known", "duplicates"] {
        assert_eq!(summary[number], said[number], "{number}\n{said}\n{done}");
    }
    said
}
