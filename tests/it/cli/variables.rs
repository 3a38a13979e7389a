//! Settings from variables: those that differ between machines have one, an argument wins, and an error names the variable that a
//! value came from. Any other variable that looks like one of ours is refused.

use super::settings::write_key;
use crate::support::command_line::CommandLine;
use crate::support::server::Server;
use crate::support::users;

#[test]
fn an_error_in_a_value_names_the_variable_that_it_came_from() {
    let line = CommandLine::new();
    for (name, option, value) in [
        ("RESCORE_BASE_URL", "--base-url", "example.com"),
        ("RESCORE_SERVICE_ID", "--service-id", "a\u{7f}b"),
        ("RESCORE_API_KEY_FILE", "--api-key-file", "nowhere.txt"),
        ("RESCORE_LEDGER", "--ledger", "/dev/null"),
    ] {
        let words = format!("  `{option}` comes from the variable `{name}`\n");
        line.refuses(line.typed("").env(name, value), &[&words]);
    }
    // An error in an argument does not name the variable that it overrides.
    let program = line.typed("--ledger /dev/null");
    line.refuses(program.env("RESCORE_LEDGER", "/dev/zero"), &["/dev/null"])
        .silent_about("variable");
}

#[test]
fn what_differs_between_machines_has_a_variable_and_an_argument_wins_over_it() {
    let line = CommandLine::new();
    let place = &line.place;
    write_key(place, "key.txt", "key-of-the-file");
    let profile = "[profile.slow]\nconcurrency = 3\nset = ['user_agent=of the profile']\n";
    place.write("settings.toml", profile);
    let run = |arguments: &str| {
        line.typed(arguments)
            .env("RESCORE_API_KEY_FILE", "key.txt")
            .env("RESCORE_LEDGER", "answers.ledger")
            .env("RESCORE_CONFIG", "settings.toml")
            .env("RESCORE_PROFILE", "slow")
            .done()
    };
    run("").exits(0).says("up to 3 calls at a time");
    assert!(place.path("answers.ledger").exists());
    let requests = line.server.requests();
    let [request, ..] = &requests[..] else {
        panic!("no request")
    };
    assert_eq!(request.json()["user_agent"], "of the profile");
    assert_eq!(
        (
            request.header("authorization"),
            request.header("x-service-id")
        ),
        (Some("Bearer key-of-the-file"), Some("test"))
    );
    let typed = "--overwrite -c 2 --ledger others.ledger --service-id typed --set user_agent=typed";
    run(typed).exits(0).says("up to 2 calls at a time");
    assert!(place.path("others.ledger").exists());
    let request = line.server.requests().pop().unwrap();
    assert_eq!(request.header("x-service-id"), Some("typed"));
    // A ledger in the variable gives way to this as well.
    let calls = line.server.calls();
    run("--overwrite --no-ledger").exits(0);
    assert_eq!(line.server.calls(), calls + 3);
    let both = "--overwrite --no-ledger --ledger x.ledger";
    run(both)
        .exits(2)
        .says("`--ledger` and `--no-ledger` cannot be used together");
}

#[test]
fn the_free_plan_has_a_variable_of_its_own() {
    let (line, free) = (CommandLine::new(), Server::good());
    let program = line
        .typed("--plan free")
        .env("RESCORE_FREE_BASE_URL", free.url());
    program.done().exits(0);
    assert_eq!((free.calls(), line.server.calls()), (3, 0));
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let line = CommandLine::new();
    let mut program = line.typed("");
    for name in [
        "RESCORE_API_KEY_FILE",
        "RESCORE_FREE_BASE_URL",
        "RESCORE_LEDGER",
        "RESCORE_CONFIG",
        "RESCORE_PROFILE",
    ] {
        program = program.env(name, "");
    }
    program.done().exits(0);
    assert_eq!(line.place.text("scored.csv"), users::scored(&users::csv(3)));
}

#[test]
fn an_unknown_variable_is_refused_with_what_does_it() {
    let line = CommandLine::new();
    for (name, words) in [
        ("RESCORE_MAX_COST", &["in the settings file"][..]),
        ("RESCORE_LEDGR", &["did you mean `RESCORE_LEDGER`?"]),
        ("RESCORE_X", &["the variable `RESCORE_X` is unknown"]),
    ] {
        line.refuses(line.typed("").env(name, "5"), words);
        let help = line.place.rescore("run --help").env(name, "5");
        help.done().exits(0).silent_about("unknown");
    }
}
