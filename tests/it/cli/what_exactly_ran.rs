//! What the summary says of what exactly ran: hashes of the files, and the options in force without secrets.

use std::fs;

use serde_json::{Value, json};

use crate::support::process::Place;
use crate::support::server::{Server, good, status};
use crate::support::users::{self, gzip};

/// The hash of a file as it is on disk; null if there is none.
fn hash(place: &Place, name: &str) -> Value {
    let content = fs::read(place.path(name));
    content.map_or(Value::Null, |content| hash_of(&content))
}

fn hash_of(content: &[u8]) -> Value {
    blake3::hash(content).to_string().into()
}

/// Refuses two users.
fn picky() -> Server {
    Server::start(|request| match request.name().as_str() {
        "User 5" | "User 305" => status(422),
        _ => good(request),
    })
}

#[test]
fn the_summary_has_the_hashes_of_files_as_they_are_on_disk() {
    let (server, csv) = (picky(), users::csv(300));
    let jsonl = r#"{"name":"Jo","email":"jo@example.com","ip":"::1","user_agent":"curl"}"#;
    for (input, content, output, more) in [
        ("users.csv", csv.clone().into_bytes(), "out.csv", ""),
        (
            "users.csv",
            csv.clone().into_bytes(),
            "out.csv",
            "--sample 50%",
        ),
        (
            "users.csv.gz",
            gzip(&csv),
            "out.csv.gz",
            "--changes changes.csv.gz",
        ),
        (
            "users.csv",
            gzip(&csv),
            "out.csv.zst",
            "--rejects rejects.csv.zst",
        ),
        ("users.jsonl", jsonl.into(), "out.jsonl", ""),
    ] {
        let place = Place::with(input, content);
        let run = format!("{input} -o {output} --summary s.json {more}");
        place.run(&server, run.as_str()).done();
        let summary = place.json("s.json");
        let path = |file: &str| summary[file]["path"].as_str().unwrap_or("none").to_owned();
        let expected = ["input", "output", "rejects", "changes"]
            .map(|file| (file.to_owned(), hash(&place, &path(file))));
        let expected = Value::Object(expected.into_iter().collect());
        assert_eq!(summary["blake3"], expected, "{run}");
        assert!(summary["blake3"]["input"].is_string() && summary["blake3"]["output"].is_string());
    }
}

#[test]
fn streams_have_hashes_and_so_has_each_of_several_files() {
    let (server, csv, place) = (picky(), users::csv(300), Place::new());
    let run = place.run(&server, "--summary s.json").stdin(csv.as_bytes());
    let done = run.done();
    let hashes = &place.json("s.json")["blake3"];
    assert_eq!(hashes["input"], hash_of(csv.as_bytes()));
    assert_eq!(hashes["output"], hash_of(&done.stdout));
    place.write("a.csv", &csv);
    place.write("b.csv.gz", gzip(users::csv(310)));
    let all = "a.csv b.csv.gz --output-dir out --summary s.json";
    place.run(&server, all).exits(1);
    let summary = place.json("s.json");
    assert!(summary["blake3"]["input"].is_null() && summary["blake3"]["output"].is_null());
    for (file, name) in [(0, "a.csv"), (1, "b.csv.gz")] {
        let file = &summary["files"][file];
        let written = |key: &str| hash(&place, file[key].as_str().unwrap());
        let expected = json!({
            "input": hash(&place, name),
            "output": written("output"),
            "rejects": written("rejects"),
            "changes": null,
        });
        assert_eq!(file["blake3"], expected);
    }
}

#[test]
fn what_was_not_read_to_its_end_or_not_completed_has_no_hash() {
    let none = json!({"input": null, "output": null, "rejects": null, "changes": null});
    let place = Place::with("users.csv", users::csv(20));
    let run = |server, more: &str| {
        place.score(server, format!("--summary s.json {more}").as_str());
        place.json("s.json")["blake3"].clone()
    };
    let server = Server::good();
    assert_eq!(run(&server, "--max-calls 8"), none);
    let part = run(&server, "--limit 20");
    assert!(
        part["input"].is_null(),
        "whether there is more was not looked at"
    );
    assert_eq!(part["output"], hash(&place, "scored.csv"));
    let all = run(&server, "--overwrite");
    assert_eq!(all["input"], hash(&place, "users.csv"));
    assert_eq!(all["output"], hash(&place, "scored.csv"));
}

#[test]
fn the_summary_has_the_options_in_force_and_no_secret() {
    let (server, place) = (Server::good(), Place::with("users.csv", users::csv(3)));
    let settings = "retries = 3\nvpn-check = true\nrate = '5/s'\nmap = ['ip=ip', 'name=name']\n\
                    [profile.nightly]\nset = ['user_agent=Hidden/1']\n";
    place.write("settings.toml", settings);
    let typed = "--config settings.toml --profile nightly --summary s.json --default email=hidden@example.com \
                 --only name!=review,block --only email!=hidden@example.com";
    let run = place.scoring(&server).args(typed);
    run.env("RESCORE_LEDGER", "answers").exits(0);
    let expected = json!({
        "base-url": server.url(),
        "default": ["email=…"],
        "ledger": "answers",
        "map": ["ip=ip", "name=name"],
        "only": ["name!=review,block", "email!=…"],
        "output": "scored.csv",
        "rate": "unlimited",
        "retries": "3",
        "service-id": "test",
        "set": ["user_agent=…"],
        "summary": "s.json",
        "vpn-check": true,
    });
    let summary = place.json("s.json");
    assert_eq!(summary["rescore_version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(summary["options"], expected);
    // Neither starts, and both leave a summary.
    for secret in [
        &[
            "--ledger",
            "postgresql://me:hunter2@127.0.0.1:1/x?password=hunter2",
        ][..],
        &["--base-url", "https://me:hunter2@127.0.0.1:1/"],
    ] {
        let run = place.run(
            &server,
            "users.csv -o new.csv --summary new.json --max-wait 1s",
        );
        run.args(secret).done();
        let text = place.text("new.json");
        assert!(
            !text.contains("hunter2") && !text.contains("test-key"),
            "{text}"
        );
        // Options that are refused are not known.
        let ledger = &place.json("new.json")["options"]["ledger"];
        assert!(
            *ledger == "postgresql://…" || secret[0] != "--ledger",
            "{text}"
        );
    }
}
