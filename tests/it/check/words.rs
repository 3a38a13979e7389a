//! What a check says to people, and what keeps it from starting.

use insta::assert_snapshot;

use crate::support::process::{KEY, Place, clean};
use crate::support::server::Server;
use crate::support::users;

fn sample(name: &str) -> Vec<u8> {
    let path = format!("{}/samples/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).unwrap()
}

#[test]
fn the_samples_need_no_setting_and_no_key_and_come_with_what_helps() {
    let place = Place::with("users.csv", sample("users.csv"));
    place.write("messy.csv", sample("messy.csv"));
    let done = place.rescore("check users.csv").done();
    done.exits(0).prints("200 rows: 194 calls to make\n");
    let done = place
        .rescore("check messy.csv")
        .args(["--price", "0.004 EUR"])
        .done();
    done.exits(1);
    assert_snapshot!(done.printed(), @r"
    messy.csv: 39 rows, 11 cannot be sent
      name ← `Full Name`, email ← `E-mail`, phone ← `Phone Number`, ip ← `IP Address`, user_agent ← `User Agent`
      2 ragged: rows 8, 31
      1 text_after_quote: row 26
      1 not_utf8: row 28; may help: `--encoding`
      1 missing_ip: row 10; may help: `--map`
      1 missing_user_agent: row 23; may help: `--map`, `--default`
      1 missing_contact: row 21; may help: `--map`
      1 invalid_ip: row 4
      2 invalid_email: rows 13, 16; may help: `--invalid`
      1 invalid_phone: row 18; may help: `--phone-region`, `--invalid`

    a new ledger, `rescore.ledger`
    39 rows: 28 calls to make (about 0.112 EUR)
      11 cannot be sent
    ");
    assert_eq!(place.names(), ["messy.csv", "users.csv"]);
}

#[test]
fn each_of_several_files_has_a_line_and_one_that_cannot_be_used_stops_no_other() {
    let place = Place::with("a.csv", users::csv(4));
    place.write("b.csv", users::csv(6).replace("email", "E-mail"));
    place.write("c.csv", "a,b\n1,2\n");
    let done = place.rescore("check b.csv a.csv c.csv -q").done();
    done.exits(2)
        .says("error: no column for `name`, for `email` or `phone`");
    assert_snapshot!(done.printed(), @r"
    3 files: 10 rows
      a.csv: 4 rows
        name ← `name`, email ← `email`, phone not sent, ip ← `ip`, user_agent ← `user_agent`
      b.csv: 6 rows
        name ← `name`, email ← `E-mail`, phone not sent, ip ← `ip`, user_agent ← `user_agent`
      c.csv: cannot be used

    a new ledger, `rescore.ledger`
    10 rows: 6 calls to make
      4 repeat another row
    ");
}

#[test]
fn nothing_from_a_file_steers_the_terminal() {
    let name = "a\u{1b}[2J\u{202e}.csv";
    let place = Place::with(
        name,
        "name\u{1b}]0;x\u{7},email,ip,user_agent\nAnn,a@example.com,::1,curl/8\n",
    );
    for json in [&[][..], &["--json"]] {
        let map = ["--map", "name=name\u{1b}]0;x\u{7}"];
        let done = place.rescore(["check", name]).args(map).args(json).done();
        done.exits(0);
        clean("standard output", &done.printed());
        clean("standard error", &done.stderr);
    }
}

#[test]
fn the_first_requests_are_shown_as_the_run_then_sends_them() {
    let place = Place::with("users.csv", users::csv(3) + "4,,,,,\n");
    let server = Server::good();
    let options = [
        "users.csv",
        "--show",
        "2",
        "--vpn-check",
        "--set",
        "user_agent= a\tb ",
    ];
    let shown = super::check(&place, &server.url(), &options);
    let words = [&["check"], &options[..]].concat();
    let done = super::command(&place, &server.url(), &words).done();
    done.prints(&format!("POST {}/v1/validate/user", server.url()));
    done.prints("x-service-id: test").silent_about(KEY);
    let run = ["run", "users.csv", "--vpn-check", "--set", "user_agent=a b"];
    super::command(&place, &server.url(), &run).done().exits(1);
    let requests = shown["requests"].as_array().unwrap();
    for (index, request) in requests.iter().enumerate() {
        let body = request["body"].as_str().unwrap();
        assert_eq!(request["row"], index + 1);
        let sent = server.requests();
        assert!(
            sent.iter().any(|sent| sent.body == body.as_bytes()),
            "{body}"
        );
        done.prints(&format!("row {}: {body}", index + 1));
    }
    assert_eq!(requests.len(), 2);
}
