//! The settings file: what it may say, what comes before it, and where it is looked for.

use std::fs;

use crate::support::command_line::CommandLine;
use crate::support::process::{Done, Place, Program};

/// A usual file.
const FILE: &str = "service-id = 'from-the-file'\n\
                    base-url = 'https://api.example.com'\n\
                    approve-max = 2.50\n\
                    retries = 6\n\
                    max-age = '7d'\n\
                    map = ['ip=last_ip', 'name={first} {last}']\n\
                    vpn-check = true\n\n\
                    [profile.nightly]\n\
                    retries = 9\n\
                    rate = '20/s'\n";

/// `rescore config` with this file.
fn config<'a>(place: &'a Place, arguments: &[&str]) -> Program<'a> {
    place.write("settings.toml", FILE);
    place
        .rescore("config --config settings.toml")
        .args(arguments)
}

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

#[track_caller]
fn is_in_force(done: &Done, setting: &str, origin: &str) {
    let all = shown(done);
    let expected = (setting.to_owned(), origin.to_owned());
    assert!(all.contains(&expected), "{expected:?} in {all:?}");
}

#[test]
fn a_variable_comes_before_a_profile_and_a_profile_before_the_rest_of_the_file() {
    let place = Place::new();
    let done = config(&place, &[]).done();
    done.exits(0);
    is_in_force(&done, "retries = \"6\"", "`settings.toml`, line 4");
    is_in_force(&done, "approve-max = \"2.50\"", "`settings.toml`, line 3");
    is_in_force(&done, "vpn-check = true", "`settings.toml`, line 7");
    is_in_force(
        &done,
        "map = [\"ip=last_ip\", \"name={first} {last}\"]",
        "`settings.toml`, line 6",
    );
    is_in_force(&done, "timeout = \"30s\"", "default");
    let done = config(&place, &["--profile", "nightly"]).done();
    is_in_force(&done, "retries = \"9\"", "`settings.toml`, line 10");
    is_in_force(&done, "rate = \"20/s\"", "`settings.toml`, line 11");
    is_in_force(&done, "max-age = \"7d\"", "`settings.toml`, line 5");
    let done = config(&place, &[])
        .env("RESCORE_PROFILE", "nightly")
        .env("RESCORE_SERVICE_ID", "of-the-variable")
        .done();
    is_in_force(&done, "rate = \"20/s\"", "`settings.toml`, line 11");
    let service_id = "service-id = \"of-the-variable\"";
    is_in_force(&done, service_id, "the variable `RESCORE_SERVICE_ID`");
}

#[test]
fn what_is_shown_is_a_settings_file_that_makes_the_same_settings() {
    let place = Place::new();
    let first = config(&place, &["--profile", "nightly"]).done();
    place.write("again.toml", &first.stdout);
    let again = place.rescore("config --config again.toml").done();
    again.exits(0);
    let settings = |done: &Done| {
        shown(done)
            .into_iter()
            .map(|(setting, _)| setting)
            .collect::<Vec<_>>()
    };
    assert_eq!(settings(&first), settings(&again));
}

#[test]
fn a_run_follows_the_file_unless_something_is_typed() {
    let line = CommandLine::new();
    line.place.write(
        "settings.toml",
        "service-id = 'from-the-file'\nset = ['user_agent=of the file']\nmax-age = '7d'\n",
    );
    let typed = |arguments: &str| {
        line.typed(arguments)
            .without_env("RESCORE_SERVICE_ID")
            .env("RESCORE_CONFIG", "settings.toml")
    };
    typed("").done().exits(0);
    typed("--overwrite --fresh --service-id typed --set user_agent=typed")
        .done()
        .exits(0);
    let requests = line.server.requests();
    let seen: Vec<_> = requests
        .iter()
        .map(|request| {
            let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
            (
                request
                    .header("x-service-id")
                    .unwrap_or_default()
                    .to_owned(),
                body["user_agent"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let of = |id: &str, agent: &str| (id.to_owned(), agent.to_owned());
    let first = vec![of("from-the-file", "of the file"); 3];
    let second = vec![of("typed", "typed"); 3];
    assert_eq!(seen, [first, second].concat());
}

#[test]
fn files_that_a_run_writes_are_not_those_of_other_commands() {
    let place = Place::new();
    let scored = "id,transaction_id,risk_score,decision\n1,t,3,review\n";
    place.write("march.csv", scored);
    place.write(
        "nightly.toml",
        "output = 'scored.csv'\noverwrite = true\nsummary = 'summary.json'\nchanges = 'c.csv'\napprove-max = 4\n",
    );
    let paid = ["scored.csv", "summary.json", "c.csv", "page.html"];
    for name in paid {
        place.write(name, "paid for");
    }
    let typed = |line: &str| {
        place
            .rescore(line)
            .env("RESCORE_CONFIG", "nightly.toml")
            .done()
    };
    typed("report march.csv")
        .exits(0)
        .prints("<h1>Risk verdicts");
    // What is not a file counts for all commands.
    typed("decide march.csv").exits(0).prints("1,t,3,approve");
    typed("decide march.csv --what-if").exits(0);
    typed("decide march.csv -o d.csv --overwrite").exits(0);
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
    let text = "retries = 8\n";
    for name in ["config.toml", "rescore.toml", ".rescore.toml"] {
        place.write(name, text);
    }
    let show = |variable, directory: &str| {
        let program = place.rescore("config").env(variable, place.path(directory));
        shown(&program.done())
    };
    let says =
        |all: &[(String, String)], setting: &str| all.iter().any(|(shown, _)| shown == setting);
    assert!(says(&show("XDG_CONFIG_HOME", "nowhere"), "retries = \"4\""));
    for (variable, base, directory) in [
        ("XDG_CONFIG_HOME", "xdg", "xdg/rescore"),
        ("HOME", "home", "home/.config/rescore"),
    ] {
        fs::create_dir_all(place.path(directory)).unwrap();
        place.write(&format!("{directory}/config.toml"), text);
        assert!(says(&show(variable, base), "retries = \"8\""), "{variable}");
    }
    // A relative path would be in the working directory.
    fs::create_dir_all(place.path("relative/rescore")).unwrap();
    place.write("relative/rescore/config.toml", text);
    let done = place
        .rescore("config")
        .env("XDG_CONFIG_HOME", "relative")
        .done();
    assert!(says(&shown(&done), "retries = \"4\""));
}

#[test]
fn only_commands_that_take_a_settings_file_look_for_one() {
    let place = Place::new();
    fs::create_dir_all(place.path("xdg/rescore")).unwrap();
    place.write("xdg/rescore/config.toml", "rat = 1\n");
    let run = |args: &[&str], base: &str| {
        let program = place.rescore("").args(args);
        program.env("XDG_CONFIG_HOME", place.path(base)).done()
    };
    run(&["completions", "bash"], "xdg").exits(0);
    let stats = run(&["ledger", "stats", "none.ledger"], "xdg");
    stats.exits(2).says("there is no ledger `none.ledger`");
    run(&["config"], "xdg")
        .exits(2)
        .says("unknown setting `rat`");
    // One that may be there, but cannot be read.
    run(&["config"], "xdg/rescore/config.toml")
        .exits(2)
        .says("cannot read the settings in")
        .says("hint: `--config FILE` names another file");
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_line_column_and_what_was_meant() {
    let line = CommandLine::new();
    for (text, words) in [
        (
            "\nrat = 1\n",
            &[
                "line 2: unknown setting `rat`",
                "similar option exists: '--rate'",
            ][..],
        ),
        (
            "base_url = 'x'\n",
            &[
                "unknown setting `base_url`",
                "similar option exists: '--base-url'",
            ],
        ),
        (
            "xyz = 1\n",
            &[
                "unknown setting `xyz`",
                "`rescore run --help-all` lists all",
            ],
        ),
        ("config = 'x'\n", &["unknown setting `config`"]),
        (
            "rate = '1/s'\n[profile.unused]\nratte = 1\n",
            &[
                "line 3: unknown setting `ratte`",
                "similar option exists: '--rate'",
            ],
        ),
        (
            "[profile.unused]\nAPI_KEY = 'very-secret'\n",
            &["line 2: unknown setting `API_KEY`", "`--api-key-file FILE`"],
        ),
        (
            "[run]\nrate = '1/s'\n",
            &["line 1: expected a text", "[profile.nightly]"],
        ),
        (
            "api-key = 'very-secret'\n",
            &["unknown setting `api-key`", "`--api-key-file FILE`"],
        ),
        (
            "timeout = 'soon'\n",
            &[
                "invalid value 'soon'",
                "`--timeout` comes from `settings.toml`, line 1",
            ],
        ),
        (
            "timeout = ['1s', '2s']\n",
            &[
                "'--timeout <TIME>' cannot be used multiple times",
                "`--timeout` comes from `settings.toml`, line 1",
            ],
        ),
        ("rate = \n", &["`settings.toml`, line 1: "]),
        (
            "fresh = true\nmax-age = '7d'\n",
            &[
                "'--fresh' cannot be used with '--max-age <TIME>'",
                "`--max-age` comes from `settings.toml`, line 2",
            ],
        ),
        (
            "rejects = 'rejects.xlsx'\n",
            &["`--rejects` comes from `settings.toml`, line 1"],
        ),
        (
            "service-id = \"a\\u007fb\"\n",
            &["`--service-id` comes from `settings.toml`, line 1"],
        ),
    ] {
        line.place.write("settings.toml", text);
        let mut program = line.typed("--config settings.toml");
        if text.starts_with("service-id") {
            program = program.without_env("RESCORE_SERVICE_ID");
        }
        let done = program.done();
        done.exits(2).silent_about("very-secret");
        for words in words {
            done.says(words);
        }
        assert_eq!(line.server.connections(), 0);
    }
    fs::remove_file(line.place.path("settings.toml")).unwrap();
    line.refuses_typed(
        "--config settings.toml",
        &["no settings file `settings.toml`"],
    );
    line.refuses_typed(
        "--profile nightly",
        &["no profile `nightly`: there is no settings file"],
    );
}

#[test]
fn no_key_and_no_password_is_shown() {
    let place = Place::new();
    place.write(
        "settings.toml",
        "base-url = 'https://me:hunter2@api.example.com/x'\n",
    );
    let done = place
        .rescore("config --config settings.toml")
        .env("RESCORE_API_KEY", "very-secret")
        .done();
    done.exits(0);
    let text = done.printed();
    assert!(
        !text.contains("hunter2") && !text.contains("very-secret"),
        "{text}"
    );
    assert!(text.contains("base-url = \"https://…\""), "{text}");
    assert!(
        text.contains("# API key: in the variable `RESCORE_API_KEY`"),
        "{text}"
    );
}

#[test]
fn what_is_wrong_with_a_value_is_said_with_its_origin_when_settings_are_shown() {
    let place = Place::new();
    place.write("settings.toml", "\nretries = -1\n");
    place
        .rescore("config --config settings.toml")
        .done()
        .exits(2)
        .says("`--retries` comes from `settings.toml`, line 2");
}
