//! Help, and rows that would fill a terminal.

use super::what_is_shown::terminal;
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
        let done = program.env("RESCORE_BASE_URL", hidden).exits(0);
        done.prints(words).silent_about("hidden");
        done.check(done.stderr.is_empty(), "nothing on standard error");
    }
    for command in ["run", "check"] {
        let help = |option: &str| place.rescore([command, option]).done().printed();
        let page = help("-h");
        assert_eq!(page, help("--help"));
        assert!(page.lines().count() <= 60, "{page}");
        assert!(help("--help-all").contains("--resend-unknown"));
    }
    let done = place.rescore("").exits(2);
    done.says("Usage: rescore <COMMAND>");
    done.check(done.stdout.is_empty(), "nothing on standard output");
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
