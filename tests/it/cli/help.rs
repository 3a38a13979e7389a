//! Help and version, and what is answered to somebody who types what other programs have.

use super::what_is_shown::terminal;
use crate::support::command_line::CommandLine;
use crate::support::process::Place;
use crate::support::users;

#[test]
fn help_and_version_are_printed_to_standard_output() {
    let place = Place::new();
    let version = format!("rescore {}\n", env!("CARGO_PKG_VERSION"));
    let cases: [(&[&str], &[&str]); 8] = [
        (&["--help"], &["run", "sandbox", "Exit codes", "130"]),
        (&["run", "-h"], &["--concurrency", "--help-all"]),
        (
            &["run", "--help-all"],
            &["RESCORE_API_KEY", "--resend-unknown"],
        ),
        (&["check", "-h"], &["--price"]),
        (&["sandbox", "--help"], &["--fault", "127.0.0.1:8787"]),
        (&["ledger", "--help"], &["stats", "prune", "forget"]),
        (&["ledger", "forget", "--help"], &["<USERS>", "--ledger"]),
        (&["--version"], &[&version]),
    ];
    for (arguments, words) in cases {
        let done = place.rescore(arguments).done();
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
fn both_short_helps_are_one_page_and_all_options_are_asked_for() {
    let place = Place::new();
    let help = |words: &str| place.rescore(words).done().printed();
    for command in ["run", "check"] {
        let page = help(&format!("{command} -h"));
        assert_eq!(page, help(&format!("{command} --help")));
        assert!(page.lines().count() <= 60, "{page}");
        assert!(!page.contains("--resend-unknown"));
        let all = help(&format!("{command} --help-all"));
        assert!(all.contains("--resend-unknown") && all.contains("--keep-going"));
    }
}

#[test]
fn no_value_of_a_variable_is_in_the_help() {
    let place = Place::new();
    for help in ["run --help", "run --help-all"] {
        let program = place.rescore(help);
        let program = program.env("RESCORE_BASE_URL", "https://user:hidden@example.com");
        program.done().exits(0).silent_about("hidden");
    }
}

#[test]
fn unknown_arguments_are_answered_with_similar_ones_only_if_they_are_misspelt() {
    let line = CommandLine::new();
    line.refuses_typed("--concurency 3", &["--concurency", "'--concurrency'"]);
    line.refuses_typed("--api-key-fil key.txt", &["'--api-key-file'"]);
    line.refuses_typed("--bogus", &["`rescore run --help-all` lists all options"]);
    line.refuses_typed("--format xml", &["csv, tsv, jsonl"]);
    line.refuses_typed("--plan gold", &["paid, free"]);
    line.refuses_typed("--progress loud", &["auto", "bar", "plain", "json", "off"]);
    line.refuses_typed("-c 1 -c 2", &["--concurrency", "multiple times"]);
    line.refuses(line.place.rescore("rum"), &["'rum'", "'run'"]);
}

#[test]
fn options_of_other_programs_are_answered_with_what_does_it_here() {
    let line = CommandLine::new();
    for (options, words) in [
        (
            &["--resume", "--continue"][..],
            "give the same command again",
        ),
        (&["--retry"], "`--retry-failed`"),
        (&["--dry-run"], "`rescore check`"),
        (&["--force"], "`--overwrite`"),
        (
            &["--workers", "--threads", "--parallel"],
            "`--concurrency N`",
        ),
        (&["--head", "--rows"], "`--limit N`"),
        (&["--url"], "`--base-url URL`"),
        (
            &["--key=secret", "--token=secret", "--api-key=secret"],
            "`--api-key-file FILE`",
        ),
        (&["--where", "--filter"], "pipe them in"),
    ] {
        for option in options {
            let program = line.typed([*option]);
            // Nothing that costs money is named beside it.
            line.refuses(program, &[words])
                .silent_about("--fresh")
                .silent_about("secret");
        }
    }
}

#[test]
fn commands_that_are_nearly_right_are_answered_with_the_right_one() {
    let line = CommandLine::new();
    let command = "`rescore run users.csv -o scored.csv`";
    line.refuses(line.place.rescore("users.csv"), &[command]);
    line.refuses(
        line.place.rescore(["my users.jsonl.gz", "--sandbox"]),
        &["`rescore run 'my users.jsonl.gz' --sandbox -o scored.jsonl.gz`"],
    );
    line.refuses(
        line.place.rescore("run users.csv more.csv"),
        &[
            "`rescore run users.csv more.csv --output-dir scored`",
            "`rescore run users.csv -o more.csv`",
        ],
    );
    for path in ["", "/", "/tenant"] {
        let address = format!("https://api.example.com{path}/v1/validate/user");
        let base = format!(
            "give `https://api.example.com{}` alone",
            path.trim_end_matches('/')
        );
        line.refuses_typed(["--base-url", &address], &[&base]);
    }
    // The input first: whoever mistypes it has not come to the output yet.
    line.place.write("scored.csv", "");
    let done = line
        .place
        .rescore("run usres.csv -o scored.csv --sandbox")
        .done();
    done.exits(2).says("cannot read `usres.csv`");
}

#[test]
fn rows_do_not_fill_a_terminal_unless_they_are_asked_for_there() {
    let place = Place::with("my.users.csv", users::csv(3));
    let scored = users::scored(&users::csv(3));
    place.write("scored.csv", &scored);
    let on_terminal = |command: &str| {
        let (side, written) = terminal(100);
        let done = place.rescore(command).stdout(side).done();
        (done, written.join().unwrap())
    };
    for (command, meant) in [
        (
            "run my.users.csv --sandbox",
            "`rescore run my.users.csv -o scored.users.csv`",
        ),
        (
            "decide scored.csv",
            "`rescore decide scored.csv -o decided.csv`",
        ),
        (
            "report scored.csv",
            "`rescore report scored.csv -o report.html`",
        ),
    ] {
        let (done, written) = on_terminal(command);
        done.exits(2).says(meant).says("`-o -`");
        assert_eq!(written, "");
    }
    let (done, written) = on_terminal("decide scored.csv -o -");
    done.exits(0);
    assert_eq!(written.replace('\r', ""), scored);
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
