//! A page of a scored file, and what has changed since an earlier one.

use serde_json::Value;

use super::{has, section, text, words};
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
    let done = place.rescore(args).exits(0);
    done.says("rescore: wrote r.html: a report on 45 rows");
    let page = place.text("r.html");
    let count = |decision: &str| summary["decisions"][decision].as_u64().unwrap();
    let block = u32::try_from(count("block")).unwrap();
    has(
        &words(&page, "verdicts"),
        &[
            "Of 41 rows with a verdict, ",
            "; 4 rows have no verdict.",
            &format!("approve {} ", count("approve")),
            &format!("review {} ", count("review")),
            &format!("block {} ", count("block")),
            &format!("{:.1}%", 100.0 * f64::from(block) / 41.0),
            &format!("{} reviews take about ", count("review")),
        ],
    );
    has(
        &words(&page, "rejects"),
        &[
            "4 rows of 45 (8.9%) have no verdict",
            "The service refused this row (400, 409, 413, 422 …) refused 4 8.9%",
        ],
    );
    let calls = &summary["calls"];
    has(
        &words(&page, "run"),
        &["45 rows in ", &format!("calls {}", calls["sent"])],
    );
    has(
        &words(&page, "scores"),
        &["approve up to 2", "review up to 5"],
    );
    // The bars of the table add up.
    let lines = section(&page, "scores");
    let rows = lines.split("<tr><th scope=\"row\">").skip(1).map(|row| {
        let cell = row.split("<td>").nth(1).unwrap();
        cell.split('<').next().unwrap().parse::<u64>().unwrap()
    });
    assert_eq!(rows.sum::<u64>(), 41);
    assert!(!page.contains("made-up") && !page.contains("rehearsal"));
    // Without a summary the page says where reasons are.
    let done = place.rescore("report scored.csv").done();
    let page = done.printed();
    has(
        &words(&page, "rejects"),
        &["4 rows of 45", "--run summary.json"],
    );
    for id in ["run", "drift"] {
        assert!(!page.contains(&format!("aria-labelledby=\"{id}\"")));
    }
    // Decisions that other thresholds made are noticed.
    let args = "report scored.csv --approve-max 4.5 --review-max 4.5";
    let done = place.rescore(args).done();
    let other = done.printed();
    has(
        &words(&other, "scores"),
        &["approve up to 2", "review up to 5"],
    );
    has(
        &words(&other, "what-if"),
        &[
            "instead: approve up to 4.5, review up to 4.5",
            "would get another decision",
        ],
    );
    assert!(!page.contains("another decision"), "{page}");
}

#[test]
fn only_the_values_of_named_columns_get_into_the_page() {
    let (place, _) = scored(30);
    let rows = place
        .text("scored.csv")
        .replace("User 7,", "<b>&\u{202e}x\u{1b}[2J,");
    place.write("scored.csv", rows);
    let page = |args: &str| {
        let done = place.rescore("report scored.csv").args(args).exits(0);
        done.printed()
    };
    let plain = page("");
    let (_, body) = plain.split_once("<body>").unwrap();
    for of_users in ["User 1", "user1@", "192.0.2.", "Mozilla", "t-"] {
        assert!(!text(body).contains(of_users), "{of_users}");
    }
    let groups = place
        .text("scored.csv")
        .replacen("user_agent,", "browser,", 1);
    place.write("scored.csv", groups.replacen("id,name,", "id,plan,", 1));
    let named = page("--by browser --by plan");
    has(
        &words(&named, "by-1"),
        &["Decisions by browser", "Mozilla/5.0 (X11) 30 "],
    );
    let values = words(&named, "by-2");
    has(&values, &["User 1 1 ", "10 other values"]);
    assert!(!named.contains("user1@") && !named.contains("192.0.2."));
    assert!(!named.contains("<b>&") && !named.contains('\u{202e}') && !named.contains('\u{1b}'));
}

#[test]
fn no_field_of_users_and_no_column_of_many_values_gets_into_the_page() {
    let server = Server::good();
    let csv = users::csv(101).replacen(",name,", ",login,", 1);
    let place = Place::with("users.csv", csv);
    place
        .score(&server, "--map name=login --summary s.json")
        .exits(0);
    for (args, words) in [
        (
            "--by email",
            "`--by` cannot show the column `email`: it is a field of each user",
        ),
        (
            "--by user_agent",
            "column `user_agent`: it is a field of each user",
        ),
        (
            "--by login",
            "`--by` cannot show the column `login`: it has more than 100 different values",
        ),
        (
            "--by login --run s.json",
            "column `login`: it is a field of each user",
        ),
    ] {
        let report = place.rescore("report scored.csv -o r.html").args(args);
        report.done().exits(2).says(words);
        assert!(!place.path("r.html").exists());
    }
    let rows = place.text("scored.csv");
    let hundred: Vec<_> = rows.lines().take(101).collect();
    place.write("hundred.csv", hundred.join("\n"));
    place
        .rescore("report hundred.csv --by login")
        .done()
        .exits(0);
}

#[test]
fn groups_that_differ_beyond_chance_are_marked_with_how_many_rows() {
    let mut csv = "country,transaction_id,risk_score,decision\n".to_owned();
    for (country, approved, blocked) in [
        ("DE", 900, 100),
        ("US", 70, 30),
        ("FR", 88, 12),
        ("IT", 2, 2),
    ] {
        csv += &format!("{country},t,1,approve\n").repeat(approved);
        csv += &format!("{country},t,9,block\n").repeat(blocked);
    }
    let place = Place::with("scored.csv", csv);
    let done = place.rescore("report scored.csv --by country").done();
    let page = done.printed();
    // Of all others, 114 of 1,104 are blocked: of 100 rows, 10.3 would be.
    has(
        &words(&page, "by-1"),
        &[
            "US 100 70.0% 70 (\u{2212}20) 0% 0 30.0% 30 (+20)",
            "FR 100 88.0% 88 0% 0 12.0% 12",
            "A marked share differs",
        ],
    );
    assert_eq!(
        section(&page, "by-1").matches("class=\"differs\"").count(),
        4
    );
}

#[test]
fn thresholds_of_other_decisions_are_read_and_a_candidate_is_shown_by_who_changes() {
    let mut csv = "fraud,transaction_id,risk_score,decision\n".to_owned();
    for (score, decision, times) in [
        ("1", "approve", 50),
        ("2.5", "approve", 20),
        ("4", "review", 20),
        ("5.5", "review", 6),
        ("9", "block", 4),
    ] {
        csv += &format!("no,t,{score},{decision}\n").repeat(times);
    }
    csv += "yes,t,9,block\nyes,t,4,review\nyes,t,1,approve\n";
    let place = Place::with("scored.csv", csv);
    let done = place
        .rescore("report scored.csv --approve-max 2 --review-max 6 --outcome fraud=yes --catch 60%")
        .done();
    done.exits(0);
    let page = done.printed();
    has(
        &text(&page),
        &["approve up to 2.5, review up to 6, block above (read from the rows)"],
    );
    let thresholds = words(&page, "what-if");
    has(
        &thresholds,
        &[
            "outcomes in `fraud`: 3 bad, 100 good, 0 not known",
            "caught 2 (66.7%) of 3 bad rows: 1 blocked, 1 to review; missed 1 (33.3%)",
            "outcomes are known only of users who were let in",
            "to catch 60% with the fewest reviews: approve up to 3.5, review up to 6",
            "instead: approve up to 2, review up to 6",
            "20 of 103 users would get another decision: 20 from approve to review",
        ],
    );
    assert!(!page.contains("another decision than the thresholds"));
    assert_eq!(page.matches("class=\"here\"").count(), 2);
    // Rows that no thresholds have decided stay as they are.
    let level = "transaction_id,risk_score,decision\nt,1,block\nt,9,approve\n";
    let done = place.rescore("report -").stdin(level).done();
    has(
        &words(&done.printed(), "scores"),
        &["2 rows have another decision"],
    );
}

#[test]
fn decisions_are_shown_by_the_values_of_a_column_with_their_numbers() {
    let mut csv = "id,country,transaction_id,risk_score,decision\n".to_owned();
    for (country, times, verdict) in [
        ("DE", 30, "t,1.0,approve"),
        ("DE", 10, "t,3.0,review"),
        ("\"say \"\"hi\"\", you\"", 3, "t,9.5,block"),
        ("", 2, ",,"),
    ] {
        for _ in 0..times {
            csv += &format!("7,{country},{verdict}\n");
        }
    }
    let place = Place::with("scored.csv", &csv);
    let done = place.rescore("report --by country -").stdin(csv).exits(0);
    let page = done.printed();
    let by = words(&page, "by-1");
    has(
        &by,
        &[
            "DE 40 75.0% 30 25.0% 10 0% 0 0",
            "say \"hi\", you 3 0% 0 0% 0 100% 3 0",
            "(empty) 2 – 0 – 0 – 0 2",
        ],
    );
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
    place.write(
        "prefix.csv",
        "a;x_transaction_id;x_risk_score;x_decision\r\n1;t;2;approve\r\n",
    );
    let latin = b"stadt,transaction_id,risk_score,decision\nM\xfcnchen,t,1,approve\n";
    place.write("latin.csv", latin);
    place.write("empty.csv", "");
    let page = |args: &str| {
        let done = place.rescore("report").args(args).exits(0);
        done.printed()
    };
    let of_objects = page("scored.jsonl --by /c/d");
    has(
        &words(&of_objects, "verdicts"),
        &[
            "Of 2 rows with a verdict, 50.0% are approved",
            "2 rows have no verdict",
        ],
    );
    has(&words(&of_objects, "by-1"), &["x 1 100% 1", "(empty) 2 –"]);
    let of_latin = page("latin.csv --by stadt --encoding windows-1252");
    has(&words(&of_latin, "by-1"), &["München 1 100% 1"]);
    page("prefix.csv --prefix x_ -o r.html.gz");
    assert_eq!(&place.read("r.html.gz")[..2], [0x1f, 0x8b]);
    has(&page("empty.csv"), &["The file has no rows."]);
}

const HEADER: &str = "id,note,transaction_id,risk_score,decision\n";

#[test]
fn rows_are_found_in_an_earlier_file_wherever_they_stand() {
    // Six users: one is gone and one new in the later file, one has two earlier verdicts, and all stand elsewhere.
    let earlier = "a,x,t,1.0,approve\nb,x,t,4.0,review\nc,x,t,8.0,block\nd,x,t,1.0,approve\n\
                   e,x,t,1.0,approve\ne,x,t,9.0,block\nf,x,,,\ngone,x,t,2,approve\n";
    let later = "f,x,t,1.0,approve\ne,x,t,1.0,approve\nd,x,t,9.0,block\nnew,x,t,3.0,review\n\
                 c,x,t,8.0,block\nb,x,t,1.5,approve\na,x,t,1.0,approve\n";
    let place = Place::with("scored.csv", format!("{HEADER}{later}"));
    place.write("earlier.csv", format!("{HEADER}{earlier}"));
    let line = |id: &str| {
        format!(r#"{{"id":"{id}","transaction_id":"t","risk_score":9.5,"decision":"block"}}"#)
    };
    place.write("earlier.jsonl", ["a", "b"].map(line).join("\n"));
    place.write("other.csv", format!("{HEADER}other,x,t,1.0,approve\n"));
    let report = |args: &str| place.rescore("report").args(args).done();
    let done = report("scored.csv --against earlier.csv --key ID");
    done.exits(0);
    has(
        &words(&done.printed(), "drift"),
        &[
            "Compared with earlier.csv: 2 of 4 decisions changed (50.0%).",
            "Rows are paired by the column ID : 5 rows in both files, 1 only in this one, 1 only in the earlier one.",
            "1 row not compared: several rows of the earlier file match, with different verdicts",
            "approve 1 25.0% 0 0% 1 25.0%",
            "review 1 25.0% 0 0% 0 0%",
            "block 0 0% 0 0% 1 25.0%",
            "Of 4 scores, 1 rose (riskier), 1 fell, and 2 (50.0%) stayed",
            "The average score was 3.50 and is 4.88 now.",
        ],
    );
    // Formats may differ.
    let done = report("scored.csv --against earlier.jsonl --key id");
    let drift = words(&done.printed(), "drift");
    has(&drift, &["2 of 2 decisions changed (100%)"]);
    // A key must be a column and pair some rows.
    report("scored.csv --against earlier.csv --key nothing").exits(2);
    report("other.csv --against earlier.csv --key id")
        .exits(2)
        .says("no row of `other.csv` is in `earlier.csv`, by the column `id`");
}
