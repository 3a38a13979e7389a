//! Last night's output as tonight's input: its verdicts are replaced.

use super::columns::{HEADER, score};
use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users::{self, COLUMNS, Verdict};

#[test]
fn last_nights_columns_get_tonights_values_in_their_place() {
    let server = Server::good();
    let csv = format!(
        "risk_score,{HEADER},decision,note,transaction_id\r\n\
        9.9,A,a@x.org,::1,u,\"block\",\"n\",t-old\r\n\
        ,B,b@x.org,nowhere,u,,,\r\n\
        3.0,C,c@x.org,nowhere,u,review,,t-old\r\n"
    );
    let (place, done) = score(&csv, &server, []);
    done.exits(1);
    let Verdict {
        id,
        score,
        decision,
    } = Verdict::of("A");
    let expected = format!(
        "risk_score,{HEADER},decision,note,transaction_id\r\n\
        {score},A,a@x.org,::1,u,{decision},\"n\",{id}\r\n\
        ,B,b@x.org,nowhere,u,,,\r\n\
        ,C,c@x.org,nowhere,u,,,\r\n"
    );
    assert_eq!(place.text("scored.csv"), expected);
    // The rejects have the row as it came, so that it can be fixed and run again.
    assert!(
        place
            .text("scored.rejects.csv")
            .contains(",3.0,C,c@x.org,nowhere,u,review,,t-old\r\n")
    );
}

#[test]
fn a_second_run_over_the_output_gives_the_same_bytes() {
    let server = Server::good();
    let (place, done) = score(&users::csv(20), &server, []);
    done.exits(0);
    place
        .run(&server, "scored.csv -o again.csv")
        .done()
        .exits(0);
    assert_eq!(place.text("again.csv"), place.text("scored.csv"));

    let lines: String = (1..=20)
        .map(|i| format!("{}\n", users::object(&format!("User {i}"))))
        .collect();
    place.write("users.jsonl", lines);
    place
        .run(&server, "users.jsonl -o one.jsonl")
        .done()
        .exits(0);
    place.run(&server, "one.jsonl -o two.jsonl").done().exits(0);
    assert_eq!(place.text("two.jsonl"), place.text("one.jsonl"));
}

#[test]
fn a_row_that_fails_never_keeps_last_nights_verdict() {
    let server = Server::good();
    let csv = format!(
        "{HEADER}{COLUMNS}\n\"A\"x,a@x.org,::1,u,t-old,1.0,approve\nB,b@x.org,::1,u,t-old,1.0,approve\n"
    );
    let (place, done) = score(&csv, &server, []);
    done.exits(1);
    let cells = Verdict::of("B").cells(',');
    let expected = format!("{HEADER}{COLUMNS}\n\"A\"x,a@x.org,::1,u,,,\nB,b@x.org,::1,u{cells}\n");
    assert_eq!(place.text("scored.csv"), expected);
}

#[test]
fn an_object_that_fails_never_keeps_last_nights_verdict() {
    let server = Server::good();
    let old = r#""transaction_id":"t-old","risk_score":1.0,"decision":"approve""#;
    let new = r#""transaction_id":null,"risk_score":null,"decision":null"#;
    for start in [
        r#"{"name":"A","name":"B","email":"a@x.org","ip":"::1","user_agent":"u","#,
        r#"{"name":"A","email":"a@x.org","ip":"nowhere","user_agent":"u","#,
        r#"{"name":true,"email":"a@x.org","ip":"::1","user_agent":"u","#,
    ] {
        let place = Place::with("users.jsonl", format!("{start}{old}}}\n"));
        place
            .run(&server, "users.jsonl -o scored.jsonl")
            .done()
            .exits(1);
        assert_eq!(place.text("scored.jsonl"), format!("{start}{new}}}\n"));
    }
}
