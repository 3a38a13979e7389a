//! Metrics and the summary as files that somebody watches: what is in the metrics, and that tonight's failure takes the
//! place of yesterday's success, also if the run ends before its settings are known.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::docs::schema::assert_valid;
use crate::support::command_line::CommandLine;
use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

/// The files that somebody watches.
const WATCHED: &str = "--summary s.json --metrics m.prom";

/// The value of a metric with these labels, in the order of the file.
fn value(place: &Place, name: &str) -> Option<f64> {
    let text = place.text("m.prom");
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Has Prometheus's own tool check something, where it is installed.
fn promtool(arguments: &[&str], stdin: &Path) {
    let mut tool = Command::new("promtool");
    let tool = tool.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
    match tool.stdin(fs::File::open(stdin).unwrap()).output() {
        Ok(output) => assert!(output.status.success(), "{arguments:?}: {output:?}"),
        Err(_) => println!("skipped: promtool is not installed"),
    }
}

fn of_the_project(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

#[test]
fn a_run_leaves_its_numbers_in_the_form_that_prometheus_reads() {
    let csv = users::csv(4) + "Bad,,nowhere,,\n";
    let (place, server) = (Place::with("users.csv", csv), Server::good());
    let done = place.score(
        &server,
        "--metrics m.prom --price 0.004EUR --max-cost 1 --max-calls 9/month --accept-failures=50%",
    );
    done.exits(0);
    let labels = format!(
        "job=\"scored.csv\",endpoint=\"{}/v1/validate/user\"",
        server.url()
    );
    let decided = users::scored(&users::csv(4)).matches(",approve\n").count() as f64;
    for (name, label, expected) in [
        ("rescore_rows_expected", "", 5.0),
        ("rescore_rows_read_total", "", 5.0),
        ("rescore_rows_total", ",decision=\"approve\"", decided),
        ("rescore_rows_failed_total", ",reason=\"missing_name\"", 1.0),
        ("rescore_calls_total", "", 4.0),
        ("rescore_spent_total", "", 0.016),
        ("rescore_budget_money_used", ",per=\"run\"", 0.016),
        ("rescore_budget_calls_left", ",per=\"month\"", 5.0),
        ("rescore_budget_money_left", ",per=\"run\"", 0.984),
        ("rescore_exit_code", "", 0.0),
        ("rescore_state", ",state=\"ended\"", 1.0),
        ("rescore_state", ",state=\"calling\"", 0.0),
    ] {
        let name = format!("{name}{{{labels}{label}}}");
        assert_eq!(value(&place, &name), Some(expected), "{name}");
    }
    // Nothing of a row, every family with its type, and the exporter is another user.
    let text = place.text("m.prom");
    assert!(
        !text.contains("example") && !text.contains("nowhere"),
        "{text}"
    );
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        assert!(text.contains(&format!("# TYPE {name} ")), "{line}");
        assert!(!text.contains(&format!("# HELP {name} \n")), "{line}");
    }
    let mode = fs::metadata(place.path("m.prom")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o644);
    promtool(&["check", "metrics"], &place.path("m.prom"));

    // The reference has every metric and no other.
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let kept: BTreeSet<_> = types.filter_map(|line| line.split(' ').next()).collect();
    let reference = of_the_project("docs/reference.md");
    let (_, section) = reference.split_once("\n## Metrics\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let spans = section.split('`');
    let told: BTreeSet<_> = spans.filter(|span| span.starts_with("rescore_")).collect();
    assert_eq!(kept, told);

    // So have the alerts, and they do what they say.
    let alerts = of_the_project("samples/prometheus/alerts.yml");
    let words = alerts.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    for metric in words.filter(|word| word.starts_with("rescore_")) {
        assert!(kept.contains(metric), "{metric}");
    }
    let null = Path::new("/dev/null");
    promtool(&["check", "rules", "samples/prometheus/alerts.yml"], null);
    promtool(
        &["test", "rules", "samples/prometheus/alerts_test.yml"],
        null,
    );
}

#[test]
fn wrong_options_leave_both_as_they_are_and_files_that_keep_a_run_from_starting_are_in_both() {
    let line = CommandLine::new();
    line.typed(WATCHED).exits(0);
    let place = &line.place;
    let (summary, metrics) = (place.text("s.json"), place.text("m.prom"));
    line.typed(WATCHED).arg("--tiemout=9s").exits(2);
    let missing = line.typed(WATCHED).without_env("RESCORE_API_KEY");
    missing.exits(2);
    assert_eq!(place.text("s.json"), summary);
    assert_eq!(place.text("m.prom"), metrics);

    let success = || value(place, "rescore_last_success_time_seconds");
    let before = (place.names(), place.text("scored.csv"), success());
    let words = "no column `nothing`";
    let mapped = line.typed(WATCHED).args("--overwrite --map name=nothing");
    mapped.exits(2).says(words);
    let failed = place.json("s.json");
    assert_valid(&failed);
    assert_eq!(
        [&failed["stopped"], &failed["job"], &failed["exit_code"]],
        [&json!("not_started"), &json!("scored.csv"), &json!(2)]
    );
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.contains(words), "{message}");
    let code = value(place, "rescore_exit_code{job=\"scored.csv\",");
    assert_eq!(code, Some(2.0));
    let after = (place.names(), place.text("scored.csv"), success());
    assert_eq!(after, before);
    assert_eq!(line.server.calls(), 3);
}

#[test]
fn a_first_start_that_fails_leaves_both_and_replaces_only_files_of_the_same_kind() {
    let line = CommandLine::new();
    let place = &line.place;
    let input = place.text("users.csv");
    let watched = "--map name=nothing --summary users.csv --metrics users.csv --log users.csv";
    line.refuses(line.typed(watched));
    line.refuses(line.typed("--metrics users.csv --overwrite"));
    assert_eq!(place.text("users.csv"), input);
    place.write("m.prom", "node_load1 0.5\n");
    let kept = line.typed("--metrics m.prom").exits(2);
    kept.says("its content is not metrics of rescore");
    assert_eq!(place.text("m.prom"), "node_load1 0.5\n");

    fs::remove_file(place.path("m.prom")).unwrap();
    let missing = place.run(&line.server, "nobody.csv -o scored.csv");
    missing.args(WATCHED).exits(2);
    let summary = place.json("s.json");
    assert_eq!(
        [&summary["exit_code"], &summary["stopped"]],
        [&json!(2), &json!("not_started")]
    );
    assert_eq!(value(place, "rescore_exit_code"), Some(2.0));
    assert_eq!(value(place, "rescore_last_success_time_seconds"), None);
    assert_eq!(line.server.calls(), 0);
}

#[test]
fn a_run_that_is_at_work_keeps_its_summary_and_metrics_whole() {
    let (server, release) = Server::holding(1);
    let place = Place::with("users.csv", users::csv(3));
    place.write("s.json", "");
    let run = || place.scoring(&server).args(WATCHED);
    let first = run().start();
    server.wait_for_calls(2);
    let failing = place.run(&server, "users.csv -o other.csv --map name=nothing");
    failing.args(WATCHED).exits(2);
    assert_eq!(place.json("s.json")["exit_code"], 2);
    drop(release);
    first.exits(0);
    assert_eq!(place.json("s.json")["exit_code"], 0);
    assert_eq!(
        place.text("m.prom").matches("rescore_exit_code{").count(),
        1
    );
    assert_eq!(value(&place, "rescore_exit_code"), Some(0.0));
}
