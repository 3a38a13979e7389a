//! Which column is which field, what exactly is sent, and which further columns can be had.

use serde_json::json;

use super::{HEADER, score};
use crate::support::process::Place;
use crate::support::server::{Request, Server, good_body, ok};
use crate::support::users::{self, COLUMNS, Verdict};

#[test]
fn a_request_is_exactly_what_the_interface_asks_for() {
    let server = Server::good();
    let csv = "Full Name,E-mail,Phone Number,IP Address,userAgent\n\
        \u{a0} Jane \"J\" Doe ,jane@example.com,0049 (151) 234-56.78,2001:db8::1,\"Mozilla/5.0 (X11; Linux), like\"\n\
        No Email, ,+15550100199,::1,u\nNo Phone,b@x.org,\"\u{2003}\",::1,u\n";
    let (_, done) = score(csv, &server, "-c 1");
    done.exits(0);
    let requests = server.requests();
    let request = &requests[0];
    assert_eq!(
        (&*request.method, &*request.path),
        ("POST", "/v1/validate/user")
    );
    for (header, value) in [
        ("authorization", "Bearer test-key"),
        ("x-service-id", "test"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(request.header(header), Some(value));
    }
    let expected = json!({
        "name": "Jane \"J\" Doe",
        "email": "jane@example.com",
        "phone": "+491512345678",
        "ip": "2001:db8::1",
        "user_agent": "Mozilla/5.0 (X11; Linux), like",
        "vpn_check": false,
        "advanced": false,
    });
    assert_eq!(request.json(), expected);
    // What is empty is absent.
    assert!(requests[1].json().get("email").is_none());
    assert!(requests[2].json().get("phone").is_none());
}

#[test]
fn map_joins_columns_and_set_gives_a_constant() {
    let server = Server::good();
    // Columns that are not needed may have the same name, or none.
    let csv = "first,last,contact,login_ip,note,note,,\nJane,Doe,j@x.org,::1,1,2,3,4\n,Solo,s@x.org,::1,1,2,3,4\n";
    let map = ["--map", "name={first} {last}", "--map=email=contact"];
    let run = Place::with("users.csv", csv);
    let run_of = run.scoring(&server).args(map);
    let done = run_of.args(["--map=ip=login_ip", "--set=user_agent=nightly job", "-c1"]);
    done.exits(0);
    let sent = |i: usize| server.requests()[i].json();
    assert_eq!(
        [&sent(0)["name"], &sent(0)["email"]],
        ["Jane Doe", "j@x.org"]
    );
    assert_eq!(
        [&sent(1)["name"], &sent(1)["user_agent"]],
        ["Solo", "nightly job"]
    );
    let (jane, solo) = (
        Verdict::of("Jane Doe").cells(','),
        Verdict::of("Solo").cells(','),
    );
    let expected = format!(
        "first,last,contact,login_ip,note,note,,{COLUMNS}\n\
         Jane,Doe,j@x.org,::1,1,2,3,4{jane}\n,Solo,s@x.org,::1,1,2,3,4{solo}\n"
    );
    assert_eq!(run.text("scored.csv"), expected);
}

#[test]
fn jsonl_members_are_mapped_by_pointer_and_by_name_in_any_case() {
    let server = Server::good();
    let user = |name: &str, ip: &str| {
        format!(
            "{{\"who\":{{\"first\":\"{name}\",\"last\":\"Doe\"}},\"mail\":\"a@x.org\",{ip},\"ua\":[\"u\"]}}\n"
        )
    };
    let lines = [
        user("A", r#""Login_IP":"::1""#),
        user("B", r#""LOGIN_IP":"::9","login_ip":"::2""#),
        user("C", r#""LOGIN_IP":"::9","Login_ip":"::9""#),
    ];
    let place = Place::with("users.jsonl", lines.concat());
    let run = place.run(
        &server,
        "users.jsonl -o scored.jsonl -c 1 --map ip=login_ip",
    );
    let map = [
        "--map",
        "name={/who/first} {/who/last}",
        "--map=user_agent=/ua/0",
    ];
    run.args(map).exits(1);
    let sent: Vec<_> = server.requests().iter().map(Request::json).collect();
    assert_eq!(sent.len(), 2);
    assert_eq!(
        [&sent[0]["name"], &sent[0]["ip"], &sent[0]["user_agent"]],
        ["A Doe", "::1", "u"]
    );
    assert_eq!([&sent[1]["name"], &sent[1]["ip"]], ["B Doe", "::2"]);
    assert!(place.text("scored.rejects.jsonl").contains("duplicate_key"));
}

#[test]
fn further_fields_of_the_answer_are_appended_on_request() {
    let server = Server::start(|request| {
        let further = r#""risk_level":2,"label":"a,\"b\"","x":"=1+1","n":-1.50"#;
        ok(&good_body(&request.name()).replace("\"risk_level\":0", further))
    });
    let csv = format!("{HEADER}\nA,a@x.org,::1,u\n");
    let columns = "--column risk_level=/summary/risk_level --column label=/summary/label \
        --column x=/summary/x --column n=/summary/n --column patterns=/risk_patterns --column none=/no/where";
    let (place, done) = score(&csv, &server, columns);
    done.exits(0);
    let cells = Verdict::of("A").cells(',');
    let expected = format!(
        "{HEADER}{COLUMNS},risk_level,label,x,n,patterns,none\nA,a@x.org,::1,u{cells},2,\"a,\"\"b\"\"\",'=1+1,-1.50,[],\n"
    );
    assert_eq!(place.text("scored.csv"), expected);
}

#[test]
fn a_pointer_that_no_answer_has_is_warned_of_once() {
    // User 60 has what the others have not. With one call at a time, that is one of the first hundred answers.
    let server = Server::start(|request| {
        let body = good_body(&request.name());
        match &*request.name() {
            "User 60" => ok(&body.replace("risk_level", "rare")),
            _ => ok(&body),
        }
    });
    for (users, none_of) in [
        (120, "none of the first 100 answers has"),
        (1, "the only answer so far does not have"),
    ] {
        let columns = "-c 1 --column level=/summary/risk_level --column typo=/summary/risk_levl --column other=/sumary";
        let (_, done) = score(users::csv(users), &server, columns);
        done.exits(0)
            .says(&format!("{none_of} `/summary/risk_levl`, `/sumary`"))
            .says("/status, /summary, /summary/risk_level");
        done.check(done.stderr.matches(none_of).count() == 1, "once");
    }
    let (_, done) = score(users::csv(120), &server, "-c 1 --column rare=/summary/rare");
    done.exits(0).silent_about("check the pointer");
}
