//! Making a ledger on a server, and every way to be refused.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread;

use crate::support::postgres::{PASSWORD, shared};
use crate::support::process::Place;

#[test]
fn a_ledger_is_made_once_with_a_secret_that_nobody_else_may_read() {
    let Some(cluster) = shared() else { return };
    let (database, place) = (cluster.database(), Place::new());
    let url = database.url();
    let init = || place.rescore(["ledger", "init", &url, "--ledger-secret-file", "secret"]);
    init().done().exits(0).prints(&format!(
        "{url}: made the ledger\nits secret is in secret: "
    ));
    let secret = place.text("secret");
    assert_eq!(secret.trim_end().len(), 64);
    let mode = fs::metadata(place.path("secret")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    init()
        .done()
        .exits(0)
        .prints(&format!("{url}: the ledger is there already\n"));
    assert_eq!(place.text("secret"), secret);
    // The secret is not in the database.
    let dump = database.sql("SELECT * FROM rescore.ledger");
    assert!(!dump.contains(secret.trim_end()), "{dump}");
    // Another secret is refused, and so is none.
    place.write("other", "0".repeat(64));
    let with = |file| place.rescore(["ledger", "init", &url, "--ledger-secret-file", file]);
    private(&place.path("other"), 0o644);
    with("other")
        .done()
        .exits(2)
        .says("other users of this machine can read the ledger's secret in `other`");
    private(&place.path("other"), 0o600);
    with("other")
        .done()
        .exits(2)
        .says("was made with another secret");
    with("missing")
        .done()
        .exits(2)
        .says("`missing`, which should have its secret, does not exist");
    assert_eq!(place.names(), ["other", "secret"]);
    let stats = place.rescore(["ledger", "stats", &url]).done();
    stats
        .exits(0)
        .prints(&format!("{url}: ledger version 1, created "))
        .prints("0 answers, ");
}

#[test]
fn a_database_without_a_ledger_names_the_command_that_makes_it() {
    let Some(cluster) = shared() else { return };
    let (database, place) = (cluster.database(), Place::new());
    let url = database.url();
    place
        .rescore(["ledger", "stats", &url])
        .done()
        .exits(2)
        .says(&format!("there is no ledger at `{url}` yet"))
        .says(&format!(
            "`rescore ledger init '{url}' --ledger-secret-file FILE`"
        ));
}

#[test]
fn a_database_or_user_that_does_not_exist_has_a_hint_of_its_own() {
    let Some(cluster) = shared() else { return };
    let (database, place) = (cluster.database(), Place::new());
    let stats = |url: &str| place.rescore(["ledger", "stats", url]).done();
    let url = database.url();
    stats(&url.replace(&database.name, "nonesuch"))
        .exits(2)
        .says("database \"nonesuch\" does not exist")
        .says("check the database in the address")
        .silent_about("password");
    stats(&database.url_of("nobody"))
        .exits(2)
        .says("role \"nobody\" does not exist")
        .says("check the user in the address")
        .silent_about("password");
}

#[test]
fn a_user_who_may_not_connect_to_the_database_has_a_hint_of_its_own() {
    let Some(cluster) = shared() else { return };
    let (database, place) = (cluster.database(), Place::new());
    let (name, user) = (&database.name, format!("u_{}", database.name));
    database.sql(&format!(
        "CREATE ROLE {user} LOGIN; REVOKE CONNECT ON DATABASE {name} FROM PUBLIC"
    ));
    place
        .rescore(["ledger", "stats", &database.url_of(&user)])
        .done()
        .exits(2)
        .says(&format!("permission denied for database \"{name}\""))
        .says(
            "hint: the database's owner lets the user in with `GRANT CONNECT ON DATABASE … TO …`",
        );
}

#[test]
fn a_password_is_never_an_argument_and_never_repeated() {
    let Some(cluster) = shared() else { return };
    let (database, place) = (cluster.database(), Place::new());
    let local = format!("127.0.0.1:{}/{}", cluster.port(), database.name);
    let done = place
        .rescore([
            "ledger",
            "stats",
            &format!("postgresql://ledger:hunter2@{local}"),
        ])
        .done();
    done.exits(2)
        .says("contains a password")
        .says("`--ledger-password-file FILE`");
    assert!(!done.stderr.contains("hunter2"), "{}", done.stderr);
    let url = format!("postgresql://ledger@{local}");
    let init = || place.rescore(["ledger", "init", &url, "--ledger-secret-file", "secret"]);
    // None, a wrong one, and the right one in each of its places.
    init().done().exits(2).says("password").says("`PGPASSWORD`");
    let done = init().env("PGPASSWORD", "hunter2").done();
    done.exits(2).says("password authentication failed");
    assert!(!done.stderr.contains("hunter2"), "{}", done.stderr);
    assert_eq!(
        place.names(),
        [""; 0],
        "no secret of a ledger that was not made"
    );
    init().env("PGPASSWORD", PASSWORD).done().exits(0);
    place.write("password", format!("{PASSWORD}\n"));
    let named = || init().args("--ledger-password-file password");
    private(&place.path("password"), 0o644);
    named()
        .done()
        .exits(2)
        .says("other users of this machine can read the ledger's password in `password`");
    private(&place.path("password"), 0o600);
    named().done().exits(0);
    place.write("pgpass", format!("*:*:*:ledger:{PASSWORD}\n"));
    private(&place.path("pgpass"), 0o600);
    init().env("PGPASSFILE", "pgpass").done().exits(0);
}

/// Sets who may read a file.
pub(super) fn private(file: &Path, mode: u32) {
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn another_machine_is_reached_only_with_a_certificate_that_names_it() {
    let Some(cluster) = crate::support::postgres::own() else {
        return;
    };
    let (database, place) = (cluster.database(), Place::new());
    // It leads to this machine, but does not look so.
    let elsewhere = database.url_at("0.0.0.0", cluster.port());
    let stats = |url: &str| {
        place
            .rescore(["ledger", "stats", url])
            .env("PGPASSWORD", PASSWORD)
            .done()
    };
    stats(&elsewhere).exits(2).says("TLS");
    let certificates = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/tls");
    cluster.encrypt(&certificates.join("good.pem"));
    let authority = certificates.join("authority.pem");
    let authority = authority.display();
    stats(&elsewhere).exits(2).says("invalid peer certificate");
    let named = database.url_at("127.0.0.1", cluster.port());
    stats(&format!("{named}?sslrootcert={authority}"))
        .exits(2)
        .says("there is no ledger at");
    stats(&format!("{elsewhere}?sslrootcert={authority}"))
        .exits(2)
        .says("invalid peer certificate");
    assert_eq!(
        cluster.database().sql("SHOW ssl"),
        "on",
        "the test itself has seen no encryption"
    );
}

#[test]
fn a_server_that_is_away_is_said_to_be() {
    let Some(cluster) = crate::support::postgres::own() else {
        return;
    };
    let (database, place) = (cluster.database(), Place::new());
    cluster.stop_server();
    let url = database.url_at("127.0.0.1", cluster.port());
    place
        .rescore(["ledger", "stats", &url])
        .done()
        .exits(3)
        .says(&format!(
            "cannot open the ledger `{url}`: connection refused"
        ));
}

#[test]
fn an_address_where_something_else_answers_is_said_to_be_no_server() {
    let (place, web) = (Place::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = web.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in web.incoming().flatten() {
            let _ = stream.read(&mut [0; 1_000]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    place
        .rescore([
            "ledger",
            "stats",
            &format!("postgresql://ledger@127.0.0.1:{port}/scoring"),
        ])
        .done()
        .exits(3)
        .says("what answers there is not PostgreSQL, or the connection broke");
}
