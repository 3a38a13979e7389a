//! What a check shows: nothing that steers a terminal, and the requests as they are sent.

use crate::support::process::{KEY, Place, clean};
use crate::support::server::Server;
use crate::support::users;

#[test]
fn nothing_from_a_file_steers_the_terminal() {
    let name = "a\u{1b}[2J\u{202e}.csv";
    let place = Place::with(
        name,
        "name\u{1b}]0;x\u{7},email,ip,user_agent\nAnn,a@example.com,::1,curl/8\n",
    );
    for json in [&[][..], &["--json"]] {
        let map = ["--map", "name=name\u{1b}]0;x\u{7}"];
        let done = place.rescore(["check", name]).args(map).args(json).exits(0);
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
    super::command(&place, &server.url(), &run).exits(1);
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
