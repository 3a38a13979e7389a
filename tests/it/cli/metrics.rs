//! Metrics for Prometheus: what is in the file, and what becomes of yesterday's.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::process::{Place, Program};
use crate::support::server::{Server, answer, good};
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
    let mut csv = users::csv(4);
    let again = csv.lines().nth(1).unwrap().to_owned();
    csv.push_str(&again);
    csv.push_str("\nBad,,nowhere,,\n");
    let (place, server) = (Place::with("users.csv", csv), Server::good());
    run(&place, &server)
        .args("--job nightly --price 0.004EUR")
        .done()
        .exits(1);
    let endpoint = format!("endpoint=\"{}/v1/validate/user\"", server.url());
    let labels = format!("job=\"nightly\",{endpoint}");
    let approved = place.text("scored.csv").matches(",approve").count();
    let approved = f64::from(u32::try_from(approved).unwrap());
    for (name, expected) in [
        (format!("rescore_rows_read_total{{{labels}}}"), 6.0),
        (format!("rescore_rows_written_total{{{labels}}}"), 6.0),
        (
            format!("rescore_rows_scored_total{{{labels},decision=\"approve\"}}"),
            approved,
        ),
        (format!("rescore_rows_failed_total{{{labels},reason="), 1.0),
        (
            format!("rescore_rows_reused_total{{{labels},from=\"identical_row\"}}"),
            1.0,
        ),
        (
            format!("rescore_calls_total{{{labels},outcome=\"answered\"}}"),
            4.0,
        ),
        (
            format!("rescore_spent_total{{{labels},currency=\"EUR\"}}"),
            0.016,
        ),
        (
            format!("rescore_saved_total{{{labels},currency=\"EUR\"}}"),
            0.004,
        ),
        (format!("rescore_calls_in_flight{{{labels}}}"), 0.0),
        (
            format!("rescore_call_latency_seconds_count{{{labels}}}"),
            4.0,
        ),
        (
            format!("rescore_call_latency_seconds_bucket{{{labels},le=\"+Inf\"}}"),
            4.0,
        ),
        (format!("rescore_exit_code{{{labels}}}"), 1.0),
    ] {
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
        let family = ["_bucket", "_sum", "_count"]
            .into_iter()
            .find_map(|end| {
                name.strip_suffix(end)
                    .filter(|name| name.ends_with("_seconds"))
            })
            .unwrap_or(name);
        assert!(text.contains(&format!("# TYPE {family} ")), "{line}");
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
    assert_eq!(alerts.matches("- alert: ").count(), 5);
    let reference = fs::read_to_string(root.join("docs/reference.md")).unwrap();
    let is_of_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let named: BTreeSet<_> = { alerts.split(|c| !is_of_name(c)) }
        .filter(|word| word.starts_with("rescore_"))
        .collect();
    assert_eq!(named.len(), 8, "{named:?}");
    for metric in named {
        assert!(reference.contains(&format!("`{metric}`")), "{metric}");
    }
    promtool(&["check", "rules", ALERTS], Path::new("/dev/null"));
    let test = "samples/prometheus/alerts_test.yml";
    promtool(&["test", "rules", test], Path::new("/dev/null"));
}

#[test]
fn the_reference_has_every_metric_and_no_other() {
    let place = Place::with("users.csv", users::csv(30) + "Bad,,nowhere,,\n");
    // A limit, so that there is a rate.
    let server = Server::start(|request| match request.nth {
        5 => answer(429, &[("retry-after", "0")], ""),
        _ => good(request),
    });
    let run = || {
        let run = place.run_at(server.url()).arg("--overwrite");
        run.args("--rate 100/s --price 1 --metrics m.prom")
    };
    run().done().exits(1);
    let of_failures = place.text("m.prom");
    place.write("users.csv", users::csv(2));
    run().done().exits(0);
    let text = of_failures + &place.text("m.prom");
    let kept: BTreeSet<_> = { text.lines() }
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
    let reference = fs::read_to_string(reference).unwrap();
    let (_, section) = reference.split_once("\n## Metrics\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let mut named: BTreeSet<_> = { section.split('`') }
        .filter(|span| span.starts_with("rescore_"))
        .collect();
    // Only where the service has shown one.
    assert!(named.remove("rescore_limit_calls_per_second"));
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
fn a_run_that_cannot_start_replaces_yesterdays_summary_but_nothing_else() {
    let (place, server) = (Place::with("users.csv", users::csv(2)), Server::good());
    let with_summary = |file: &'static str| run(&place, &server).args(["--summary", file]);
    with_summary("s.json").done().exits(0);
    let missing = |file: &'static str| {
        let program = place.run(
            &server,
            "nobody.csv -o scored.csv --overwrite --metrics m.prom",
        );
        program
            .args(["--summary", file])
            .done()
            .exits(2)
            .says("nobody.csv");
    };
    missing("s.json");
    let summary = place.json("s.json");
    assert_eq!(summary["exit_code"], 2);
    assert_eq!(summary["stopped"], "not_started");
    assert!(
        summary["error"]["message"]
            .as_str()
            .unwrap()
            .contains("nobody.csv"),
        "{summary}"
    );
    // A mistyped name must not cost anybody their users.
    let users = place.text("users.csv");
    missing("users.csv");
    assert_eq!(place.text("users.csv"), users);
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
