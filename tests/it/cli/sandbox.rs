//! The stand-in: what it makes of the samples, and that its bill adds up after a rehearsal.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::net::TcpListener;

use serde_json::Value;

use crate::support::process::{Done, Place};
use crate::support::stand_in::StandIn;
use crate::support::users::{self, COLUMNS};

/// The path of a file that everybody gets with the program.
fn sample(name: &str) -> String {
    format!("{}/samples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Scores a sample with the built-in stand-in.
fn score(place: &Place, name: &str, output: &str) -> Done {
    place
        .rescore(["run", &sample(name), "-o", output, "--sandbox"])
        .done()
}

/// Takes each piece out of `text` that starts with `start` and ends before one of `ends`. Returns the rest and the pieces.
fn cut<'a>(text: &'a str, start: &str, ends: &[char]) -> (String, Vec<&'a str>) {
    let mut pieces = text.split(start);
    let mut left = pieces.next().unwrap().to_owned();
    let mut taken = Vec::new();
    for piece in pieces {
        let (ours, theirs) = piece.split_at(piece.find(ends).unwrap_or(piece.len()));
        left.push_str(theirs);
        taken.push(ours);
    }
    (left, taken)
}

/// The input of a scored file, and for each row what follows its transaction id.
fn taken_apart(scored: &str) -> (String, Vec<String>) {
    let (left, taken) = if scored.starts_with('{') {
        cut(scored, ",\"transaction_id\":\"sandbox-", &['}'])
    } else {
        let (left, taken) = cut(scored, ",sandbox-", &['\r', '\n']);
        assert_eq!(left.matches(COLUMNS).count(), 1);
        (left.replacen(COLUMNS, "", 1), taken)
    };
    let verdicts = taken.iter().map(|ours| {
        let (id, verdict) = ours.split_once(',').unwrap();
        assert_eq!(
            id.trim_end_matches('"').len(),
            "00000001-00000000".len(),
            "{ours}"
        );
        verdict.to_owned()
    });
    (left, verdicts.collect())
}

#[test]
fn the_samples_get_all_decisions_and_come_back_unchanged_but_for_them() {
    for name in ["users.csv", "users.jsonl"] {
        let place = Place::new();
        let done = score(&place, name, name);
        done.exits(0)
            .says("sandbox")
            .says("200 rows")
            .says("6 rows reused the answer of an identical row")
            .says("; it billed 194 calls");
        assert_eq!(
            place.names(),
            ["rescore-sandbox.ledger", name],
            "no partial file and no rejects"
        );
        let scored = place.text(name);
        let (left, verdicts) = taken_apart(&scored);
        assert_eq!(left, fs::read_to_string(sample(name)).unwrap());
        assert_eq!(verdicts.len(), 200);
        for decision in ["approve", "review", "block"] {
            let rows = verdicts
                .iter()
                .filter(|verdict| verdict.contains(decision))
                .count();
            assert!(rows >= 10, "{rows} rows have `{decision}`");
        }

        score(&place, name, "again").exits(0);
        let again = place.text("again");
        let (left, same) = taken_apart(&again);
        assert_eq!(left, fs::read_to_string(sample(name)).unwrap());
        assert_eq!(same, verdicts, "the same users get the same scores");
    }
}

#[test]
fn the_messy_sample_shows_what_can_be_wrong_with_a_row() {
    let place = Place::new();
    let done = score(&place, "messy.csv", "scored.csv");
    done.exits(1)
        .says("failed 11")
        .says("see scored.rejects.csv")
        .says("sandbox");
    assert_eq!(
        place.names(),
        ["rescore-sandbox.ledger", "scored.csv", "scored.rejects.csv"]
    );
    let rejects = place.read("scored.rejects.csv");
    let mut reasons = BTreeMap::new();
    for line in String::from_utf8_lossy(&rejects).lines() {
        let cells: Vec<_> = line.splitn(4, ',').collect();
        // Rows contain line breaks: only a line with our three cells starts a row.
        if let [_, reason, message, _] = cells[..]
            && message.starts_with("line ")
        {
            *reasons.entry(reason.to_owned()).or_insert(0) += 1;
        }
    }
    let expected = [
        ("invalid_ip", 1),
        ("ragged", 2),
        ("missing_ip", 1),
        ("invalid_email", 2),
        ("invalid_phone", 1),
        ("missing_contact", 1),
        ("missing_user_agent", 1),
        ("text_after_quote", 1),
        ("not_utf8", 1),
    ];
    let expected: BTreeMap<_, _> = expected
        .map(|(reason, rows)| (reason.to_owned(), rows))
        .into();
    assert_eq!(reasons, expected);
    let scored = place.read("scored.csv");
    let verdicts = String::from_utf8_lossy(&scored)
        .matches(",sandbox-")
        .count();
    assert_eq!(verdicts, 39 - 11);
}

/// Scores 200 users against a stand-in with these faults. Returns the summary, the bill and the file.
fn rehearse(arguments: &[&str]) -> (Value, Value, String) {
    let place = Place::with("users.csv", users::csv(200));
    let stand_in = StandIn::start(&place, arguments);
    let program = place.run_at(stand_in.url()).args("--rate unlimited");
    // Only from the third on may a back-off take seconds.
    let program = program.args("--retries 2 --summary summary.json");
    let done = program.done();
    let summary = place.json("summary.json");
    let failed = summary["failed"]["rows"].as_u64().unwrap();
    done.exits(i32::from(failed > 0));
    let bill = stand_in.bill();
    stand_in
        .stop()
        .exits(0)
        .says(&format!("billed {},", bill["billed"]));
    (summary, bill, place.text("scored.csv"))
}

/// After a rehearsal with any faults: the summary and the bill agree on every call, and each verdict in the file was paid
/// for once.
fn check_books(summary: &Value, bill: &Value, scored: &str) {
    let told = format!("{summary:#}\n{bill:#}");
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value}\n{told}"));
    let calls = |name: &str| number(&summary["calls"][name]);

    let (left, taken) = cut(scored, ",sandbox-", &['\n']);
    let verdicts = taken.len() as u64;
    let failed = number(&summary["failed"]["rows"]);
    assert_eq!(verdicts + failed, 200, "{told}");
    assert_eq!(left.matches(users::EMPTY).count() as u64, failed, "{told}");
    let ids: HashSet<_> = taken
        .iter()
        .map(|ours| ours.split(',').next().unwrap())
        .collect();
    assert_eq!(ids.len() as u64, verdicts, "no transaction stands twice");
    let decided = ["approve", "review", "block"].map(|word| number(&summary["decisions"][word]));
    assert_eq!(decided.iter().sum::<u64>(), verdicts, "{told}");
    assert_eq!(calls("answered"), verdicts, "{told}");

    assert_eq!(number(&bill["requests"]), calls("sent"), "{told}");
    assert_eq!(number(&bill["throttled"]), calls("throttled"), "{told}");
    assert_eq!(number(&bill["refused"]), 0, "{told}");
    let lost = number(&bill["faults"]["reset"]) + number(&bill["faults"]["stall"]);
    assert_eq!(calls("unknown_outcome"), lost, "{told}");
    assert!(calls("maybe_billed_twice") <= lost, "{told}");
    let useless = number(&bill["faults"]["bad-json"]);
    assert_eq!(calls("billed_without_verdict"), useless, "{told}");
    // A call with an unknown outcome may have been billed. None was here: the stand-in hangs up before it bills.
    assert_eq!(
        number(&bill["billed"]),
        verdicts + calls("billed_without_verdict"),
        "{told}"
    );
    // Each call brought a verdict, was throttled, was retried, or was the last for its row.
    assert_eq!(
        calls("sent"),
        verdicts + calls("throttled") + calls("retries") + failed,
        "{told}"
    );
}

#[test]
fn a_rehearsal_with_faults_and_a_limit_adds_up() {
    let (summary, bill, scored) = rehearse(&[
        "--fault",
        "500=0.2",
        "--fault",
        "reset=0.05",
        "--seed",
        "7",
        "--rate-limit",
        "2000",
        "--burst",
        "20",
        "--retry-after",
        "0",
    ]);
    check_books(&summary, &bill, &scored);
    // A fifth and a twentieth of at least 200 calls: zero would mean that nothing was rehearsed.
    for fault in ["500", "reset"] {
        assert!(bill["faults"][fault].as_u64() > Some(0), "{bill}");
    }
}

#[test]
fn answers_that_were_billed_without_a_verdict_are_counted_apart() {
    let (summary, bill, scored) = rehearse(&[
        "--fault",
        "bad-json=0.1",
        "--fault",
        "503=0.05",
        "--seed",
        "7",
    ]);
    check_books(&summary, &bill, &scored);
    assert_eq!(
        summary["failed"]["reasons"]["bad_answer"],
        bill["faults"]["bad-json"]
    );
}

#[test]
fn it_listens_on_this_machine_only() {
    let place = Place::new();
    for address in ["0.0.0.0:1", "[::]:1", "192.0.2.1:8787"] {
        let done = place.rescore(["sandbox", "--listen", address]).done();
        done.exits(2).says(&format!("'{address}'")).says("loopback");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let done = place.rescore(["sandbox", "--listen", &address]).done();
    done.exits(2).says("cannot listen on").says(&address);
}

#[test]
fn faults_it_cannot_play_are_refused_with_those_it_can() {
    let place = Place::new();
    let cases: [(&[&str], &str); 9] = [
        (
            &["--fault", "404=1"],
            "402, 403, 500, 503, reset, stall, bad-json and lost",
        ),
        (&["--fault", "500"], "`500=0.01`"),
        (&["--fault", "500=1.5"], "between 0 and 1"),
        (
            &["--fault", "500=0.9", "--fault", "reset=0.2"],
            "more than 1",
        ),
        (&["--rate-limit", "0"], "0.001 to 1000000000"),
        (&["--burst", "3"], "--rate-limit"),
        (&["--retry-after", "3"], "--rate-limit"),
        (&["--latency", "30"], "`500ms`"),
        // An empty key, as from `--accept-key "$KEY"` with an unset variable, must not count as accepted.
        (&["--accept-key", ""], "--accept-key <KEY>"),
    ];
    for (arguments, words) in cases {
        let program = place.rescore("sandbox");
        let program = program.args(arguments);
        program.done().exits(2).says("error:").says(words);
    }
}
