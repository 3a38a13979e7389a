//! A check and the run that follows it, with the same options: both must have the same numbers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::process::{Done, KEY, Place, Program};
use crate::support::stand_in::StandIn;

/// What a check says, as JSON.
#[track_caller]
pub(crate) fn printed(done: &Done) -> Value {
    done.exits_with_one_of(&[0, 1]);
    done.json()
}

/// A command with the settings of a cron job in variables; only a run has the key.
pub(crate) fn command<'a>(place: &'a Place, url: &str, words: &[&str]) -> Program<'a> {
    let program = place.rescore(words);
    let program = program
        .env("RESCORE_BASE_URL", url)
        .env("RESCORE_SERVICE_ID", "test");
    if words.first() == Some(&"run") {
        program.env("RESCORE_API_KEY", KEY)
    } else {
        program
    }
}

/// What a check says with these options.
#[track_caller]
pub(crate) fn check(place: &Place, url: &str, options: &[&str]) -> Value {
    let words = [&["check", "--json"], options].concat();
    printed(&command(place, url, &words).done())
}

/// Checks files, then runs over them with the same options and these further ones: the stand-in must bill as many calls as
/// the check has counted, and all other numbers are those of the run's summary. Returns what the check says.
#[track_caller]
pub(crate) fn agree(
    place: &Place,
    stand_in: &StandIn<'_>,
    check_only: &[&str],
    both: &[&str],
    run_only: &[&str],
) -> Value {
    let said = check(place, &stand_in.url(), &[both, check_only].concat());
    let before = stand_in.bill()["billed"].as_u64().unwrap();
    let summary = ["--summary", "summary.json", "--keep-going"];
    let words = [&["run"], both, run_only, &summary].concat();
    let done = command(place, &stand_in.url(), &words).done();
    done.exits_with_one_of(&[0, 1]);
    let billed = stand_in.bill()["billed"].as_u64().unwrap() - before;
    done.check(
        said["calls"] == billed,
        &format!("{billed} calls, as {said}"),
    );
    assert_eq!(stand_in.bill()["refused"], 0, "{done}");

    let summary = place.json("summary.json");
    assert_eq!(summary["calls"]["sent"], said["calls"], "{done}");
    assert_eq!(summary["rows"]["read"], said["rows"]["read"], "{done}");
    let mut reasons = BTreeMap::<_, u64>::new();
    for file in said["files"].as_array().unwrap() {
        for (reason, tally) in file["unsendable"].as_object().unwrap() {
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
