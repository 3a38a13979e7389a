//! What programs read: with `--progress json` each line of standard error is an object of the schema, whatever happens;
//! and the summary.

use serde_json::{Value, json};

use crate::docs::schema::assert_valid;
use crate::support::process::{Done, Place};
use crate::support::server::{Server, good, good_body, ok, silence, status};
use crate::support::users;

/// What was said: fails if any line is not an object that the schema describes.
pub(crate) fn objects(done: &Done) -> Vec<Value> {
    let objects = done.stderr.lines().map(|line| {
        let object: Value = serde_json::from_str(line).unwrap_or_default();
        done.check(
            object["type"].is_string(),
            "each line is an object with a type",
        );
        assert_valid(&object);
        object
    });
    objects.collect()
}

/// The only object of this type.
fn only(done: &Done, kind: &str) -> Value {
    let objects = objects(done).into_iter();
    let mut found = objects.filter(|object| object["type"] == kind);
    let only = found.next().unwrap_or_default();
    done.check(only.is_object() && found.next().is_none(), "exactly one");
    only
}

#[test]
fn an_error_before_the_start_is_an_object() {
    let place = Place::with("broken.toml", "rate = \n");
    place.write("users.csv", "a,b\n1,2\n");
    let sandbox = "--sandbox --progress=json";
    for (arguments, message) in [
        (
            "--rat 1/s --progress json",
            "unexpected argument '--rat' found",
        ),
        ("--retries --progress json", "a value is required"),
        ("--progress=json --timeout soon", "invalid value 'soon'"),
        ("--config broken.toml --progress=json", "broken.toml"),
        (
            "--base-url https://api.example.com --progress json",
            "no service id",
        ),
        (sandbox, "no column for `name`"),
    ] {
        let run = place.rescore("run users.csv -o scored.csv");
        let done = run.args(arguments).exits(2);
        let error = only(&done, "error");
        assert_eq!(error["exit_code"], 2);
        assert!(
            error["message"].as_str().unwrap().contains(message),
            "{done}"
        );
        if arguments == sandbox {
            // People see the columns; programs, which may keep what they read, do not.
            assert_eq!(error["details"], json!([]), "{done}");
        }
    }
    // A settings file may ask for objects; other commands speak to people.
    place.write("good.toml", "progress = \"json\"\n");
    let run = place.rescore("run missing.csv --sandbox --config good.toml");
    assert_eq!(
        only(&run.done(), "error")["causes"],
        json!(["no such file or directory"])
    );
    let decide = place.rescore("decide missing.csv");
    let done = decide.env("RESCORE_CONFIG", "good.toml").exits(2);
    done.says("error: cannot read");
}

#[test]
fn warnings_and_the_error_of_a_run_that_stops_are_objects() {
    let server = Server::start(|request| match request.name().as_str() {
        "User 5" => ok(&good_body("User 2")),
        "User 7" => status(401),
        _ => good(request),
    });
    for quiet in [false, true] {
        let place = Place::with("users.csv", users::csv(9));
        let json = "-c 1 --progress json --summary summary.json";
        let done = place.score(
            &server,
            format!("{json}{}", if quiet { " -q" } else { "" }).as_str(),
        );
        done.exits(4);
        let message = only(&done, "warning")["message"].to_string();
        assert!(message.contains("two different users got the same transaction id"));
        let error = only(&done, "error");
        assert_eq!(error["exit_code"], 4);
        assert_eq!(error["message"], "the service does not accept the API key");
        assert_eq!(
            place.json("summary.json")["error"]["message"],
            error["message"]
        );
        // Quiet: no progress and no summary, but objects still.
        let summaries = objects(&done)
            .into_iter()
            .filter(|object| object["type"] == "summary");
        assert_eq!(summaries.count(), usize::from(!quiet), "{done}");
    }
}

#[test]
fn progress_is_one_object_a_line_with_the_keys_of_the_summary() {
    let (server, release) = Server::holding_if(|request| request.nth > 4);
    let place = Place::with("users.csv", users::csv(8));
    let run = place.run(&server, "users.csv -o scored.csv -c 1 --progress json");
    let running = run.start();
    running.wait_for_words("\"resolved\":4,");
    drop(release);
    let done = running.exits(0);
    let summary = only(&done, "summary");
    let objects = objects(&done);
    let half = { objects.iter() }.find(|object| object["rows"]["resolved"] == 4);
    let half = half.unwrap().as_object().unwrap();
    assert_eq!(
        [&half["type"], &half["now"]["percent"]],
        [&json!("progress"), &json!(50.0)]
    );
    assert_eq!(
        [&half["calls"]["sent"], &half["calls"]["in_flight"]],
        [5, 1]
    );
    for key in half.keys().filter(|key| *key != "now") {
        assert!(summary.get(key).is_some(), "{key}");
    }
}

fn keys(object: &Value) -> Vec<&String> {
    object.as_object().unwrap().keys().collect()
}

#[test]
fn a_summary_says_which_run_it_is_about_also_of_a_run_that_cannot_start() {
    let (place, server) = (Place::with("users.csv", users::csv(9)), Server::good());
    place.write("night.toml", "[profile.nightly]\napprove-max = 1.50\n");
    let args = "--summary s.json --config night.toml --profile nightly";
    place.score(&server, args).exits(0);
    let size = |name: &str| json!({"path": name, "bytes": place.read(name).len()});
    let ran = place.json("s.json");
    for (key, expected) in [
        ("rescore_version", json!(env!("CARGO_PKG_VERSION"))),
        ("job", json!("scored.csv")),
        ("profile", json!("nightly")),
        (
            "thresholds",
            json!({"approve_max": "1.50", "review_max": "5"}),
        ),
        ("levels", Value::Null),
        ("error", Value::Null),
        ("input", size("users.csv")),
        ("output", size("scored.csv")),
    ] {
        assert_eq!(ran[key], expected, "{key}");
    }
    assert!(ran["start_time"].as_str().unwrap() <= ran["end_time"].as_str().unwrap());

    // Levels decide, and rows come from a pipe.
    let piped = place.run(&server, "- -o piped.csv --summary s.json --block-levels 9");
    let levels = "--decide-by level=/summary/risk_level --approve-levels 0,low";
    piped.args(levels).stdin(users::csv(9)).exits(0);
    let piped = place.json("s.json");
    let levels = json!({"place": "/summary/risk_level", "approve": ["0", "low"], "review": [], "block": ["9"]});
    assert_eq!(
        [&piped["thresholds"], &piped["levels"]],
        [&Value::Null, &levels]
    );
    assert_eq!(
        piped["input"],
        json!({"path": null, "bytes": users::csv(9).len()})
    );

    // A file without a header: the columns that an error names are people.
    place.write(
        "people.csv",
        "Ann Lee,ann@example.com\nBob Ray,bob@example.com\n",
    );
    let failing = place.run(&server, "people.csv -o none.csv --summary s.json");
    failing.exits(2);
    let failed = place.json("s.json");
    assert_eq!(keys(&failed), keys(&ran));
    for key in ["rows", "calls", "decisions", "failed", "input"] {
        assert_eq!(keys(&failed[key]), keys(&ran[key]), "{key}");
    }
    assert_eq!(
        [&failed["stopped"], &failed["job"]],
        ["not_started", "none.csv"]
    );
    assert_eq!([&failed["exit_code"], &failed["rows"]["read"]], [2, 0]);
    let text = place.text("s.json");
    assert!(!text.contains("Ann") && !text.contains("ann@"), "{text}");
}

#[test]
fn the_last_words_at_the_second_signal_are_an_object() {
    let server = Server::start(|_| silence().then_stall());
    let place = Place::with("users.csv", users::csv(3));
    let running = place.scoring(&server).args("--progress json").start();
    server.wait_for_calls(1);
    running.signal("INT");
    running.wait_for_words("\"stopping\"");
    let done = running.signal_until_it_ends("INT");
    done.exits(130);
    assert_eq!(only(&done, "notice")["message"], "stopped immediately");
}
