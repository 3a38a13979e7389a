//! The settings file: what it may say, what comes before it, and where it is looked for.

use std::fs;

use crate::support::command_line::CommandLine;
use crate::support::process::{Done, Place};
use crate::support::server::Server;
use crate::support::users;

/// A usual file.
const FILE: &str = "service-id = 'from-the-file'\n\
                    base-url = 'https://me:hunter2@api.example.com/x'\n\
                    approve-max = 2.50\n\
                    retries = 6\n\
                    max-age = '7d'\n\
                    map = ['ip=last_ip', 'name={first} {last}']\n\
                    vpn-check = true\n\n\
                    [profile.nightly]\n\
                    retries = 9\n\
                    rate = '20/s'\n";

/// Every setting in force with its origin.
fn shown(done: &Done) -> Vec<(String, String)> {
    let text = done.printed();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let parts = |line: &str| {
        let (setting, origin) = line.split_once("  # ").unwrap();
        (setting.trim().to_owned(), origin.to_owned())
    };
    lines.map(parts).collect()
}

#[test]
fn a_variable_comes_before_a_profile_and_a_profile_before_the_rest_of_the_file() {
    let place = Place::with("settings.toml", FILE);
    let config = || place.rescore("config --config settings.toml");
    let are_in_force = |done: &Done, expected: &[(&str, &str)]| {
        done.exits(0);
        let all = shown(done);
        for (setting, origin) in expected {
            let expected = ((*setting).to_owned(), (*origin).to_owned());
            assert!(all.contains(&expected), "{expected:?} in {all:?}");
        }
    };
    let map = "map = [\"ip=last_ip\",\"name={first} {last}\"]";
    let done = config().env("RESCORE_API_KEY", "very-secret").done();
    are_in_force(
        &done,
        &[
            ("retries = \"6\"", "`settings.toml`, line 4"),
            ("approve-max = \"2.50\"", "`settings.toml`, line 3"),
            ("vpn-check = true", "`settings.toml`, line 7"),
            (map, "`settings.toml`, line 6"),
            ("timeout = \"30s\"", "default"),
            // No key and no password is shown.
            ("base-url = \"https://…\"", "`settings.toml`, line 2"),
        ],
    );
    done.prints("# API key: in the variable `RESCORE_API_KEY`");
    done.silent_about("hunter2").silent_about("very-secret");
    let nightly = config().env("RESCORE_PROFILE", "nightly");
    let nightly = nightly.env("RESCORE_SERVICE_ID", "of-the-variable").done();
    are_in_force(
        &nightly,
        &[
            ("retries = \"9\"", "`settings.toml`, line 10"),
            ("max-age = \"7d\"", "`settings.toml`, line 5"),
            (
                "service-id = \"of-the-variable\"",
                "the variable `RESCORE_SERVICE_ID`",
            ),
        ],
    );
    // What is shown is a settings file that makes the same settings.
    let printed = nightly.printed().replace("https://…", "https://a.org");
    place.write("again.toml", printed);
    let again = place.rescore("config --config again.toml").done();
    are_in_force(&again, &[]);
    let settings = |done: &Done| -> Vec<_> {
        let all = shown(done).into_iter().map(|(setting, _)| setting);
        all.filter(|setting| !setting.starts_with("base-url"))
            .collect()
    };
    assert_eq!(settings(&nightly), settings(&again));
}

#[test]
fn a_run_follows_the_file_unless_something_is_typed() {
    let line = CommandLine::new();
    let file = "service-id = 'from-the-file'\nset = ['user_agent=of the file']\nmax-age = '7d'\n";
    line.place.write("settings.toml", file);
    let sent = |arguments: &str| {
        let program = line.typed(arguments).without_env("RESCORE_SERVICE_ID");
        let program = program.env("RESCORE_CONFIG", "settings.toml");
        program.exits(0);
        let request = line.server.requests().pop().unwrap();
        let id = request.header("x-service-id").unwrap().to_owned();
        [
            id,
            request.json()["user_agent"].as_str().unwrap().to_owned(),
        ]
    };
    assert_eq!(sent(""), ["from-the-file", "of the file"]);
    let typed = "--overwrite --fresh --service-id typed --set user_agent=typed";
    assert_eq!(sent(typed), ["typed", "typed"]);
    assert_eq!(line.server.calls(), 6);
}

#[test]
fn files_that_a_run_writes_are_not_those_of_other_commands() {
    let place = Place::new();
    let scored = "id,transaction_id,risk_score,decision\n1,t,3,review\n";
    place.write("march.csv", scored);
    let file = "output = 'scored.csv'\noverwrite = true\nsummary = 's.json'\nchanges = 'c.csv'\napprove-max = 4\n";
    place.write("nightly.toml", file);
    let paid = ["scored.csv", "s.json", "c.csv", "page.html"];
    for name in paid {
        place.write(name, "paid for");
    }
    let typed = |line: &str| {
        let program = place.rescore(line);
        program.env("RESCORE_CONFIG", "nightly.toml").done()
    };
    typed("report march.csv")
        .exits(0)
        .prints("<h1>Risk verdicts");
    // What is not a file counts for all commands.
    typed("decide march.csv").exits(0).prints("1,t,3,approve");
    for line in [
        "report march.csv -o page.html",
        "decide march.csv -o scored.csv",
    ] {
        typed(line).exits(2).says("already exists");
    }
    for name in paid {
        assert_eq!(place.text(name), "paid for");
    }
}

#[test]
fn the_usual_place_is_in_the_home_directory_and_never_the_working_directory() {
    let place = Place::new();
    for name in ["config.toml", "rescore.toml", ".rescore.toml"] {
        place.write(name, "retries = 8\n");
    }
    for directory in ["xdg/rescore", "home/.config/rescore", "broken/rescore"] {
        fs::create_dir_all(place.path(directory)).unwrap();
        place.write(&format!("{directory}/config.toml"), "retries = 8\n");
    }
    let with = |command: &str, variable, directory: &str| {
        let program = place.rescore(command);
        program.env(variable, directory).done()
    };
    let path = |name: &str| place.path(name).to_str().unwrap().to_owned();
    for (variable, directory, retries) in [
        ("XDG_CONFIG_HOME", path("nowhere"), "\"4\""),
        ("XDG_CONFIG_HOME", path("xdg"), "\"8\""),
        ("HOME", path("home"), "\"8\""),
        // A relative path would be in the working directory.
        ("XDG_CONFIG_HOME", "xdg".to_owned(), "\"4\""),
    ] {
        let done = with("config", variable, &directory);
        done.exits(0).prints(&format!("retries = {retries}"));
    }
    // Only commands that take a settings file look for one.
    place.write("broken/rescore/config.toml", "rat = 1\n");
    let broken = path("broken");
    with("completions bash", "XDG_CONFIG_HOME", &broken).exits(0);
    let config = with("config", "XDG_CONFIG_HOME", &broken);
    config.exits(2);
    // One that may be there, but cannot be read.
    let config = with(
        "config",
        "XDG_CONFIG_HOME",
        &path("broken/rescore/config.toml"),
    );
    config
        .exits(2)
        .says("hint: `--config FILE` names another file");
}

#[test]
fn small_files_are_read_up_to_a_megabyte() {
    let (place, server) = (Place::with("users.csv", users::csv(1)), Server::good());
    for option in ["--config", "--api-key-file", "--ca-file"] {
        let done = place.score(&server, [option, "/dev/zero"]);
        done.exits(2).says("it has more than a megabyte");
    }
    assert_eq!(server.calls(), 0);
}
