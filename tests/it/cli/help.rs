//! Help, and what is answered to somebody who types what other programs have: never what would cost money.

use super::what_is_shown::terminal;
use crate::support::command_line::CommandLine;
use crate::support::process::Place;
use crate::support::users;

#[test]
fn help_and_version_are_printed_to_standard_output() {
    let place = Place::new();
    let version = format!("rescore {}\n", env!("CARGO_PKG_VERSION"));
    for (arguments, words) in [
        ("--help", "Exit codes"),
        ("run -h", "--help-all"),
        ("run --help-all", "--resend-unknown"),
        ("sandbox --help", "127.0.0.1:8787"),
        ("ledger forget --help", "<USERS>"),
        ("--version", &version),
    ] {
        let program = place.rescore(arguments);
        let hidden = "https://user:hidden@example.com";
        let done = program.env("RESCORE_BASE_URL", hidden).done();
        done.exits(0).prints(words).silent_about("hidden");
        done.check(done.stderr.is_empty(), "nothing on standard error");
    }
    for command in ["run", "check"] {
        let help = |option: &str| place.rescore([command, option]).done().printed();
        let page = help("-h");
        assert_eq!(page, help("--help"));
        assert!(page.lines().count() <= 60, "{page}");
        assert!(help("--help-all").contains("--resend-unknown"));
    }
    let done = place.rescore("").done();
    done.exits(2).says("Usage: rescore <COMMAND>");
    done.check(done.stdout.is_empty(), "nothing on standard output");
}

#[test]
fn unknown_arguments_are_answered_with_similar_ones_only_if_they_are_misspelt() {
    let line = CommandLine::new();
    line.refuses_typed("--concurency 3", &["--concurency", "'--concurrency'"]);
    line.refuses_typed("--bogus", &["`rescore run --help-all` lists all options"]);
    line.refuses_typed("--plan gold", &["paid, free"]);
    line.refuses_typed("-c 1 -c 2", &["--concurrency", "multiple times"]);
    line.refuses(line.place.rescore("rum"), &["'rum'", "'run'"]);
}

#[test]
fn options_of_other_programs_are_answered_with_what_does_it_here() {
    let line = CommandLine::new();
    for (options, words) in [
        ("--resume --continue", "give the same command again"),
        ("--retry", "`--retry-failed`"),
        ("--dry-run", "`rescore check`"),
        ("--force", "`--overwrite`"),
        ("--workers --threads --parallel", "`--concurrency N`"),
        ("--head --rows", "`--limit N`"),
        ("--url", "`--base-url URL`"),
        (
            "--key=secret --token=secret --api-key=secret",
            "`--api-key-file FILE`",
        ),
        ("--where --filter", "`--only COLUMN=VALUE`"),
        ("--budget", "`--max-cost AMOUNT`"),
        ("--rps", "`--rate N/s`"),
        ("--endpoint", "`--base-url URL`"),
        ("--sep -d", "`--delimiter CHARACTER`"),
        ("--max-retries", "`--retries N`"),
        ("-n -n5 --first", "`--limit N`"),
        ("--input -i", "`rescore run users.csv -o scored.csv`"),
        ("--out", "`-o FILE`"),
        ("--threshold", "`--approve-max SCORE`"),
        ("-v -vv --verbose", "`--log FILE`"),
        ("--silent", "`--quiet`"),
        ("--currency", "`--price '0.004 EUR'`"),
        ("--refresh --no-cache", "`--max-age 30d`"),
        ("--yes -y", "`--overwrite`"),
        ("-x -Z9", "`rescore run --help-all` lists all options"),
    ] {
        for option in options.split(' ') {
            // Nothing that costs money is named beside it.
            let done = line.refuses(line.typed(option), &[words]);
            done.silent_about("--fresh").silent_about("secret");
            done.silent_about("as a value");
        }
    }
}

#[test]
fn commands_of_other_programs_are_answered_with_what_does_it_here() {
    let line = CommandLine::new();
    for (command, words) in [
        ("score users.csv", "`rescore run INPUT -o OUTPUT`"),
        ("validate", "`rescore run INPUT -o OUTPUT`"),
        ("estimate", "`rescore check`"),
        ("cost", "`rescore check`"),
        ("test", "`rescore run INPUT --sandbox`"),
        ("test", "`rescore check INPUT`"),
        ("diff", "`rescore report NEW --against EARLIER"),
        ("compare a b", "`rescore report NEW --against EARLIER"),
        ("version", "`rescore --version`"),
        ("chekc", "'check'"),
        ("TAB", "the commands are run, check, decide, report"),
        ("ledger TAB", "the commands are init, stats, copy"),
        ("ledger a.ledger", "the commands are init, stats, copy"),
        ("ledger prnue", "'prune'"),
    ] {
        line.refuses(line.place.rescore(command), &[words]);
    }
}

#[test]
fn commands_that_are_nearly_right_are_answered_with_the_right_one() {
    let line = CommandLine::new();
    for (command, meant) in [
        (&["users.csv"][..], "`rescore run users.csv -o scored.csv`"),
        (
            &["my users.jsonl.gz", "--sandbox"],
            "`rescore run 'my users.jsonl.gz' --sandbox -o scored.jsonl.gz`",
        ),
        (
            &["run", "users.csv", "more.csv"],
            "`rescore run users.csv more.csv --output-dir scored`",
        ),
    ] {
        line.refuses(line.place.rescore(command), &[meant]);
    }
    // The input first: whoever mistypes it has not come to the output yet.
    line.place.write("scored.csv", "");
    let run = line.place.rescore("run usres.csv -o scored.csv --sandbox");
    run.done().exits(2).says("cannot read `usres.csv`");
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
    for (command, file) in [
        ("run my.users.csv --sandbox", "scored.users.csv"),
        ("decide scored.csv", "decided.csv"),
        ("report scored.csv", "report.html"),
    ] {
        let (done, written) = on_terminal(command);
        done.exits(2).says(&format!("-o {file}`")).says("`-o -`");
        assert_eq!(written, "");
    }
    let (done, written) = on_terminal("decide scored.csv -o -");
    done.exits(0);
    assert_eq!(written.replace('\r', ""), scored);
}
