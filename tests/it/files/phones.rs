//! `--phone-region` and `--phone-region-column`: which national numbers are sent, and how.

use std::collections::BTreeMap;

use super::columns::score;
use crate::support::process::Place;
use crate::support::server::{Request, Server};
use crate::support::users::Verdict;

/// The phone number that the server saw for each name; empty if it saw none.
fn phones(server: &Server) -> BTreeMap<String, String> {
    let requests = server.requests();
    let phone = |body: &serde_json::Value| body["phone"].as_str().unwrap_or_default().to_owned();
    requests
        .iter()
        .map(|request| (request.name(), phone(&request.json())))
        .collect()
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs
        .map(|(name, phone)| (name.to_owned(), phone.to_owned()))
        .into()
}

/// National numbers of Germany, and what else a file has.
const GERMAN: &str = "name,email,phone,ip,user_agent\n\
    mobile,,0151 23456789,::1,u\n\
    landline,,\"(030) 123-45,67\",::1,u\n\
    slash,,030/1234567,::1,u\n\
    zero lost,,15123456789,::1,u\n\
    abroad,,+1 (415) 555-2671,::1,u\n\
    zeros,,0014155552671,::1,u\n\
    short,a@x.org,0151 23,::1,u\n\
    extension,a@x.org,030 1234567 ext. 8,::1,u\n\
    ragged,a@x.org,030 1234567,::1\n";

#[test]
fn national_numbers_are_sent_in_the_international_form_of_their_region() {
    let server = Server::good();
    let csv = GERMAN.replace("123-45,67", "123-45.67");
    let (place, done) = score(&csv, &server, ["--phone-region", "de"]);
    done.exits(1);
    let international = [
        ("abroad", "+14155552671"),
        ("landline", "+49301234567"),
        ("mobile", "+4915123456789"),
        ("slash", "+49301234567"),
        ("zero lost", "+4915123456789"),
        ("zeros", "+14155552671"),
    ];
    assert_eq!(phones(&server), pairs(international));
    // Every row's own bytes are as they were.
    let scored = place.text("scored.csv");
    for (before, after) in csv.lines().zip(scored.lines()) {
        assert!(after.starts_with(before), "{after}");
    }
    let rejects = place.text("scored.rejects.csv");
    for reject in [
        "7,invalid_phone,line 8: phone is neither international nor a valid number in DE,short,",
        "8,invalid_phone,line 9: phone `030 1234567 ext. 8` is not + and 7 to 15 digits,extension,",
        "9,ragged,",
    ] {
        assert!(rejects.contains(reject), "{rejects}");
    }
    done.silent_about("0151");
}

#[test]
fn without_a_region_only_international_numbers_are_sent_and_the_rest_may_be_dropped() {
    let server = Server::good();
    let csv = GERMAN.replace("123-45,67", "123-45.67");
    let (place, done) = score(&csv, &server, []);
    done.exits(1);
    let all = [("abroad", "+14155552671"), ("zeros", "+14155552671")];
    assert_eq!(phones(&server), pairs(all));
    drop(place);

    // Dropped are only those that cannot be converted.
    let server = Server::good();
    let args = ["--phone-region", "DE", "--invalid", "drop"];
    let (_, done) = score(&csv, &server, args);
    done.exits(1);
    let seen = phones(&server);
    assert_eq!(seen["short"], "");
    assert_eq!(seen["extension"], "");
    assert_eq!(seen["mobile"], "+4915123456789");
}

/// The same local number in several countries.
const NUMBERS: [(&str, &str, &str); 6] = [
    ("a", "AT", "+436641234567"),
    ("b", " at ", "+436641234567"),
    ("c", "GB", ""),
    ("d", "", "+496641234567"),
    // In Germany, this would be the number of somebody else.
    ("e", "Austria", ""),
    ("f", "PL", ""),
];

/// What the server must have seen with `--phone-region DE` besides the rows' own regions.
fn expected() -> BTreeMap<String, String> {
    let sent = NUMBERS.iter().filter(|(_, _, phone)| !phone.is_empty());
    sent.map(|(name, _, phone)| ((*name).to_owned(), (*phone).to_owned()))
        .collect()
}

#[test]
fn each_row_may_name_its_own_region_in_csv() {
    let server = Server::good();
    let row = |(name, country, _): &(&str, &str, &str)| {
        format!("{name},\"{country}\",0664 1234567,::1,u\n")
    };
    let rows: String = NUMBERS.iter().map(row).collect();
    let csv = format!("name,Country,phone,ip,user_agent\n{rows}");
    let region = ["--phone-region-column", "country", "--phone-region", "DE"];
    let (_, done) = score(&csv, &server, region);
    done.exits(1).says("phone region ← `country`");
    assert_eq!(phones(&server), expected());

    // Without a region for the others, they fail.
    let server = Server::good();
    let (place, done) = score(&csv, &server, ["--phone-region-column", "country"]);
    done.exits(1);
    assert_eq!(phones(&server).len(), 2);
    let rejects = place.text("scored.rejects.csv");
    let unknown = "5,invalid_phone,\"line 6: phone is not international, and the row names no region that is known\",";
    assert!(rejects.contains(unknown), "{rejects}");
}

#[test]
fn each_row_may_name_its_own_region_in_jsonl() {
    let row = |(name, country, _): &(&str, &str, &str)| {
        format!(
            r#"{{"name":"{name}","at":{{"country":"{country}"}},"phone":"0664 1234567","ip":"::1","user_agent":"u"}}"#
        )
    };
    let mut rows: Vec<_> = NUMBERS.iter().map(row).collect();
    // What is not a string is not a region.
    for (name, at) in [("g", "{\"country\":43}"), ("h", "null"), ("i", "7")] {
        rows.push(format!(
            r#"{{"name":"{name}","at":{at},"phone":"0664 1234567","ip":"::1","user_agent":"u"}}"#
        ));
    }
    let place = Place::with("users.jsonl", rows.join("\n"));
    let server = Server::good();
    let region = "--phone-region-column /at/country --phone-region DE";
    let program = place.run(&server, "users.jsonl -o scored.jsonl");
    program.args(region).done().exits(1);
    let mut expected = expected();
    for name in ["g", "h", "i"] {
        expected.insert(name.to_owned(), "+496641234567".to_owned());
    }
    assert_eq!(phones(&server), expected);
}

#[test]
fn a_missing_column_and_an_unknown_region_are_refused_with_what_may_be_meant() {
    let server = Server::good();
    let csv = "name,phone,country,ip,user_agent\nA,030 1234567,DE,::1,u\n";
    for (args, words) in [
        (
            ["--phone-region-column", "contry"],
            "error: no column `contry` for `--phone-region-column` in `users.csv`\n  \
             columns: name, phone, country, ip, user_agent\n\n\
             hint: did you mean `--phone-region-column 'country'`?",
        ),
        (
            ["--phone-region-column", "lang"],
            "hint: name the column with the codes of countries, or give the same for all rows, as in `--phone-region DE`",
        ),
        (
            ["--phone-region", "Germany"],
            "expected the ISO 3166 code of a country, such as `DE`, `GB` or `US`",
        ),
    ] {
        let (_, done) = score(csv, &server, args);
        done.exits(2).says(words);
    }
    assert_eq!(server.calls(), 0);
    // All that is missing is named together.
    let (_, done) = score(
        "name,phone,country,user_agent\nA,1,DE,u\n",
        &server,
        ["--phone-region-column", "contry"],
    );
    done.exits(2)
        .says("no column `contry` for `--phone-region-column` and none for `ip` in `users.csv`");
}

#[test]
fn a_file_of_national_numbers_is_refused_with_the_option_that_reads_them() {
    let server = Server::good();
    let rows: String = (0..120)
        .map(|row| format!("User {row},0151 234567{:02},::1,u\n", row % 100))
        .collect();
    let (_, done) = score(&format!("name,phone,ip,user_agent\n{rows}"), &server, []);
    done.exits(2).says("`--phone-region DE`");
    assert_eq!(server.calls(), 0);
}

#[test]
fn rows_that_failed_for_their_numbers_are_sent_once_a_region_is_given() {
    let server = Server::good();
    let csv = "name,phone,ip,user_agent\nA,+4915123456780,::1,u\nB,0151 23456789,::1,u\n";
    let (place, done) = score(csv, &server, []);
    done.exits(1);
    let again = place.run(
        &server,
        "users.csv -o scored.csv --phone-region DE --retry-failed",
    );
    again.done().exits(0);
    assert_eq!(server.calls(), 2);
    let [a, b] = ["A", "B"].map(|name| Verdict::of(name).cells(','));
    assert_eq!(
        place.text("scored.csv"),
        format!(
            "name,phone,ip,user_agent,transaction_id,risk_score,decision\n\
             A,+4915123456780,::1,u{a}\nB,0151 23456789,::1,u{b}\n"
        )
    );
}

#[test]
fn a_user_is_forgotten_by_a_national_number() {
    let server = Server::good();
    let csv = "name,phone,country,ip,user_agent\nA,0664 1234567,AT,::1,u\nB,030 1234567,,::1,u\nC,0664 1234568,at,::1,u\n";
    let place = Place::with("users.csv", csv);
    let region = ["--phone-region-column", "country", "--phone-region", "DE"];
    let run = place.scoring(&server);
    run.args(region).args("--ledger l").done().exits(0);
    let forget = |args: &[&str]| {
        let program = place.rescore("ledger forget users.csv --ledger l");
        let program = program.args(args);
        let done = program.done();
        done.silent_about("1234567").silent_about("1234568");
        done
    };
    // Another region makes other requests.
    forget(&["--phone-region", "CH"]).exits(1);
    forget(&region).exits(0).prints("0 left");
}

#[test]
fn what_is_dropped_is_counted_and_what_is_empty_is_filled() {
    let csv = "first,last,email,phone,ip,user_agent\n\
        Ann,NULL,nobody,+15550100199,::1,n/a\n\
        Bob,Doe,b@x.org,12,::1,curl/8\n\
        Cid,Doe,c@x.org,NULL,::1,curl/8\n\
        Dan,Doe,nobody,12,::1,curl/8\n";
    let options = [
        "--map",
        "name={first} {last}",
        "--null=NULL",
        "--null=n/a",
        "--default=user_agent=unknown",
        "--invalid=drop",
        "--keep-going",
    ];
    let (place, server) = (Place::with("users.csv", csv), Server::good());
    let checked = place.rescore("check users.csv --json").args(options).done();
    let rows = serde_json::json!({"read": 4, "sendable": 3, "unsendable": 1, "dropped": 2});
    assert_eq!(checked.json()["rows"], rows);
    let run = place.run(&server, "users.csv -o scored.csv -c 1 --summary s.json");
    run.args(options)
        .done()
        .exits(1)
        .says("2 rows sent without an invalid phone number or email address");
    assert_eq!(place.json("s.json")["dropped"], 2);
    let sent: Vec<_> = server.requests().iter().map(Request::json).collect();
    let user = |name: &str, contact: (&str, &str), agent: &str| {
        let mut user = serde_json::json!({"name": name, "ip": "::1", "user_agent": agent});
        user[contact.0] = contact.1.into();
        user
    };
    assert_eq!(sent.len(), 3);
    let expected = [
        user("Ann", ("phone", "+15550100199"), "unknown"),
        user("Bob Doe", ("email", "b@x.org"), "curl/8"),
        user("Cid Doe", ("email", "c@x.org"), "curl/8"),
    ];
    for (sent, expected) in sent.iter().zip(expected) {
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&sent[field], value, "{sent}");
        }
        assert!(
            sent.get("phone").is_none() || sent.get("email").is_none(),
            "{sent}"
        );
    }
    let both = ["--set", "ip=::1", "--default", "ip=::2"];
    let refused = place.run(&server, "users.csv -o x.csv").args(both).done();
    refused.exits(2).says("in both `--set` and `--default`");
}
