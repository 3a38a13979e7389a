//! Metrics for Prometheus: what is in the file, and what becomes of yesterday's.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::process::{Place, Program};
use crate::support::server::Server;
use crate::support::users;

/// A run with metrics.
fn run<'a>(place: &'a Place, server: &'a Server) -> Program<'a> {
    place.run(
        server,
        "users.csv -o scored.csv --overwrite --metrics m.prom",
    )
}

/// The value of a metric with these labels, in the order of the file.
fn value(place: &Place, name: &str) -> Option<f64> {
    let text = place.text("m.prom");
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn a_run_leaves_its_numbers_in_the_form_that_prometheus_reads() {
    let csv = users::csv(4) + "Bad,,nowhere,,\n";
    let (place, server) = (Place::with("users.csv", csv), Server::good());
    let price = "--price 0.004EUR";
    run(&place, &server).args(price).done().exits(1);
    let endpoint = format!("endpoint=\"{}/v1/validate/user\"", server.url());
    let labels = format!("job=\"scored.csv\",{endpoint}");
    for (name, expected) in [
        ("rescore_rows_read_total", 5.0),
        ("rescore_rows_written_total", 5.0),
        ("rescore_rows_failed_total", 1.0),
        ("rescore_calls_total", 4.0),
        ("rescore_calls_refused_total", 0.0),
        ("rescore_billed_twice_at_most_total", 0.0),
        ("rescore_spent_total", 0.016),
        ("rescore_exit_code", 1.0),
    ] {
        let name = format!("{name}{{{labels}}}");
        assert_eq!(value(&place, &name), Some(expected), "{name}");
    }
    let text = place.text("m.prom");
    // Nothing of a row, and every family with its help and type.
    assert!(
        !text.contains("example") && !text.contains("nowhere"),
        "{text}"
    );
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        assert!(text.contains(&format!("# TYPE {name} ")), "{line}");
    }
    let mode = fs::metadata(place.path("m.prom"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o644, "the exporter is another user");
    assert_eq!(
        place
            .names()
            .iter()
            .filter(|name| name.starts_with(".tmp"))
            .count(),
        0
    );
    promtool(&["check", "metrics"], &place.path("m.prom"));
}

/// Has Prometheus's own tool check something, where it is installed.
#[allow(clippy::print_stdout, reason = "a skipped check says so")]
fn promtool(arguments: &[&str], stdin: &Path) {
    let stdin = fs::File::open(stdin).unwrap();
    let output = Command::new("promtool")
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(stdin)
        .output();
    match output {
        Ok(output) => assert!(output.status.success(), "{arguments:?}: {output:?}"),
        Err(_) => println!("skipped: promtool is not installed"),
    }
}

#[test]
fn the_alerts_name_metrics_that_exist_and_do_what_they_say() {
    const ALERTS: &str = "samples/prometheus/alerts.yml";
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let alerts = fs::read_to_string(root.join(ALERTS)).unwrap();
    assert_eq!(alerts.matches("- alert: ").count(), 7);
    let reference = fs::read_to_string(root.join("docs/reference.md")).unwrap();
    let is_of_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let named: BTreeSet<_> = { alerts.split(|c| !is_of_name(c)) }
        .filter(|word| word.starts_with("rescore_"))
        .collect();
    assert!(named.len() > 5, "{named:?}");
    for metric in named {
        assert!(reference.contains(&format!("`{metric}`")), "{metric}");
    }
    promtool(&["check", "rules", ALERTS], Path::new("/dev/null"));
    let test = "samples/prometheus/alerts_test.yml";
    promtool(&["test", "rules", test], Path::new("/dev/null"));
}

#[test]
fn the_reference_has_every_metric_and_no_other() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    run(&place, &server).args("--price 1").done().exits(0);
    let text = place.text("m.prom");
    let kept: BTreeSet<_> = { text.lines() }
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
    let reference = fs::read_to_string(reference).unwrap();
    let (_, section) = reference.split_once("\n## Metrics\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let named: BTreeSet<_> = { section.split('`') }
        .filter(|span| span.starts_with("rescore_"))
        .collect();
    assert_eq!(kept, named);
}

#[test]
fn the_last_success_outlives_a_run_that_fails() {
    let (place, server) = (Place::with("users.csv", users::csv(2)), Server::good());
    run(&place, &server).done().exits(0);
    let success = value(&place, "rescore_last_success_time_seconds").unwrap();
    assert_eq!(value(&place, "rescore_exit_code"), Some(0.0));
    assert_eq!(value(&place, "rescore_end_time_seconds"), Some(success));
    assert!(place.text("m.prom").contains("job=\"scored.csv\""));

    fs::remove_file(place.path("users.csv")).unwrap();
    run(&place, &server).done().exits(2);
    assert_eq!(value(&place, "rescore_exit_code"), Some(2.0));
    assert_eq!(value(&place, "rescore_rows_read_total"), Some(0.0));
    assert_eq!(
        value(&place, "rescore_last_success_time_seconds"),
        Some(success)
    );
}

#[test]
fn a_first_start_that_fails_leaves_summary_and_metrics_and_replaces_nothing_else() {
    let (place, server) = (Place::with("users.csv", users::csv(2)), Server::good());
    let missing = |summary: &'static str| {
        let files = "nobody.csv -o scored.csv --overwrite --metrics m.prom";
        let run = place.run(&server, files).args(["--summary", summary]);
        run.done().exits(2).says("nobody.csv");
    };
    missing("s.json");
    let is_failure = || {
        let summary = place.json("s.json");
        assert_eq!(
            (&summary["exit_code"], &summary["stopped"]),
            (&2.into(), &"not_started".into())
        );
        let message = summary["error"]["message"].as_str().unwrap();
        assert!(message.contains("nobody.csv"), "{summary}");
        assert_eq!(value(&place, "rescore_exit_code"), Some(2.0));
        assert_eq!(value(&place, "rescore_last_success_time_seconds"), None);
    };
    is_failure();
    // A mistyped option as well.
    fs::remove_file(place.path("s.json")).unwrap();
    fs::remove_file(place.path("m.prom")).unwrap();
    let mistyped = run(&place, &server).args("--summary s.json --nonsense");
    mistyped.done().exits(2);
    assert_eq!(place.json("s.json")["exit_code"], 2);
    assert_eq!(value(&place, "rescore_exit_code"), Some(2.0));
    // A mistyped name must not cost anybody their users.
    let users = place.text("users.csv");
    missing("users.csv");
    assert_eq!(place.text("users.csv"), users);
    run(&place, &server)
        .args("--summary s.json")
        .done()
        .exits(0);
    assert_eq!(place.json("s.json")["exit_code"], 0);
}

#[test]
fn metrics_that_cannot_be_written_are_noticed_before_the_first_call() {
    let (place, server) = (Place::with("users.csv", users::csv(2)), Server::good());
    let run = place.run(&server, "users.csv --metrics nowhere/m.prom");
    run.done()
        .exits(2)
        .says("cannot write the metrics to `nowhere/m.prom`: no such file");
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_run_without_its_key_replaces_yesterdays_success() {
    let (place, server) = (Place::with("users.csv", users::csv(2)), Server::good());
    let run = || run(&place, &server).args("--summary s.json");
    run().done().exits(0);
    run()
        .without_env("RESCORE_API_KEY")
        .done()
        .exits(2)
        .says("no API key");
    assert_eq!(value(&place, "rescore_exit_code"), Some(2.0));
    let summary = place.json("s.json");
    assert_eq!(summary["stopped"], "not_started");
    assert_eq!(server.calls(), 2);
}

#[test]
fn a_file_that_holds_something_else_is_never_replaced() {
    let (place, server) = (Place::with("users.csv", users::csv(2)), Server::good());
    place.write("m.prom", "node_load1 0.5\n");
    run(&place, &server)
        .done()
        .exits(2)
        .says("cannot write the metrics to `m.prom`")
        .says("its content is not metrics of rescore");
    assert_eq!(place.text("m.prom"), "node_load1 0.5\n");
    assert_eq!(server.calls(), 0);
    let clash = place.run(&server, "users.csv -o m.prom --metrics m.prom --overwrite");
    clash.done().exits(2).says("would be the same file");
}
