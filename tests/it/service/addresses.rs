//! The service's address and the service id: what is accepted, where it leads, and what of it is shown.

use std::process::Command;

use crate::support::process::{HOSTS, KEY, Place, WITH_HOSTS};
use crate::support::server::{Server, good, status};
use crate::support::users;

#[test]
fn nothing_but_scheme_host_and_path_of_an_address_is_shown() {
    let place = Place::with("users.csv", users::csv(1));
    for (base, why) in [
        (
            "http://api.example.com?api_key=SECRET",
            "the base address contains a query or a fragment",
        ),
        (
            "https://api.example.com?api_key=SECRET",
            "the base address contains a query or a fragment",
        ),
        (
            "https://api.example.com#SECRET",
            "the base address contains a query or a fragment",
        ),
        (
            "http://me:SECRET@api.example.com",
            "the base address contains a user name or password",
        ),
        (
            "https://me:SECRET@api.example.com",
            "the base address contains a user name or password",
        ),
        (
            "ftp://SECRET@api.example.com",
            "the base address contains a user name or password",
        ),
        (
            "secret:8080/SECRET",
            "the base address does not start with `https://`",
        ),
        (
            "file:///SECRET",
            "the base address does not start with `https://`",
        ),
        ("SECRET", "the base address is not a URL"),
        (
            "http://api.example.com/risk",
            "the base address `http://api.example.com/risk` is not HTTPS",
        ),
    ] {
        let done = place.run_at(base).done();
        done.exits(2)
            .says(&format!("error: {why}"))
            .silent_about("SECRET")
            .silent_about("secret");
    }
}

#[test]
fn a_name_below_localhost_is_a_name_as_any_other() {
    let (place, server) = (Place::with("users.csv", users::csv(1)), Server::good());
    for name in ["evil.localhost", "localhost.", "127.0.0.1.example.com"] {
        let done = place
            .run_at(format!("http://{name}:{}", server.port()))
            .done();
        done.exits(2).says("is not HTTPS").says("`--allow-http` ");
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn localhost_is_this_machine_whatever_the_resolver_says() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    place.write("hosts", "192.0.2.1 localhost\n");
    place.write("with-hosts.sh", HOSTS);
    let probe = Command::new("unshare")
        .args(["-rm", "sh", "with-hosts.sh", "getent", "hosts", "localhost"])
        .current_dir(place.path(""))
        .output();
    if !probe.is_ok_and(|probe| probe.stdout.starts_with(b"192.0.2.1 ")) {
        println!("skipped: names of hosts cannot be set here");
        return;
    }
    let url = format!("http://localhost:{}", server.port());
    let program = place.run_at(&url);
    let done = program.args("--retries 0").under(WITH_HOSTS).done();
    done.exits(0);
    assert_eq!(server.calls(), 3);
}

#[test]
fn spaces_around_a_service_id_are_not_sent() {
    let server = Server::good();
    let place = Place::with("users.csv", users::csv(1));
    let url = server.url();
    let args = [
        "run",
        "users.csv",
        "-o",
        "scored.csv",
        "--overwrite",
        "--no-ledger",
        "--base-url",
        &url,
    ];
    let program = || place.rescore(args).env("RESCORE_API_KEY", KEY);
    program()
        .env("RESCORE_SERVICE_ID", "  my app ")
        .done()
        .exits(0);
    program().arg("--service-id").arg(" my app").done().exits(0);
    let ids: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.header("x-service-id").unwrap().to_owned())
        .collect();
    assert_eq!(ids, ["my app", "my app"]);
}

#[test]
fn a_wrong_address_is_put_right_after_a_stop_and_failed_rows_are_not_retried_with_one() {
    let wrong = Server::start(|_| status(422));
    let right = Server::start(|request| match &*request.name() {
        "User 2" => status(422),
        _ => good(request),
    });
    let place = Place::with("users.csv", users::csv(5));
    place.score(&wrong, "-c 1").exits(3);
    place.score(&right, "-c 1").exits(1);
    assert_eq!(right.calls(), 5);
    let done = place.score(&wrong, "-c 1 --retry-failed");
    done.exits(2).says("error: `scored.csv` already exists");
    assert_eq!(wrong.calls(), 3);
    place.score(&right, "-c 1 --retry-failed").exits(1);
    assert_eq!(right.calls(), 6);
}

#[test]
fn a_service_id_that_a_header_may_not_carry_is_refused_and_not_shown() {
    let server = Server::good();
    let place = Place::with("users.csv", users::csv(1));
    let url = server.url();
    let args = ["run", "users.csv", "-o", "scored.csv", "--base-url", &url];
    for id in [
        "my\tapp",
        "my app\n",
        "my\napp",
        "m\u{7f}y",
        "m\u{e9}y",
        "my\u{200b}",
    ] {
        let program = || place.rescore(args).env("RESCORE_API_KEY", KEY);
        for done in [
            program().env("RESCORE_SERVICE_ID", id).done(),
            program().arg("--service-id").arg(id).done(),
        ] {
            done.exits(2)
                .says("error: the service id contains a line break, another control character, or a character that is not ASCII\n")
                .says("hint: check `--service-id` or the variable `RESCORE_SERVICE_ID`")
                .silent_about("my");
        }
    }
    let program = place.rescore(args).env("RESCORE_API_KEY", KEY);
    program
        .env("RESCORE_SERVICE_ID", "  ")
        .done()
        .exits(2)
        .says("no service id");
    assert_eq!(server.connections(), 0);
}
