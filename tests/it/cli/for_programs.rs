//! What programs read on standard error: with `--progress json` each line is an object of the schema, whatever happens.

use serde_json::{Value, json};

use crate::docs::schema::assert_valid;
use crate::support::process::{Done, Place};
use crate::support::server::{Server, ok, silence, status};
use crate::support::users;

/// What was said: fails if any line is not an object that the schema describes.
pub(crate) fn objects(done: &Done) -> Vec<Value> {
    let lines = done.stderr.lines();
    let objects = lines.map(|line| {
        let object: Result<Value, _> = serde_json::from_str(line);
        done.check(
            object
                .as_ref()
                .is_ok_and(|object| object["type"].is_string()),
            &format!("an object with a type: {line}"),
        );
        let object = object.unwrap_or_default();
        assert_valid(&object);
        object
    });
    objects.collect()
}

/// The objects of this type.
fn of_type(done: &Done, kind: &str) -> Vec<Value> {
    let objects = objects(done).into_iter();
    objects.filter(|object| object["type"] == kind).collect()
}

/// The only error, without its type.
fn error(done: &Done) -> Value {
    let mut errors = of_type(done, "error");
    done.check(errors.len() == 1, "exactly one error");
    let mut error = errors.remove(0);
    error.as_object_mut().unwrap().remove("type");
    error
}

const JSON: [&str; 2] = ["--progress", "json"];

#[test]
fn an_error_before_the_start_is_an_object() {
    let (place, server) = (Place::new(), Server::good());
    let missing = place.run(&server, "missing.csv -o scored.csv");
    let done = missing.args(JSON).done();
    done.exits(2);
    let expected = json!({
        "exit_code": 2, "message": "cannot read `missing.csv`", "causes": ["no such file or directory"],
        "details": [], "hint": null,
    });
    assert_eq!(error(&done), expected, "{done}");

    place.write("users.csv", "a,b\n1,2\n");
    let done = place.scoring(&server).args(JSON).done();
    done.exits(2);
    let error = error(&done);
    // People see the columns; programs, which may keep what they read, do not.
    assert_eq!(error["details"], json!([]), "{done}");
    assert!(error["hint"].is_string(), "{done}");
    assert_eq!(server.calls(), 0);
}

#[test]
fn what_the_command_line_or_the_settings_file_has_wrong_is_an_object() {
    let place = Place::with("broken.toml", "rate = \n");
    for (args, message) in [
        (&["--rat", "1/s"][..], "unexpected argument '--rat' found"),
        (
            &["--timeout", "soon"],
            "invalid value 'soon' for '--timeout <TIME>'",
        ),
        (
            &["--retries"],
            "a value is required for '--retries <N>' but none was supplied",
        ),
        (&["--config", "broken.toml"], "broken.toml"),
        (&["--base-url", "https://api.example.com"], "no service id"),
    ] {
        for json in [&["--progress", "json"][..], &["--progress=json"]] {
            let run = place.rescore("run users.csv").args(json).args(args);
            let done = run.done();
            done.exits(2);
            let error = error(&done);
            assert_eq!(error["exit_code"], 2);
            assert!(
                error["message"].as_str().unwrap().contains(message),
                "{done}"
            );
        }
    }
    // A settings file may ask for objects.
    place.write("good.toml", "progress = \"json\"\n");
    let done = place
        .rescore("run users.csv --config good.toml --sandbox")
        .done();
    done.exits(2);
    error(&done);
    // Other commands speak to people, and a person's words stay words.
    let decide = place
        .rescore("decide missing.csv")
        .env("RESCORE_CONFIG", "good.toml");
    decide.done().exits(2).says("error: cannot read");
}

#[test]
fn warnings_and_the_error_of_a_run_that_stops_are_objects() {
    let server = Server::start(|request| match request.name().as_str() {
        "User 5" => ok(&crate::support::server::good_body("User 2")),
        "User 7" => status(401),
        _ => crate::support::server::good(request),
    });
    let place = Place::with("users.csv", users::csv(9));
    let done = place.score(&server, "-c 1 --progress json");
    done.exits(4);
    let [warning] = &of_type(&done, "warning")[..] else {
        panic!("one warning: {done}")
    };
    let message = warning["message"].as_str().unwrap();
    assert!(message.starts_with("two different users got the same transaction id"));
    let error = error(&done);
    assert_eq!(error["exit_code"], 4);
    assert_eq!(error["message"], "the service does not accept the API key");
    assert_eq!(of_type(&done, "summary").len(), 1);

    // Quiet: no progress and no summary, but objects still.
    let place = Place::with("users.csv", users::csv(9));
    let done = place.score(&server, "-c 1 --progress json -q");
    done.exits(4);
    assert_eq!(objects(&done).len(), 2, "{done}");
}

fn keys(object: &Value) -> Vec<&String> {
    object.as_object().unwrap().keys().collect()
}

#[test]
fn a_summary_says_which_run_it_is_about() {
    let (place, server) = (Place::with("users.csv", users::csv(9)), Server::good());
    place.write("night.toml", "[profile.nightly]\napprove-max = 1.50\n");
    let args = ["--summary", "summary.json", "--config", "night.toml"];
    let run = |more: &[&str]| {
        let run = place.run(&server, "users.csv -o scored.csv --overwrite");
        run.args(args).args(more).done()
    };
    run(&["--profile", "nightly"]).exits(0);
    let size = |name: &str| json!({"path": name, "bytes": place.read(name).len()});
    let scored = place.json("summary.json");
    assert_eq!(scored["rescore_version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (&scored["job"], &scored["profile"]),
        (&json!("scored.csv"), &json!("nightly"))
    );
    assert_eq!(
        scored["thresholds"],
        json!({"approve_max": "1.50", "review_max": "5"})
    );
    assert_eq!(
        (&scored["levels"], &scored["error"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        (&scored["input"], &scored["output"]),
        (&size("users.csv"), &size("scored.csv"))
    );
    let [start, end] = ["start_time", "end_time"].map(|key| scored[key].as_str().unwrap());
    for time in [start, end] {
        assert_eq!(
            (time.len(), &time[10..11], &time[19..]),
            (20, "T", "Z"),
            "{time}"
        );
    }
    assert!(start <= end, "{start} {end}");

    // Levels decide, and rows come from a pipe.
    let piped = place.run(&server, ["-", "-o", "piped.csv"]);
    let levels = [
        "--decide-by",
        "level=/summary/risk_level",
        "--approve-levels",
        "0, low",
        "--block-levels",
        "9",
    ];
    piped
        .args(&args[..2])
        .args(levels)
        .stdin(users::csv(9))
        .done();
    let piped = place.json("summary.json");
    assert_eq!(
        (&piped["job"], &piped["profile"]),
        (&json!("piped.csv"), &Value::Null)
    );
    assert_eq!(piped["thresholds"], Value::Null);
    let expected = json!({"place": "/summary/risk_level", "approve": ["0", "low"], "review": [], "block": ["9"]});
    assert_eq!(piped["levels"], expected);
    assert_eq!(
        piped["input"],
        json!({"path": null, "bytes": users::csv(9).len()})
    );
}

#[test]
fn a_run_that_cannot_start_has_the_same_keys_as_one_that_ran() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    place.score(&server, "--summary summary.json").exits(0);
    let ran = place.json("summary.json");
    let missing = place.run(&server, "nobody.csv -o none.csv --limit 7");
    missing
        .args("--summary summary.json --price 2")
        .done()
        .exits(2);
    let failed = place.json("summary.json");
    assert_eq!(keys(&failed), keys(&ran));
    for key in [
        "rows",
        "calls",
        "decisions",
        "failed",
        "input",
        "thresholds",
    ] {
        assert_eq!(keys(&failed[key]), keys(&ran[key]), "{key}");
    }
    let error =
        json!({"message": "cannot read `nobody.csv`", "causes": ["no such file or directory"]});
    for (key, expected) in [
        ("stopped", json!("not_started")),
        ("exit_code", json!(2)),
        ("error", error),
        ("job", json!("none.csv")),
        ("endpoint", ran["endpoint"].clone()),
        ("input", json!({"path": null, "bytes": null})),
        ("part", Value::Null),
        ("output", Value::Null),
    ] {
        assert_eq!(failed[key], expected, "{key}");
    }
    assert_eq!(
        (&failed["rows"]["read"], &failed["cost"]["spent"]),
        (&json!(0), &json!(0.0))
    );
}

#[test]
fn the_error_that_stops_a_run_is_in_its_summary_without_what_may_quote_the_input() {
    let place = Place::with("users.csv", users::csv(9));
    let server = Server::start(|_| status(401));
    place.score(&server, "--summary summary.json").exits(4);
    let error = &place.json("summary.json")["error"];
    assert_eq!(error["message"], "the service does not accept the API key");
    assert_eq!(keys(error), ["message", "causes"]);
    // A file without a header: the columns that an error names are people.
    let people = "Ann Lee,ann@example.com\nBob Ray,bob@example.com\n";
    place.write("people.csv", people);
    place
        .run(&server, "people.csv -o none.csv --summary summary.json")
        .done()
        .exits(2);
    let text = place.text("summary.json");
    assert!(text.contains("not_started"), "{text}");
    for personal in ["Ann", "ann@", "Bob"] {
        assert!(!text.contains(personal), "{text}");
    }
}

#[test]
fn the_last_words_at_the_second_signal_are_an_object() {
    let server = Server::start(|_| silence());
    let place = Place::with("users.csv", users::csv(3));
    let run = place.scoring(&server).args(JSON);
    let running = run.start();
    while server.calls() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    running.signal("INT");
    running.wait_for_words("\"stopping\"");
    running.signal("INT");
    let done = running.done();
    done.exits(130);
    let [notice] = &of_type(&done, "notice")[..] else {
        panic!("one notice: {done}")
    };
    let message = notice["message"].as_str().unwrap();
    assert_eq!(message, "stopped immediately", "{done}");
}
