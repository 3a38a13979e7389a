//! `--phone-region` and `--phone-region-column`, and values that are left out or filled in.

use std::collections::BTreeMap;

use serde_json::json;

use super::score;
use crate::support::process::Place;
use crate::support::server::{Request, Server};

/// The phone number that the server saw for each name; empty if it saw none.
fn phones(server: &Server) -> BTreeMap<String, String> {
    let phone = |request: &Request| {
        let body = request.json();
        (
            request.name(),
            body["phone"].as_str().unwrap_or_default().to_owned(),
        )
    };
    server.requests().iter().map(phone).collect()
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs
        .map(|(name, phone)| (name.to_owned(), phone.to_owned()))
        .into()
}

/// National numbers of Germany, and what else a file has.
const GERMAN: &str = "name,email,phone,ip,user_agent\n\
    mobile,,0151 23456789,::1,u\n\
    landline,,(030) 123-45.67,::1,u\n\
    zero lost,,15123456789,::1,u\n\
    abroad,,+1 (415) 555-2671,::1,u\n\
    zeros,,0014155552671,::1,u\n\
    short,a@x.org,0151 23,::1,u\n\
    extension,a@x.org,030 1234567 ext. 8,::1,u\n";

#[test]
fn national_numbers_are_sent_in_the_international_form_of_their_region() {
    let server = Server::good();
    let (place, done) = score(GERMAN, &server, "--phone-region de");
    done.exits(1).silent_about("0151");
    let international = pairs([
        ("abroad", "+14155552671"),
        ("landline", "+49301234567"),
        ("mobile", "+4915123456789"),
        ("zero lost", "+4915123456789"),
        ("zeros", "+14155552671"),
    ]);
    assert_eq!(phones(&server), international);
    for (before, after) in GERMAN.lines().zip(place.text("scored.csv").lines()) {
        assert!(after.starts_with(before), "{after}");
    }
    let rejects = place.text("scored.rejects.csv");
    for reject in ["\n6,invalid_phone,line 7: ", "\n7,invalid_phone,line 8: "] {
        assert!(rejects.contains(reject), "{rejects}");
    }

    // Only numbers that cannot be converted are dropped.
    let server = Server::good();
    let (_, done) = score(GERMAN, &server, "--phone-region DE --invalid drop");
    done.exits(0);
    let mut expected = international;
    expected.extend(pairs([("short", ""), ("extension", "")]));
    assert_eq!(phones(&server), expected);
}

/// The same local number in several countries, and how it is sent with `--phone-region DE` besides the rows' own regions.
const NUMBERS: [(&str, &str, &str); 6] = [
    ("a", "AT", "+436641234567"),
    ("b", " at ", "+436641234567"),
    ("c", "GB", ""),
    ("d", "", "+496641234567"),
    // In Germany, this would be the number of somebody else.
    ("e", "Austria", ""),
    ("f", "PL", ""),
];

#[test]
fn each_row_may_name_its_own_region() {
    let sent = NUMBERS.iter().filter(|(_, _, phone)| !phone.is_empty());
    let mut expected: BTreeMap<_, _> = sent
        .map(|(name, _, phone)| ((*name).to_owned(), (*phone).to_owned()))
        .collect();
    let row = |(name, country, _): &(&str, &str, &str)| {
        format!("{name},\"{country}\",0664 1234567,::1,u\n")
    };
    let rows: String = NUMBERS.iter().map(row).collect();
    let csv = format!("name,Country,phone,ip,user_agent\n{rows}");
    let server = Server::good();
    let region = "--phone-region-column country --phone-region DE";
    let (_, done) = score(&csv, &server, region);
    done.exits(1);
    assert_eq!(phones(&server), expected);

    // Without a region for the others, they fail.
    let server = Server::good();
    let (_, done) = score(&csv, &server, "--phone-region-column country");
    done.exits(1);
    assert_eq!(phones(&server).len(), 2);

    let object = |name: &str, at: &str| {
        format!(
            r#"{{"name":"{name}","at":{at},"phone":"0664 1234567","ip":"::1","user_agent":"u"}}"#
        )
    };
    let mut rows: Vec<_> = { NUMBERS.iter() }
        .map(|(name, country, _)| object(name, &json!({"country": country}).to_string()))
        .collect();
    // What is not a string is not a region.
    for (name, at) in [("g", "{\"country\":43}"), ("h", "null"), ("i", "7")] {
        rows.push(object(name, at));
        expected.insert(name.to_owned(), "+496641234567".to_owned());
    }
    let place = Place::with("users.jsonl", rows.join("\n"));
    let server = Server::good();
    let region = "users.jsonl -o x --phone-region-column /at/country --phone-region DE";
    place.run(&server, region).exits(1);
    assert_eq!(phones(&server), expected);
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
    let rows = json!({"read": 4, "sendable": 3, "unsendable": 1, "passed": 0, "dropped": 2, "addresses_shortened": 0, "null_words": 0});
    assert_eq!(checked.json()["rows"], rows);
    let run = place.run(&server, "users.csv -o scored.csv -c 1 --summary s.json");
    run.args(options).exits(1);
    assert_eq!(place.json("s.json")["dropped"], 2);
    let sent = server.requests();
    let fields = |i: usize| {
        let sent = sent[i].json();
        let fields = ["name", "email", "phone", "user_agent"];
        fields.map(|field| sent[field].as_str().unwrap_or("-").to_owned())
    };
    assert_eq!(sent.len(), 3);
    assert_eq!(fields(0), ["Ann", "-", "+15550100199", "unknown"]);
    assert_eq!(fields(1), ["Bob Doe", "b@x.org", "-", "curl/8"]);
    assert_eq!(fields(2), ["Cid Doe", "c@x.org", "-", "curl/8"]);
    let (_, refused) = score(csv, &server, "--set ip=::1 --default ip=::2");
    refused.exits(2);
}

#[test]
fn a_user_is_forgotten_by_a_national_number() {
    let server = Server::good();
    let csv = "name,phone,country,ip,user_agent\nA,0664 1234567,AT,::1,u\nB,030 1234567,,::1,u\n";
    let region = "--phone-region-column country --phone-region DE --ledger l";
    let (place, done) = score(csv, &server, region);
    done.exits(0);
    let forget = |args: &str| {
        let done = place.rescore("ledger forget users.csv").args(args).done();
        done.silent_about("1234567");
        done
    };
    // Another region makes other requests.
    forget("--phone-region CH --ledger l").exits(1);
    forget(region).exits(0).prints("0 left");
}

#[test]
fn a_number_of_json_is_a_phone_number_without_its_plus() {
    let row = |name: &str, phone: &str| {
        format!(
            r#"{{"name":"{name}","email":"a@x.org","phone":{phone},"ip":"::1","user_agent":"u"}}"#
        )
    };
    // The last four are no numbers, or have no digits alone.
    let phones = [
        "2025550123",
        "2025550124.0",
        "12025550125",
        "0.5",
        "1e9",
        "-2025550123",
        "true",
        "{}",
    ];
    let rows: Vec<_> = phones
        .iter()
        .map(|phone| row(phone.trim_matches(['{', '}']), phone))
        .collect();
    let us = pairs([
        ("2025550123", "+12025550123"),
        ("2025550124.0", "+12025550124"),
        ("12025550125", "+12025550125"),
    ]);
    let mut dropped = us.clone();
    dropped.extend(pairs([("0.5", ""), ("1e9", "")]));
    for (args, expected) in [
        ("--phone-region US", us),
        ("--phone-region US --invalid drop", dropped),
        ("--phone-region +", pairs([("12025550125", "+12025550125")])),
        ("", pairs([])),
    ] {
        let (place, server) = (Place::with("users.jsonl", rows.join("\n")), Server::good());
        let run = place.run(&server, "users.jsonl -o scored.jsonl").args(args);
        run.exits(1);
        assert_eq!(self::phones(&server), expected, "{args}");
    }
}
