//! A run that ends before its settings are known: tonight's failure takes the place of yesterday's success all the same.

use serde_json::json;

use crate::docs::schema::assert_valid;
use crate::support::command_line::CommandLine;
use crate::support::process::{Place, Program};
use crate::support::server::Server;
use crate::support::users;

/// The files that somebody watches.
const WATCHED: [&str; 4] = ["--summary", "s.json", "--metrics", "m.prom"];

/// A command line, and the files of a run that ended well.
fn after_a_good_night() -> CommandLine {
    let line = CommandLine::new();
    line.typed(WATCHED).done().exits(0);
    assert_eq!(line.server.calls(), 3);
    line
}

/// The failure with this message is in both files, and nothing else has changed.
#[track_caller]
fn fails(line: &CommandLine, program: Program<'_>, words: &str) {
    let place = &line.place;
    let (files, scored) = (place.names(), place.text("scored.csv"));
    program.done().exits(2).says(words);
    let summary = place.json("s.json");
    assert_valid(&summary);
    assert_eq!(
        [&summary["exit_code"], &summary["stopped"], &summary["job"]],
        [&json!(2), &json!("not_started"), &json!("scored.csv")]
    );
    let message = summary["error"]["message"].as_str().unwrap();
    assert!(message.contains(words), "{message}");
    let metrics = place.text("m.prom");
    let exit = "rescore_exit_code{job=\"scored.csv\",endpoint=\"\"} 2\n";
    assert!(metrics.contains(exit), "{metrics}");
    assert!(
        metrics.contains("rescore_last_success_time_seconds"),
        "{metrics}"
    );
    assert_eq!((place.names(), place.text("scored.csv")), (files, scored));
    assert_eq!(line.server.calls(), 3);
}

#[test]
fn a_mistyped_option_is_left_wherever_its_place_is_among_the_others() {
    let line = after_a_good_night();
    fails(
        &line,
        line.typed(WATCHED).arg("--tiemout=9s"),
        "'--tiemout'",
    );
    let line = after_a_good_night();
    fails(&line, line.typed("--rate fast").args(WATCHED), "'fast'");
    let line = after_a_good_night();
    let joined = ["--bogus", "--summary=s.json", "--metrics=m.prom"];
    fails(&line, line.typed(joined), "'--bogus'");
}

#[test]
fn so_is_an_address_that_is_missing_or_wrong() {
    let line = after_a_good_night();
    let missing = line.typed(WATCHED).without_env("RESCORE_BASE_URL");
    fails(&line, missing, "no service address");
    let line = after_a_good_night();
    fails(
        &line,
        line.typed(WATCHED).env("RESCORE_SERVICE_ID", ""),
        "service",
    );
}

#[test]
fn a_settings_file_names_them_even_if_a_setting_of_it_is_unknown() {
    const FILES: &str = "summary = 's.json'\nmetrics = 'm.prom'\n";
    for (more, words) in [
        ("tiemout = '9s'\n", "unknown setting `tiemout`"),
        ("timeout = 'soon'\n", "'soon'"),
        ("approve-max = 9\n", "--approve-max"),
    ] {
        let line = after_a_good_night();
        line.place.write("night.toml", format!("{FILES}{more}"));
        fails(&line, line.typed("--config night.toml"), words);
    }
    // What is not TOML names nothing, but the command line may.
    let line = after_a_good_night();
    line.place
        .write("night.toml", format!("{FILES}timeout = \n"));
    let before = line.place.json("s.json");
    line.typed("--config night.toml").done().exits(2);
    assert_eq!(line.place.json("s.json"), before);
    let typed = line.typed("--config night.toml").args(WATCHED);
    fails(&line, typed, "night.toml");
}

#[test]
fn only_files_of_the_same_kind_are_replaced() {
    let line = CommandLine::new();
    let users = line.place.text("users.csv");
    let all = [
        "--bogus",
        "--summary",
        "users.csv",
        "--metrics",
        "users.csv",
        "--log",
        "users.csv",
    ];
    line.typed(all).done().exits(2);
    assert_eq!(line.place.text("users.csv"), users);
    // Nor are rows expected in them.
    line.refuses_typed("--bogus --summary scored.csv --metrics scored.csv", &[]);
    line.refuses_typed("--summary scored.csv.partial", &["same file"]);
    // Neither help nor another command is a run that fails.
    let line = after_a_good_night();
    let before = line.place.json("s.json");
    line.typed(WATCHED).arg("--help").done().exits(0);
    let decide = line
        .place
        .rescore("decide scored.csv --bogus --summary s.json");
    decide.done().exits(2);
    assert_eq!(line.place.json("s.json"), before);
}

#[test]
fn a_run_that_is_at_work_keeps_its_summary_and_metrics_whole() {
    let (server, release) = Server::holding(1);
    let place = Place::with("users.csv", users::csv(3));
    place.write("s.json", "");
    let run = || {
        let run = place.scoring(&server);
        run.args(WATCHED)
    };
    let first = run().start();
    server.wait_for_calls(2);
    // A failure that is longer than any summary.
    let mistyped = format!("--{}", "x".repeat(20_000));
    run().arg(mistyped).done().exits(2);
    assert_eq!(place.json("s.json")["exit_code"], 2);
    drop(release);
    first.done().exits(0);
    assert_eq!(place.json("s.json")["exit_code"], 0);
    let exits = place.text("m.prom");
    assert!(
        exits.contains("rescore_exit_code{") && !exits.contains("\"\"} 2"),
        "{exits}"
    );
}

#[test]
fn a_run_of_part_files_is_known_by_its_directory() {
    let line = after_a_good_night();
    let run = "run users.csv --bogus --metrics m.prom --output-dir scored";
    line.place.rescore(run).done().exits(2);
    let metrics = line.place.text("m.prom");
    assert!(
        metrics.contains("rescore_exit_code{job=\"scored\","),
        "{metrics}"
    );
}

#[test]
fn json_is_spoken_of_a_mistyped_option_before_the_one_that_asks_for_it() {
    let line = CommandLine::new();
    let done = line.typed("--bogus --progress json").done();
    let objects = super::for_programs::objects(&done);
    assert_eq!(objects.last().unwrap()["exit_code"], 2, "{done}");
}
