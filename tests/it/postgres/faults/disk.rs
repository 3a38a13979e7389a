//! A disk of the server that is full: of its tables, whose changes it then refuses, or of its write-ahead log, without which
//! it ends.

use super::several::NOTICED;
use crate::postgres::Setup;
use crate::support::postgres::{Database, own, shared};
use crate::support::server::Server;
use crate::support::small_disk::SmallDisk;

/// So many that the tables need more room.
const ROWS: usize = 600;
/// Rows that are answered before the disk is full.
const BEFORE: usize = 100;

/// Fills the disk in the middle of a run, waits until the run has noticed, and makes room again, as `repair` does.
fn filled_in_the_middle(database: Database<'_>, disk: &SmallDisk, repair: impl FnOnce()) {
    let (server, release) = Server::holding(BEFORE);
    let setup = Setup::over(database, ROWS, server);
    let running = setup.run("scored.csv").start();
    setup.server.wait_for_calls(BEFORE + 8);
    disk.fill();
    drop(release);
    running.wait_for_words(NOTICED);
    repair();
    running.done().exits(0);
    setup.check_all("scored.csv");
}

#[test]
fn with_a_full_disk_of_tables_the_run_goes_on_when_there_is_room() {
    let Some(cluster) = own() else { return };
    let Some(disk) = SmallDisk::mount("64m") else {
        return;
    };
    let database = cluster.database_in(disk.path());
    filled_in_the_middle(database, &disk, || disk.free());
    drop(cluster);
}

#[test]
fn with_a_full_disk_of_the_write_ahead_log_the_run_goes_on_when_the_server_is_back() {
    let Some(cluster) = own() else { return };
    let Some(disk) = SmallDisk::mount("200m") else {
        return;
    };
    let database = cluster.database();
    cluster.move_log_to(disk.path());
    filled_in_the_middle(database, &disk, || {
        // It cannot even recover; it then tries again or ends.
        cluster.wait_for_log("PANIC:  could not write to log file", 2);
        disk.free();
        cluster.start_if_ended();
    });
    drop(cluster);
}

#[test]
fn a_disk_that_stays_full_stops_the_run_and_the_next_one_brings_its_answers_in() {
    let Some(cluster) = own() else { return };
    let Some(disk) = SmallDisk::mount("64m") else {
        return;
    };
    let (server, release) = Server::holding(BEFORE);
    let setup = Setup::over(cluster.database_in(disk.path()), ROWS, server);
    // A page takes a few answers, so that those in flight need another one.
    setup
        .database
        .sql("ALTER TABLE rescore.answers SET (fillfactor = 10)");
    let running = setup.run("scored.csv").args("--max-outage 1s").start();
    setup.server.wait_for_calls(BEFORE + 8);
    disk.fill();
    drop(release);
    running
        .done()
        .exits(3)
        .says("no space left on device")
        .says(" wait in `scored.csv.spill`")
        .says("the same command continues from there");
    disk.free();
    setup
        .run("scored.csv")
        .done()
        .exits(0)
        .says("that an earlier run had kept here while its server was away")
        .silent_about("twice");
    setup.check_all("scored.csv");
    drop(setup);
    drop(cluster);
}

/// What a table says that needs another page.
const NO_ROOM: &str = "
    CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'no room for another page';
    END $$;
    CREATE TRIGGER no_room BEFORE INSERT ON rescore.claims EXECUTE FUNCTION no_room()";

#[test]
fn a_server_with_room_for_answers_and_not_for_claims_is_not_waited_for_without_end() {
    const ROWS: usize = 60;
    let Some(cluster) = shared() else { return };
    let (server, release) = Server::holding(20);
    let setup = Setup::new(cluster, ROWS, server);
    let running = setup.run("scored.csv").args("--max-outage 2s").start();
    setup.server.wait_for_calls(28);
    setup.database.sql(NO_ROOM);
    drop(release);
    running
        .done()
        .exits(3)
        .says("no room for another page")
        .says("the same command continues from there");
    setup.database.sql("DROP FUNCTION no_room CASCADE");
    setup
        .run("scored.csv")
        .done()
        .exits(0)
        .silent_about("twice");
    setup.check_all("scored.csv");
}
