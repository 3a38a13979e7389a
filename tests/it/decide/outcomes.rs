//! `--what-if --outcome`: what thresholds would have caught, compared with a plain computation of the same numbers; and what a
//! sample says about all rows.

use serde_json::{Value, json};

use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

/// A row: its score in tenths, if it has one, and whether it turned out to be bad.
type Row = (Option<i64>, Option<bool>);

/// Rows with all scores from 0 to 11 in tenths, many of them on thresholds; the higher, the more often bad.
fn rows(seed: u64, n: usize) -> Vec<Row> {
    let mut state = seed;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut row = || {
        let score = match random(3) {
            0 => random(23) * 5,
            _ => random(111),
        };
        let bad = (random(10) > 2).then(|| random(110) < score);
        let score = i64::try_from(score).unwrap();
        ((random(20) > 0).then_some(score), bad)
    };
    (0..n).map(|_| row()).collect()
}

fn tenths(text: &Value) -> i64 {
    let number: f64 = text.as_str().unwrap().parse().unwrap();
    #[allow(clippy::cast_possible_truncation, reason = "thresholds are small")]
    let tenths = (number * 10.0).round() as i64;
    tenths
}

/// The rows with this outcome that a pair approves, reviews and blocks.
fn decided(rows: &[Row], outcome: Option<bool>, pair: &Value) -> [u64; 3] {
    let (approve, review) = (tenths(&pair["approve_max"]), tenths(&pair["review_max"]));
    let mut counts = [0; 3];
    for (score, _) in rows.iter().filter(|row| row.1 == outcome) {
        match score {
            Some(score) if *score <= approve => counts[0] += 1,
            Some(score) if *score <= review => counts[1] += 1,
            Some(_) => counts[2] += 1,
            None => {}
        }
    }
    counts
}

/// Compares all numbers of the object with those of the rows. `catch` is in percent.
fn check(found: &Value, rows: &[Row], catch: u64) {
    let scored: Vec<_> = rows.iter().copied().filter(|row| row.0.is_some()).collect();
    let known = |outcome| scored.iter().filter(|row| row.1 == outcome).count() as u64;
    let (bad, good) = (known(Some(true)), known(Some(false)));
    let outcomes = &found["outcomes"];
    assert_eq!(outcomes["bad"], bad);
    assert_eq!(
        (&outcomes["good"], &outcomes["unknown"]),
        (&json!(good), &json!(known(None)))
    );
    assert_eq!(found["scores"], scored.len());
    let share = |part: u64, whole: u64| match whole {
        0 => Value::Null,
        whole => json!((part as f64 / whole as f64 * 100_000.0).round() / 1_000.0),
    };
    let mut fewest = None;
    let today_blocks = found["today"]["block"].as_u64();
    for pair in found["pairs"].as_array().unwrap() {
        let by_decision = |[approve, review, block]: [u64; 3]| json!({"approve": approve, "review": review, "block": block});
        let [bad_rows, good_rows] = [true, false].map(|is_bad| decided(rows, Some(is_bad), pair));
        let [missed, caught_reviewed, caught_blocked] = bad_rows;
        let caught = caught_reviewed + caught_blocked;
        let alarms = good_rows[1] + good_rows[2];
        let expected = json!({
            "bad": by_decision(bad_rows), "good": by_decision(good_rows),
            "caught": caught, "caught_percent": share(caught, bad), "missed": missed, "missed_percent": share(missed, bad),
            "false_alarms": alarms, "false_alarms_percent": share(alarms, good),
        });
        assert_eq!(pair["outcomes"], expected, "{pair}");
        let reviews = pair["review"].as_u64().unwrap();
        let is_enough =
            bad > 0 && caught * 100 >= bad * catch && pair["block"].as_u64() <= today_blocks;
        if is_enough && fewest.is_none_or(|fewest| reviews < fewest) {
            fewest = Some(reviews);
        }
    }
    // No pair that catches as much and blocks no more than today's has fewer reviews.
    let named = &found["catch"]["pair"];
    assert_eq!(named["review"].as_u64(), fewest, "{named}");
    if fewest.is_some() {
        let caught = named["outcomes"]["caught"].as_u64().unwrap();
        assert!(
            caught * 100 >= bad * catch && named["block"].as_u64() <= today_blocks,
            "{named}"
        );
    }
}

fn what_if(place: &Place, args: &str) -> Value {
    let done = place.rescore("decide --what-if --json").args(args).done();
    done.exits(0);
    done.json()
}

#[test]
fn what_is_caught_and_falsely_alarmed_is_what_a_plain_count_finds() {
    for (seed, catch) in [(1, 90), (2, 50), (3, 100)] {
        let rows = rows(seed, 400);
        let score = |tenths: i64| format!("{}.{}", tenths / 10, tenths % 10);
        let csv: String = rows
            .iter()
            .map(|(tenths, bad)| {
                let bad = bad.map_or("", |bad| if bad { "yes" } else { "no" });
                match tenths {
                    Some(tenths) => format!("{bad},t,{},\n", score(*tenths)),
                    None => format!("{bad},,,\n"),
                }
            })
            .collect();
        let place = Place::with(
            "scored.csv",
            format!("fraud,transaction_id,risk_score,decision\n{csv}"),
        );
        let args = format!("scored.csv --outcome fraud=yes --catch {catch}% --approve-max 2.3");
        check(&what_if(&place, &args), &rows, catch);
        // The same in objects, where the outcome is nested and not text.
        let jsonl: String = rows
            .iter()
            .map(|(tenths, bad)| {
                let (tenths, bad) = (tenths.map(score), json!(bad));
                let tenths = tenths.map_or("null".to_owned(), |tenths| tenths);
                let id = if tenths == "null" { "null" } else { "\"t\"" };
                format!("{{\"u\":{{\"bad\":{bad}}},\"transaction_id\":{id},\"risk_score\":{tenths},\"decision\":null}}\n")
            })
            .collect();
        place.write("scored.jsonl", jsonl);
        let args = format!("scored.jsonl --outcome /u/bad=true --catch {catch}% --approve-max 2.3");
        check(&what_if(&place, &args), &rows, catch);
    }
}

#[test]
fn the_edges_of_what_is_known() {
    let scored = |rows: &str| format!("fraud,transaction_id,risk_score,decision\n{rows}");
    for (rows, expected) in [
        // Nothing is known; all are bad; all are good.
        (",t,1,approve\n,t,9,block\n", [0, 0, 2, 0, 0]),
        ("x,t,1,approve\ny,t,9,block\n", [2, 0, 0, 1, 0]),
        ("no,t,1,approve\n 0 ,t,9,block\n", [0, 2, 0, 0, 1]),
        // None is caught, as all are on the threshold; a blank outcome is none; a row without a verdict is none.
        (
            "x,t,2,approve\ny,t,2.0,approve\n  ,t,9,block\nx,,,\n",
            [2, 0, 1, 0, 0],
        ),
    ] {
        let place = Place::with("scored.csv", scored(rows));
        let found = what_if(&place, "scored.csv --outcome fraud=x,y --catch 90%");
        let (known, today) = (&found["outcomes"], &found["today"]["outcomes"]);
        let [bad, good, unknown, caught, alarms] = expected.map(|number| json!(number));
        assert_eq!(
            [&known["bad"], &known["good"], &known["unknown"]],
            [&bad, &good, &unknown],
            "{rows}"
        );
        assert_eq!(
            [&today["caught"], &today["false_alarms"]],
            [&caught, &alarms],
            "{rows}"
        );
        let done = place
            .rescore("decide scored.csv --what-if --outcome fraud=x,y")
            .done();
        done.exits(0)
            .prints("outcomes are known only of users who were let in");
    }
    let place = Place::with(
        "scored.csv",
        scored("x,t,0,approve\nx,t,9,block\nno,t,3,review\n"),
    );
    let done = place
        .rescore("decide scored.csv --what-if --outcome fraud=x --catch 90%")
        .done();
    done.exits(0)
        .prints("\n  caught 1 (50.0%) of 2 bad rows: 1 blocked, 0 to review; missed 1 (50.0%)\n")
        .prints("\n  false alarms 1 (100%) of 1 good row: 0 blocked, 1 to review\n")
        .prints("\nno thresholds catch 90% of the bad rows\n");
    let done = place
        .rescore("decide scored.csv --what-if --outcome fraud=x --catch 50%")
        .done();
    done.exits(0)
        .prints("\nto catch 50% with the fewest reviews: approve up to 5, review up to 5\n  approve 2 (66.7%), review 0 (0%), block 1 (33.3%)\n  caught 1 (50.0%)");
    for (args, words) in [
        ("--what-if --outcome fraud", "expected COLUMN=VALUE"),
        ("--what-if --outcome fraud=", "expected COLUMN=VALUE"),
        ("--what-if --outcome fraud=x --catch 90", "such as `90%`"),
        (
            "--what-if --outcome fraudd=x",
            "no column `fraudd` in `scored.csv`",
        ),
        ("--what-if --catch 90%", "--outcome"),
        ("--outcome fraud=x -o o.csv", "hint: add `--what-if`"),
    ] {
        place
            .rescore("decide scored.csv")
            .args(args)
            .done()
            .exits(2)
            .says(words);
    }
}

#[test]
fn thresholds_are_those_with_which_the_rows_were_decided() {
    let place = Place::with("first.csv", users::scored(&users::csv(300)));
    let decide = "decide first.csv -o scored.csv --approve-max 3.5 --review-max 6.5";
    place.rescore(decide).done().exits(0);
    let today = |args: &str| {
        let found = what_if(&place, args);
        let today = &found["today"];
        (today["approve_max"].clone(), today["review_max"].clone())
    };
    assert_eq!(today("scored.csv"), (json!("3.5"), json!("6.5")));
    assert_eq!(today("first.csv"), (json!("2"), json!("5")));
    assert_eq!(
        today("scored.csv --approve-max 4"),
        (json!("4"), json!("5"))
    );
}

/// The Wilson interval at 95%, in percent with three decimals.
fn wilson(part: f64, whole: f64) -> [f64; 2] {
    let (z, share) = (1.959_963_985_f64, part / whole);
    let centre = (share + z * z / (2.0 * whole)) / (1.0 + z * z / whole);
    let half = z / (1.0 + z * z / whole)
        * (share * (1.0 - share) / whole + z * z / (4.0 * whole * whole)).sqrt();
    [centre - half, centre + half].map(|end| (end * 100_000.0).round() / 1_000.0)
}

#[test]
fn the_shares_of_a_sample_have_intervals_and_say_what_they_mean_for_all_rows() {
    let (server, place) = (Server::good(), Place::with("users.csv", users::csv(1_000)));
    let run = |args: &str| {
        let all =
            "users.csv -o scored.csv --overwrite --summary s.json --price 0.01EUR --report r.html";
        let done = place.run(&server, all).args(args).done();
        done.exits(0);
        done
    };
    let summary = run("--sample 20%");
    let found = what_if(&place, "scored.csv --run s.json");
    let (rows, sample) = (found["scores"].as_u64().unwrap(), &found["sample"]);
    assert!((150..250).contains(&rows));
    assert_eq!(&place.json("s.json")["sample"], sample);
    assert_eq!(
        (&sample["percent"], &sample["rows"], &sample["requests"]),
        (&json!(20.0), &json!(rows), &json!(rows))
    );
    assert_eq!(
        (&sample["rows_in_all"], &sample["cost_in_all"]),
        (&json!(rows * 5), &json!(rows as f64 * 0.05))
    );
    for decision in ["approve", "review", "block"] {
        let part = found["today"][decision].as_u64().unwrap();
        let [low, high] = wilson(part as f64, rows as f64);
        assert_eq!(
            sample["shares"][decision]["percent"],
            json!([low, high]),
            "{decision}"
        );
        let fewest = sample["shares"][decision]["rows"][0].as_f64().unwrap();
        assert!((fewest - low / 100.0 * 5.0 * rows as f64).abs() <= 0.51);
    }
    let [low, high] = wilson(
        found["today"]["block"].as_u64().unwrap() as f64,
        rows as f64,
    );
    let words = format!("block {low:.1}% to {high:.1}%: ");
    place
        .rescore("decide scored.csv --what-if --run s.json")
        .done()
        .prints(&format!("a sample of 20% of the distinct requests: {rows} rows with a verdict, of {rows} requests"))
        .prints(&words);
    summary.says(&words);
    place
        .rescore("report scored.csv --run s.json -o again.html")
        .done()
        .exits(0);
    for page in ["r.html", "again.html"] {
        assert!(place.text(page).contains(&words), "{page}");
    }
    place.write("other.csv", users::scored(&users::csv(7)));
    let done = place
        .rescore("decide other.csv --what-if --run s.json")
        .done();
    done.exits(2).says("but `other.csv` has 7");
    // The first rows stand for nothing else, and all rows need no interval.
    for args in ["--limit 50", "--limit 50 --sample 50%", "--sample 100%", ""] {
        run(args).silent_about("with 95% confidence");
        let found = what_if(&place, "scored.csv --run s.json");
        assert_eq!(found["sample"], Value::Null, "{args}");
    }
}
