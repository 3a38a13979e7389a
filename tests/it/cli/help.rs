//! Help and version, and the message about an argument that does not exist.

use crate::support::command_line::CommandLine;
use crate::support::process::Place;

#[test]
fn help_and_version_are_printed_to_standard_output() {
    let place = Place::new();
    let version = format!("rescore {}\n", env!("CARGO_PKG_VERSION"));
    let cases: [(&[&str], &[&str]); 10] = [
        (&["--help"], &["run", "sandbox", "Exit codes", "130"]),
        (&["-h"], &["run", "sandbox"]),
        (
            &["run", "--help"],
            &["RESCORE_SOME_NAME", "RESCORE_API_KEY", "--sandbox", "50/s"],
        ),
        (&["run", "-h"], &["RESCORE_SOME_NAME", "--concurrency"]),
        (
            &["check", "--help"],
            &["RESCORE_SOME_NAME", "Examples:", "Exit codes:", "--price"],
        ),
        (&["check", "-h"], &["RESCORE_SOME_NAME", "--rejects"]),
        (
            &["sandbox", "--help"],
            &["RESCORE_SANDBOX_SOME_NAME", "--fault", "127.0.0.1:8787"],
        ),
        (&["ledger", "--help"], &["stats", "prune", "forget"]),
        (
            &["ledger", "forget", "--help"],
            &["RESCORE_LEDGER_SOME_NAME", "<USERS>", "--ledger", "run"],
        ),
        (&["--version"], &[&version]),
    ];
    for (arguments, words) in cases {
        let program = place.rescore(arguments);
        let done = program.done();
        done.exits(0);
        let stdout = done.printed();
        for words in words {
            done.check(
                stdout.contains(words),
                &format!("standard output says `{words}`"),
            );
        }
        done.check(done.stderr.is_empty(), "nothing on standard error");
    }
}

#[test]
fn help_of_a_command_is_its_long_help() {
    let place = Place::new();
    for words in ["run", "check", "ledger prune"] {
        let asked = place.rescore("help").args(words.split(' ')).done();
        let typed = { place.rescore(words.split(' ')) }.arg("--help").done();
        asked.exits(0);
        assert_eq!(asked.stdout, typed.stdout, "{words}");
    }
}

#[test]
fn no_value_of_a_variable_is_in_the_help() {
    let place = Place::new();
    let done = place
        .rescore("run --help")
        .env("RESCORE_BASE_URL", "https://user:hidden@example.com")
        .done();
    done.exits(0).silent_about("hidden");
}

#[test]
fn unknown_arguments_are_answered_with_similar_ones() {
    let line = CommandLine::new();
    line.refuses_typed("--concurency 3", &["--concurency", "'--concurrency'"]);
    line.refuses_typed("--api-key-fil key.txt", &["'--api-key-file'"]);
    line.refuses_typed("more.csv", &["more.csv"]);
    line.refuses_typed("--format xml", &["csv, tsv, jsonl"]);
    line.refuses_typed("--plan gold", &["paid, free"]);
    line.refuses_typed("--progress loud", &["auto", "bar", "plain", "json", "off"]);
    line.refuses_typed("-c 1 -c 2", &["--concurrency", "multiple times"]);
    line.refuses(line.place.rescore("rum"), &["'rum'", "'run'"]);
}

#[test]
fn without_a_subcommand_the_help_is_shown_as_an_error() {
    let place = Place::new();
    let done = place.rescore("").done();
    done.exits(2)
        .says("Usage: rescore <COMMAND>")
        .says("run")
        .says("sandbox");
    done.check(done.stdout.is_empty(), "nothing on standard output");
}
