//! Values that cannot be meant, and settings that do not go together: refused before anything is sent or written.

use crate::support::command_line::CommandLine;

#[test]
fn numbers_out_of_range_are_refused_with_the_range() {
    let line = CommandLine::new();
    for number in ["0", "-1", "1000000000", "10001"] {
        line.refuses_typed(
            ["--concurrency", number],
            &["--concurrency", "from 1 to 10000"],
        );
        line.refuses_typed(["-c", number], &["--concurrency", "from 1 to 10000"]);
    }
    for flag in ["--retries", "--resend-unknown"] {
        for number in ["-1", "101"] {
            line.refuses_typed([flag, number], &[flag, "0..=100"]);
        }
    }
    for text in ["many", "1.5", ""] {
        line.refuses_typed(["-c", text], &["--concurrency", "from 1 to 10000"]);
    }
}

#[test]
fn rates_out_of_range_are_refused_with_the_range() {
    let line = CommandLine::new();
    for rate in ["-1", "-1/s", "NaN", "0", "0/h", "1e9", "inf", "1/h"] {
        line.refuses_typed(
            ["--rate", rate],
            &["--rate", "from 0.001/s to 100000/s", "`unlimited`"],
        );
    }
    for rate in ["50/d", "50 per second", "fast", ""] {
        line.refuses_typed(
            ["--rate", rate],
            &[
                "--rate",
                "`50/s`, `600/m` or `1000/h`, or `auto`, `auto:80%` or `unlimited`",
            ],
        );
    }
}

#[test]
fn times_need_a_unit_and_an_end() {
    let line = CommandLine::new();
    for flag in ["--timeout"] {
        for time in ["30", "0s", "2h", "soon", "1us"] {
            line.refuses_typed([flag, time], &[flag, "from 1ms to 1h", "`30s`"]);
        }
    }
}

#[test]
fn invalid_addresses_are_refused() {
    let line = CommandLine::new();
    for (flag, plan) in [("--base-url", "paid"), ("--free-base-url", "free")] {
        for (address, words) in [
            ("http://example.com", "--allow-http"),
            ("http://192.0.2.1", "--allow-http"),
            ("http://127.0.0.1.example.com", "--allow-http"),
            ("https://example.com?tenant=1", "query"),
            ("https://example.com#top", "fragment"),
            ("file:///etc/passwd", "`https://`"),
            ("ftp://example.com", "`https://`"),
            ("example.com", "address"),
            ("", "address"),
        ] {
            line.refuses_typed(["--plan", plan, flag, address], &[words]);
        }
    }
    // A flag for plain HTTP does not make other schemes right.
    line.refuses_typed("--allow-http --base-url file:///x", &["`https://`"]);
}

#[test]
fn a_typed_address_cannot_be_used_with_the_sandbox() {
    let line = CommandLine::new();
    for flag in ["--base-url", "--free-base-url"] {
        line.refuses_typed(
            ["--sandbox", flag, "https://api.example.com"],
            &[
                &format!("error: `--sandbox` and `{flag}` cannot be used together: with `--sandbox` the built-in stand-in answers, not the service"),
                &format!("hint: leave out `--sandbox` to call the service, or `{flag}` to call the stand-in"),
            ],
        );
    }
}

#[test]
fn a_file_whose_name_says_another_format_is_refused() {
    let line = CommandLine::new();
    let words = |flag: &str, name: &str| {
        format!(
            "error: cannot write CSV to `{flag} {name}`: its extension does not match, as the output has the format of the input\n"
        )
    };
    for name in ["x.xlsx", "x.parquet", "x.jsonl", "x.ndjson.gz"] {
        let program = line
            .place
            .rescore(["run", "users.csv", "--sandbox", "-o", name]);
        let done = program.done();
        done.exits(2)
            .says(&words("--output", name))
            .says("hint: give it a name that ends in `.csv`\n");
        assert_eq!(line.place.names(), ["users.csv"]);
    }
    for flag in ["--rejects", "--changes"] {
        line.refuses_typed([flag, "x.xlsx"], &[&words(flag, "x.xlsx")]);
    }
}

#[test]
fn a_device_cannot_be_a_ledger() {
    CommandLine::new().refuses_typed(
        "--ledger /dev/null",
        &[
            "error: cannot write the ledger `/dev/null`: it is not a regular file\n",
            "`--ledger FILE`, or keep no answers with `--no-ledger`",
        ],
    );
}

#[test]
fn flags_of_the_paid_plan_are_refused_on_the_free_one() {
    let line = CommandLine::new();
    for flag in ["--vpn-check", "--advanced"] {
        let arguments = [
            "--plan",
            "free",
            "--free-base-url",
            &line.server.url(),
            flag,
        ];
        line.refuses_typed(arguments, &[&format!("`{flag}`"), "paid", "`--plan paid`"]);
        // A rehearsal must not accept what the service would refuse.
        line.refuses_typed(["--plan", "free", "--sandbox", flag], &[flag]);
    }
}

#[test]
fn columns_that_are_there_already_are_refused() {
    let line = CommandLine::new();
    let refuses = |columns: &[&str], name: &str| {
        let arguments: Vec<_> = columns
            .iter()
            .flat_map(|column| ["--column", column])
            .collect();
        line.refuses_typed(&arguments, &["--column", &format!("`{name}`")]);
    };
    refuses(&["level=/a", "level=/b"], "level");
    refuses(&["level=/a", "Level=/b"], "Level");
    for name in ["decision", "risk_score", "transaction_id", "Decision"] {
        refuses(&[&format!("{name}=/a")], name);
    }
}

#[test]
fn a_delimiter_is_one_character_and_only_for_csv() {
    let line = CommandLine::new();
    for delimiter in [";;", "ab", "§", ""] {
        line.refuses_typed(
            ["--delimiter", delimiter],
            &["--delimiter", "one ASCII character, or `tab`"],
        );
    }
    line.refuses_typed(["--delimiter", "\""], &["--delimiter", "quote"]);
    line.refuses_typed(
        "--format jsonl --delimiter ;",
        &["`--delimiter`", "`--format jsonl`"],
    );
}
