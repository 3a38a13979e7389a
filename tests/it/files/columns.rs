//! Which column is which field, what exactly is sent, and which further columns can be had.

use serde_json::json;

use crate::support::process::{Done, Place};
use crate::support::server::{Server, good_body, ok};
use crate::support::users::{self, COLUMNS, Verdict};

pub(super) const HEADER: &str = "name,email,ip,user_agent";

/// Scores `csv` with further arguments.
pub(super) fn score<const N: usize>(csv: &str, server: &Server, args: [&str; N]) -> (Place, Done) {
    let place = Place::with("users.csv", csv);
    let done = place.score(server, args);
    (place, done)
}

#[test]
fn a_request_is_exactly_what_the_interface_asks_for() {
    let server = Server::good();
    let csv = "Full Name,E-mail,Phone Number,IP Address,userAgent\n\
        \u{a0} Jane \"J\" Doe ,jane@example.com,0049 (151) 234-56.78,2001:db8::1,\"Mozilla/5.0 (X11; Linux), like\"\n";
    let (_, done) = score(csv, &server, []);
    done.exits(0);
    let request = server.only_request();
    assert_eq!(
        (request.method.as_str(), request.path.as_str()),
        ("POST", "/v1/validate/user")
    );
    assert_eq!(request.header("authorization"), Some("Bearer test-key"));
    assert_eq!(request.header("x-service-id"), Some("test"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert!(
        request
            .header("host")
            .is_some_and(|host| host.starts_with("127.0.0.1:"))
    );
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
}

#[test]
fn what_is_empty_is_absent() {
    let server = Server::good();
    let csv =
        "name,email,phone,ip,user_agent\nA, ,+15550100199,::1,u\nB,b@x.org,\"\u{2003}\",::1,u\n";
    let (_, done) = score(csv, &server, ["-c", "1"]);
    done.exits(0);
    let keys = |i: usize| -> Vec<String> {
        server.requests()[i]
            .json()
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    };
    assert_eq!(
        keys(0),
        ["name", "phone", "ip", "user_agent", "vpn_check", "advanced"]
    );
    assert_eq!(
        keys(1),
        ["name", "email", "ip", "user_agent", "vpn_check", "advanced"]
    );
}

#[test]
fn the_mapping_is_printed_once() {
    let server = Server::good();
    let csv = "Full Name,mail,ip address,UA\nA,a@x.org,::1,u\nB,b@x.org,::1,u\n";
    let (_, done) = score(csv, &server, []);
    done.exits(0)
        .says("name ← `Full Name`, email ← `mail`, phone not sent, ip ← `ip address`");
    done.check(
        done.stderr.matches("Full Name").count() == 1,
        "the mapping once",
    );
}

#[test]
fn a_missing_column_stops_before_the_first_call_with_the_nearest_name() {
    let server = Server::good();
    for (csv, words, hint) in [
        (
            "id,full_name,email,last_login_ip,ua\n",
            "no column for `ip` in `users.csv`",
            "--map ip=last_login_ip",
        ),
        (
            "First Name,Last Name,email,ip,ua\n",
            "no column for `name`",
            "--map 'name={First Name} {Last Name}'",
        ),
        (
            "name,ip,ua,contact\n",
            "no column for `email` or `phone`",
            "--map email=COLUMN",
        ),
        (
            "name,email,ip,browser_ua\n",
            "no column for `user_agent`",
            "--map user_agent=browser_ua",
        ),
        (
            "name,mail,last_ip,browser_ua\n",
            "no column for `ip` and for `user_agent` in `users.csv`",
            "hint: did you mean `--map ip=last_ip --map user_agent=browser_ua`?",
        ),
    ] {
        let (place, done) = score(csv, &server, []);
        done.exits(2).says(words).says("columns: ").says(hint);
        assert_eq!(place.names(), ["users.csv"]);
    }
    let place = Place::with(
        "users.jsonl",
        "{\"name\":\"A\",\"email\":\"a@x.org\",\"last_ip\":\"::1\",\"ua\":\"u\"}\n",
    );
    let done = place.run(&server, "users.jsonl -o scored.jsonl").done();
    done.exits(2)
        .says("no member for `ip` in `users.jsonl`\n  members: name, email, last_ip, ua\n")
        .says("--map ip=last_ip");
    assert_eq!(server.calls(), 0);
}

#[test]
fn columns_are_found_in_the_languages_of_europe() {
    for header in [
        "Kundenname;E-Mail-Adresse;Telefonnummer;IP-Adresse",
        "Nom complet;Adresse e-mail;Numéro de téléphone;Adresse IP",
        "Nombre completo;Correo electrónico;Teléfono;Dirección IP",
        "Nome;Endereço de e-mail;Telemóvel;Endereço IP",
        "Nome e cognome;Posta elettronica;Cellulare;Indirizzo IP",
        "Volledige naam;E-mailadres;Telefoonnummer;IP-adres",
    ] {
        let server = Server::good();
        let csv = format!("{header};User-Agent\nA;a@x.org;+15550100199;::1;u\n");
        let (_, done) = score(&csv, &server, []);
        done.exits(0);
        let sent = server.only_request().json();
        assert_eq!(
            [&sent["name"], &sent["email"], &sent["phone"], &sent["ip"]],
            ["A", "a@x.org", "+15550100199", "::1"]
        );
    }
}

#[test]
fn half_of_a_name_is_never_sent_as_the_whole() {
    for (columns, words, map) in [
        (
            "Vorname,Name",
            "`Name` in `users.csv` may be only the last name",
            "name={Vorname} {Name}",
        ),
        (
            "nom,prénom",
            "`nom` in `users.csv` may be only the last name",
            "name={prénom} {nom}",
        ),
        (
            "Nome,Cognome",
            "may be only the first name, as there is also a column `Cognome`",
            "name={Nome} {Cognome}",
        ),
        (
            "voornaam,achternaam",
            "no column for `name`",
            "name={voornaam} {achternaam}",
        ),
    ] {
        let server = Server::good();
        let csv = format!("{columns},email,ip,ua\nA,B,a@x.org,::1,u\n");
        let (place, done) = score(&csv, &server, []);
        done.exits(2).says(words).says(&format!("`--map '{map}'"));
        assert_eq!(
            (place.names(), server.calls()),
            (vec!["users.csv".to_owned()], 0)
        );
        place.score(&server, ["--map", map]).exits(0);
        let name = server.only_request().json()["name"].clone();
        assert!(name == "A B" || name == "B A", "{name}");
    }
    let server = Server::good();
    let object = r#"{"nom":"B","prenom":"A","email":"a@x.org","ip":"::1","ua":"u"}"#;
    let place = Place::with("users.jsonl", object);
    let done = place.run(&server, "users.jsonl -o x").done();
    done.exits(2).says("`--map 'name={prenom} {nom}'`");
    assert_eq!(server.calls(), 0);
}

#[test]
fn two_columns_for_one_field_are_refused_by_name_and_others_may_repeat() {
    let server = Server::good();
    let (_, done) = score(
        "name,email,E-Mail,ip,ua\nA,a@x.org,b@x.org,::1,u\n",
        &server,
        [],
    );
    done.exits(2)
        .says("`email`")
        .says("`E-Mail`")
        .says("--map email=");
    assert_eq!(server.calls(), 0);
    let csv = "name,email,ip,ua,note,note,,\nA,a@x.org,::1,u,1,2,3,4\n";
    let (place, done) = score(csv, &server, []);
    done.exits(0);
    let cells = Verdict::of("A").cells(',');
    let expected =
        format!("name,email,ip,ua,note,note,,{COLUMNS}\nA,a@x.org,::1,u,1,2,3,4{cells}\n");
    assert_eq!(place.text("scored.csv"), expected);
}

#[test]
fn map_joins_columns_and_set_gives_a_constant() {
    let server = Server::good();
    let csv = "first,last,contact,login_ip\nJane,Doe,j@x.org,::1\n,Solo,s@x.org,::1\n";
    let (_, done) = score(
        csv,
        &server,
        [
            "--map",
            "name={first} {last}",
            "--map",
            "email=contact",
            "--map",
            "ip=login_ip",
            "--set",
            "user_agent=nightly job",
            "-c",
            "1",
        ],
    );
    done.exits(0);
    let sent = |i: usize| server.requests()[i].json();
    assert_eq!(
        (&sent(0)["name"], &sent(0)["email"]),
        (&json!("Jane Doe"), &json!("j@x.org"))
    );
    assert_eq!(
        (&sent(1)["name"], &sent(1)["user_agent"]),
        (&json!("Solo"), &json!("nightly job"))
    );
}

#[test]
fn wrong_maps_are_refused_before_the_first_call() {
    let server = Server::good();
    for (args, words) in [
        (["--map", "ip=nowhere"], "nowhere"),
        (["--map", "age=name"], "unknown field `age`"),
        (["--map", "name={first"], "without a `}`"),
        (["--map", "name"], "--map"),
        (["--set", "shoe=1"], "unknown field `shoe`"),
    ] {
        let (place, done) = score(&users::csv(1), &server, args);
        done.exits(2).says(words);
        assert_eq!(place.names(), ["users.csv"]);
    }
    for (args, words) in [
        (
            ["--map", "ip=ip", "--set", "ip=::1"],
            "`ip` is given in both `--map` and `--set`",
        ),
        (
            ["--map", "name=id", "--map", "name=name"],
            "`name` is given twice in `--map`\n",
        ),
        (
            ["--set", "ip=::1", "--set", "ip=::2"],
            "`ip` is given twice in `--set`\n",
        ),
    ] {
        let (_, done) = score(&users::csv(1), &server, args);
        done.exits(2).says(words);
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn jsonl_members_are_mapped_by_pointer() {
    let server = Server::good();
    let line = r#"{"who":{"first":"Jane","last":"Doe"},"mail":"j@x.org","device":[{"ip":"::1"}],"ua":"u"}"#;
    let place = Place::with("users.jsonl", line);
    let map = [
        "--map",
        "name={/who/first} {/who/last}",
        "--map",
        "ip=/device/0/ip",
    ];
    let program = place.run(&server, "users.jsonl -o scored.jsonl");
    program.args(map).done().exits(0);
    let sent = server.only_request().json();
    assert_eq!(
        (&sent["name"], &sent["ip"]),
        (&json!("Jane Doe"), &json!("::1"))
    );
}

#[test]
fn the_name_of_a_member_ignores_case_where_one_has_it() {
    let server = Server::good();
    let user = |name: &str, ip: &str| {
        format!("{{\"name\":\"{name}\",\"email\":\"a@x.org\",{ip},\"ua\":\"u\"}}\n")
    };
    let lines = [
        user("A", r#""Login_IP":"::1""#),
        user("B", r#""LOGIN_IP":"::9","login_ip":"::2""#),
        user("C", r#""LOGIN_IP":"::9","Login_ip":"::9""#),
    ];
    let place = Place::with("users.jsonl", lines.concat());
    let run = "users.jsonl -o scored.jsonl -c 1 --map ip=login_ip";
    place.run(&server, run).done().exits(1);
    let sent = [0, 1].map(|call: usize| server.requests()[call].json()["ip"].clone());
    assert_eq!(server.calls(), 2);
    assert_eq!(sent, ["::1", "::2"]);
    assert!(place.text("scored.rejects.jsonl").contains("duplicate_key"));
}

#[test]
fn an_invalid_phone_is_dropped_when_asked_and_there_is_an_email() {
    let server = Server::good();
    let csv = "name,email,phone,ip,user_agent\nA,a@x.org,12,::1,u\nB,,12,::1,u\n";
    let (place, done) = score(csv, &server, ["--invalid", "drop"]);
    done.exits(1);
    assert!(server.only_request().json().get("phone").is_none());
    assert!(
        place
            .text("scored.rejects.csv")
            .contains("\n2,invalid_phone,")
    );
}

#[test]
fn further_fields_of_the_answer_are_appended_on_request() {
    let body = |name: &str| {
        good_body(name).replace(
            "\"risk_level\":0",
            r#""risk_level":2,"label":"a,\"b\"","x":"=1+1","n":-1.50"#,
        )
    };
    let server = Server::start(move |request| ok(&body(&request.name())));
    let csv = format!("{HEADER}\nA,a@x.org,::1,u\n");
    let columns = [
        "--column",
        "risk_level=/summary/risk_level",
        "--column",
        "label=/summary/label",
        "--column",
        "x=/summary/x",
        "--column",
        "n=/summary/n",
        "--column",
        "patterns=/risk_patterns",
        "--column",
        "none=/no/where",
    ];
    let (place, done) = score(&csv, &server, columns);
    done.exits(0);
    let cells = Verdict::of("A").cells(',');
    let expected = format!(
        "{HEADER}{COLUMNS},risk_level,label,x,n,patterns,none\nA,a@x.org,::1,u{cells},2,\"a,\"\"b\"\"\",'=1+1,-1.50,[],\n"
    );
    assert_eq!(place.text("scored.csv"), expected);

    for bad in [
        "risk_level",
        "risk_level=summary",
        "=/summary",
        "decision=/summary/x",
    ] {
        let (_, done) = score(&csv, &server, ["--column", bad]);
        done.exits(2).says("--column");
    }
}

#[test]
fn a_pointer_that_no_answer_has_is_warned_of_once() {
    let server = Server::good();
    let columns = [
        "--column",
        "level=/summary/risk_level",
        "--column",
        "typo=/summary/risk_levl",
        "--column",
        "other=/sumary",
    ];
    for (users, none_of) in [
        (250, "none of the first 100 answers has"),
        (100, "none of the first 100 answers has"),
        (7, "none of the first 7 answers has"),
        (1, "the only answer so far does not have"),
    ] {
        for style in ["plain", "json", "off"] {
            let place = Place::with("users.csv", users::csv(users));
            let done = columns
                .iter()
                .fold(place.scoring(&server), |run, arg| run.arg(*arg))
                .args(["--progress", style])
                .done();
            let warning = format!(
                "{none_of} `/summary/risk_levl`, `/sumary`: check the pointer of `--column` or `--decide-by`"
            );
            done.exits(0).says(&warning);
            done.check(done.stderr.matches("warning").count() == 1, "once");
        }
    }
    // If one answer has the member, the pointer is right.
    let rare = Server::start(|request| {
        let body = good_body(&request.name());
        if request.name() == "User 60" {
            return ok(&body.replace("risk_level", "risk_levl"));
        }
        ok(&body)
    });
    let place = Place::with("users.csv", users::csv(150));
    let done = place.score(&rare, "--column typo=/summary/risk_levl");
    done.exits(0).silent_about("warning");
}
