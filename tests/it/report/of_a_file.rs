//! A page of a scored file.

use serde_json::Value;

use super::html::{has, section, text, words};
use crate::support::process::Place;
use crate::support::server::{Server, good, status};
use crate::support::users;

/// `scored.csv` of `n` users, of whom every tenth is refused, with `summary.json`.
fn scored(n: usize) -> (Place, Value) {
    let server = Server::start(|request| {
        let name = request.name();
        if name.ends_with('0') {
            status(422)
        } else {
            good(request)
        }
    });
    let place = Place::with("users.csv", users::csv(n));
    place.score(&server, "--summary summary.json").exits(1);
    let summary = place.json("summary.json");
    (place, summary)
}

#[test]
fn the_page_has_the_verdicts_of_the_file_and_the_numbers_of_the_summary() {
    let (place, summary) = scored(45);
    let args = "report scored.csv --run summary.json -o r.html";
    let done = place.rescore(args).done();
    done.exits(0)
        .says("rescore: wrote r.html: a report on 45 rows");
    let page = place.text("r.html");
    let verdicts = words(&page, "verdicts");
    let count = |decision: &str| summary["decisions"][decision].as_u64().unwrap();
    has(
        &verdicts,
        &[
            "Of 45 rows, ",
            "; 4 rows have no verdict.",
            &format!("approved {} ", count("approve")),
            &format!("to review {} ", count("review")),
            &format!("blocked {} ", count("block")),
        ],
    );
    let block = u32::try_from(count("block")).unwrap();
    let percent = format!("{:.1} %", 100.0 * f64::from(block) / 45.0);
    has(&verdicts, &[&percent]);
    has(
        &words(&page, "rejects"),
        &["4 rows of 45 (8.9 %) have no verdict", "refused 4 8.9 %"],
    );
    let calls = &summary["calls"];
    has(
        &words(&page, "run"),
        &["45 rows in ", &format!("calls {}", calls["sent"])],
    );
    has(
        &words(&page, "scores"),
        &["approve up to 2", "review up to 5", "each bar spans 0.2"],
    );
    // The bars of the table add up.
    let lines = section(&page, "scores")
        .split("<tr><th scope=\"row\">")
        .skip(1);
    let rows = lines.map(|row| {
        let cell = row.split("<td>").nth(1).unwrap();
        cell.split('<').next().unwrap().parse::<u64>().unwrap()
    });
    assert_eq!(rows.sum::<u64>(), 41);
    has(
        &words(&page, "what-if"),
        &[
            "As at the top of the page, shares are of all 45 rows.",
            "today",
        ],
    );
    has(
        &text(&page),
        &[
            "rescore 0.1.0",
            "approve up to 2, review up to 5, block above",
            "(UTC",
        ],
    );
    assert!(!page.contains("made-up") && !page.contains("rehearsal"));
    assert_eq!(
        place.names(),
        [
            "r.html",
            "rescore.ledger",
            "scored.csv",
            "scored.rejects.csv",
            "summary.json",
            "users.csv"
        ]
    );
}

#[test]
fn without_a_summary_the_page_says_where_reasons_are() {
    let (place, _) = scored(20);
    let done = place.rescore("report scored.csv").done();
    done.exits(0);
    let page = done.printed();
    has(
        &words(&page, "rejects"),
        &["2 rows of 20", "--run summary.json"],
    );
    assert!(!page.contains("aria-labelledby=\"run\""));
    assert!(!page.contains("aria-labelledby=\"drift\""));
}

#[test]
fn only_the_values_of_named_columns_get_into_the_page() {
    let (place, _) = scored(30);
    let rows = place
        .text("scored.csv")
        .replace("User 7,", "<b>&\u{202e}x\u{1b}[2J,");
    place.write("scored.csv", rows);
    let page = |args: &str| {
        let done = place.rescore("report scored.csv").args(args).done();
        done.exits(0);
        done.printed()
    };
    let plain = page("");
    let (_, body) = plain.split_once("<body>").unwrap();
    for of_users in ["User 1", "user1@", "192.0.2.", "Mozilla", "t-"] {
        assert!(!text(body).contains(of_users), "{of_users}");
    }
    let named = page("--by user_agent --by name");
    has(
        &words(&named, "by-1"),
        &["Decisions by user_agent", "Mozilla/5.0 (X11) 30 "],
    );
    let values = words(&named, "by-2");
    has(&values, &["User 1 1 ", "10 other values"]);
    assert!(!named.contains("user1@") && !named.contains("192.0.2."));
    assert!(!named.contains("<b>&") && !named.contains('\u{202e}') && !named.contains('\u{1b}'));
}

#[test]
fn decisions_are_shown_by_the_values_of_a_column_with_their_numbers() {
    let mut csv = "country,transaction_id,risk_score,decision\n".to_owned();
    for (country, times, verdict) in [
        ("DE", 30, "t,1.0,approve"),
        ("DE", 10, "t,3.0,review"),
        ("\"say \"\"hi\"\", you\"", 3, "t,9.5,block"),
        ("", 2, ",,"),
    ] {
        for _ in 0..times {
            csv += &format!("{country},{verdict}\n");
        }
    }
    let place = Place::with("scored.csv", &csv);
    let done = place.rescore("report --by country -").stdin(csv).done();
    done.exits(0);
    let page = done.printed();
    let by = words(&page, "by-1");
    has(
        &by,
        &[
            "DE 40 75.0 % 30 25.0 % 10 0 % 0 0 % 0",
            "say \"hi\", you 3 0 % 0 0 % 0 100 % 3 0 % 0",
            "(empty) 2 0 % 0 0 % 0 0 % 0 100 % 2",
            "Shares of fewer than 30 rows are pale",
        ],
    );
    let lines = section(&page, "by-1");
    assert_eq!(lines.matches("<tr class=\"few\">").count(), 2);
}

#[test]
fn every_format_that_a_run_writes_is_read() {
    let lines = [
        r#"{"c":{"d":"x"},"risk_score":1.5,"transaction_id":"t","decision":"approve"}"#,
        r#"{"decision":"block","c":{"d":"y"},"risk_score":9,"transaction_id":"t"}"#,
        r#"{"transaction_id":null,"risk_score":null,"decision":null}"#,
        "not json",
    ];
    let place = Place::with("scored.jsonl", lines.join("\n"));
    let done = place.rescore("report scored.jsonl --by /c/d").done();
    done.exits(0);
    let page = done.printed();
    has(
        &words(&page, "verdicts"),
        &["Of 4 rows, 25.0 % are approved", "2 rows have no verdict"],
    );
    has(&words(&page, "by-1"), &["x 1 100 % 1", "(empty) 2"]);

    let csv = "a;x_transaction_id;x_risk_score;x_decision\r\n1;t;2,;\r\n";
    let csv = csv.replace("2,;", "2;approve");
    let place = Place::with("scored.csv", csv);
    let args = "report scored.csv --prefix x_ -o r.html.gz";
    place.rescore(args).done().exits(0);
    assert_eq!(&place.read("r.html.gz")[..2], [0x1f, 0x8b]);

    let csv = b"stadt,transaction_id,risk_score,decision\nM\xfcnchen,t,1,approve\n";
    let place = Place::with("scored.csv", csv);
    let args = "report scored.csv --by stadt --encoding windows-1252";
    let done = place.rescore(args).done();
    done.exits(0);
    let page = done.printed();
    has(&words(&page, "by-1"), &["München 1 100 % 1"]);

    let place = Place::with("scored.csv", "");
    let done = place.rescore("report scored.csv").done();
    done.exits(0).says("warning: `scored.csv` has no rows");
    has(&done.printed(), &["The file has no rows."]);
    for command in ["decide scored.csv", "decide scored.csv --what-if"] {
        let done = place.rescore(command).done();
        done.exits(0).says("warning: `scored.csv` has no rows");
    }
}

#[test]
fn what_the_stand_in_made_up_says_so_in_every_section() {
    let place = Place::with("users.csv", users::csv(9));
    let args = "run users.csv -o scored.csv --sandbox --summary summary.json";
    place.rescore(args).done().exits(0);
    let args = [
        "report",
        "scored.csv",
        "--by",
        "name",
        "--run",
        "summary.json",
    ];
    for args in [&args[..], &args[..2]] {
        let done = place.rescore(args).done();
        done.exits(0);
        let page = done.printed();
        let sections: Vec<_> = page.split("<section").skip(1).collect();
        assert!(sections.len() >= 3);
        assert!(
            sections
                .iter()
                .all(|section| section.contains("sandbox: made-up scores"))
        );
    }
}

#[test]
fn decisions_that_other_thresholds_made_are_noticed() {
    let (place, _) = scored(40);
    let args = "report scored.csv --approve-max 4.5 --review-max 4.5";
    let done = place.rescore(args).done();
    done.exits(0);
    let page = done.printed();
    has(
        &words(&page, "scores"),
        &[
            "approve up to 4.5",
            "another decision than the thresholds of this page give (approve up to",
        ],
    );
    // They are not said to be the file's.
    assert!(!page.contains("block above"), "{page}");
    let done = place.rescore("report scored.csv").done();
    let page = done.printed();
    assert!(
        page.contains("approve up to 2, review up to 5, block above"),
        "{page}"
    );
    assert!(!page.contains("another decision"), "{page}");
}
