//! Files that are not what they seem: found before the first call, and named with what to do about it. No message shows
//! a user's data.

use std::fs::File;
use std::io::Write;

use super::{HEADER, score};
use crate::support::process::{Arguments, Done, Place, Program};
use crate::support::server::Server;
use crate::support::users::{self, COLUMNS, Verdict};

/// Runs a file that must be refused: no file may be left, and no call may be made.
fn refused<K>(name: &str, content: impl AsRef<[u8]>, args: impl Arguments<K>) -> Done {
    let (place, server) = (Place::with(name, content), Server::good());
    let args = args.list();
    let run = |program: Program<'_>| {
        let done = program.args(&args).exits(2);
        done.check(server.calls() == 0, "no call");
        done
    };
    let done = run(place.run(&server, [name, "-o", "scored.out"]));
    done.check(place.names() == [name], "the input alone");
    // The same down a pipe.
    let file = File::open(place.path(name)).unwrap();
    run(place.run(&server, "-o scored.out").stdin_from(file));
    done
}

#[test]
fn wrong_bytes_after_the_first_mib_or_in_a_file_that_is_utf_8_fail_only_their_row() {
    let server = Server::good();
    let wrong = b"J\xfcrgen,j@x.org,::1,u\n";
    let far = "\n".repeat(1 << 20);
    let right = "J\u{fc}rgen,j@x.org,::1,u\nJos\u{e9},j@x.org,::1,u\n";
    // Also where the wrong one comes first.
    for (before, after, row) in [(&*far, "", 1), (right, "", 3), ("", right, 1)] {
        let start = format!("{HEADER}\n{before}");
        let csv = [start.as_bytes(), wrong, after.as_bytes()].concat();
        let (place, done) = score(csv, &server, "");
        done.exits(1);
        let rejects = place.read("scored.rejects.csv");
        let rejects = String::from_utf8_lossy(&rejects);
        assert!(rejects.contains(&format!("\n{row},not_utf8,")), "{rejects}");
    }
    assert_eq!(server.calls(), 4);
}

#[test]
fn excels_first_line_names_the_delimiter_and_stays() {
    let server = Server::good();
    for (line, delimiter, rejects) in [
        ("\u{feff}sep=;\r\n", ';', "scored.rejects.csv"),
        ("\"sep=~\"\n", '~', "scored.rejects.csv"),
        ("sep=\t\r", '\t', "scored.rejects.tsv"),
    ] {
        let file = |rows: &str| rows.replace(',', &delimiter.to_string());
        let csv = file(&format!("{HEADER}\nA,a@x.org,::1,u\nB,,::1,u\n"));
        let (place, done) = score(format!("{line}{csv}"), &server, "");
        done.exits(1);
        let cells = Verdict::of("A").cells(',');
        let scored = format!("{HEADER}{COLUMNS}\nA,a@x.org,::1,u{cells}\nB,,::1,u,,,\n");
        assert_eq!(place.text("scored.csv"), format!("{line}{}", file(&scored)));
        // The rejects are for Excel, too, and count lines as the input does.
        let rejects = place.text(rejects);
        let head = format!("{line}{}", file("reject_row,reject_reason,"));
        assert!(rejects.starts_with(&head), "{rejects}");
        assert!(rejects.contains("line 4: "), "{rejects}");
    }
}

#[test]
fn columns_in_messages_are_few_and_short() {
    let long = "x".repeat(60);
    let names: Vec<_> = (1..=30).map(|i| format!("{long}\u{1b}{i}")).collect();
    let csv = format!("c\u{1b}[2J,email,phone,{}\n", names.join(","));
    let done = refused("users.csv", csv, "");
    done.says("columns: c\\u{1b}[2J, email, phone, x")
        .says(" … and 13 more");
    done.silent_about(&"x".repeat(41));
    // The name of a column that is used is cut as well.
    let csv = format!("name,email,ip{long},ua\nA,a@x.org,::1,u\n");
    let (_, done) = score(csv, &Server::good(), ["--map", &format!("ip=ip{long}")]);
    done.exits(0)
        .says("ip ← `ipxxx")
        .silent_about(&"x".repeat(41));
}

#[test]
fn a_file_whose_first_hundred_rows_all_fail_for_one_reason_is_refused() {
    let bad = |rows: usize| users::csv(rows).replace("192.0.2.", "host-");
    let done = refused("users.csv", bad(100), "");
    done.says("`--keep-going`").silent_about("host-1");
    // No advice that is followed already.
    let phones = users::csv(100).replacen("email", "phone", 1);
    for (region, is_advised) in [("", true), ("--phone-region DE", false)] {
        let done = refused("users.csv", &phones, region);
        done.says("`invalid_phone`").says("--invalid drop");
        assert_eq!(
            done.stderr.contains("as in `--phone-region DE`"),
            is_advised
        );
    }

    // A single row that can be sent shows that the columns are right.
    let server = Server::good();
    let good = users::csv(1);
    let (header, good) = good.split_once('\n').unwrap();
    let one_good = bad(120).replacen(header, &format!("{header}\n{}", good.trim_end()), 1);
    for (csv, args, failed) in [
        (bad(99), "", "failed 99"),
        (one_good, "", "failed 120"),
        (bad(120), "--keep-going", "failed 120"),
    ] {
        score(csv, &server, args).1.exits(1).says(failed);
    }
    assert_eq!(server.calls(), 1);
}

#[test]
fn a_pipe_is_judged_before_the_first_call_by_what_has_come() {
    // As much of a file as is looked at.
    let (place, server) = (Place::new(), Server::good());
    let far = [
        users::csv(10_000).as_bytes(),
        b"9,J\xfcrgen,j@x.org,::1,u\n",
    ]
    .concat();
    assert!(far.len() > 1 << 19);
    place.run(&server, "-o scored.csv").stdin(far).exits(2);
    assert!(place.names().is_empty());

    // Rows as they come, without waiting for the end.
    let (reader, mut producer) = std::io::pipe().unwrap();
    let run = place.run(&server, "-o scored.csv --format csv");
    let running = run.stdin_from(reader).start();
    let bad = users::csv(100).replace("192.0.2.", "host-");
    let (first, rest) = bad.split_at(bad.len() / 2);
    producer.write_all(first.as_bytes()).unwrap();
    running.wait_for_file("scored.csv.partial", |partial| partial.ends_with(b",,,\n"));
    producer.write_all(rest.as_bytes()).unwrap();
    running
        .exits(2)
        .says("the first 100 rows of standard input");
    drop(producer);
    assert_eq!(server.calls(), 0);
}

#[test]
fn without_a_header_columns_are_named_by_number_and_no_row_is_lost() {
    let server = Server::good();
    let csv = "u,A,a@x.org,::1\n\"v,w\",B,b@x.org,::1\nu,C,c@x.org,nowhere\nu,D\n";
    let numbers = "--no-header --map name=2 --map email=3 --map ip=4 --map user_agent=1 -c 1";
    let (place, done) = score(csv, &server, numbers);
    done.exits(1);
    let (a, b) = (Verdict::of("A").cells(','), Verdict::of("B").cells(','));
    let expected =
        format!("u,A,a@x.org,::1{a}\n\"v,w\",B,b@x.org,::1{b}\nu,C,c@x.org,nowhere,,,\nu,D,,,\n");
    assert_eq!(place.text("scored.csv"), expected);
    let rejects = place.text("scored.rejects.csv");
    assert!(rejects.starts_with("3,invalid_ip,line 3: "), "{rejects}");
    assert!(rejects.contains("\n4,ragged,line 4: "), "{rejects}");
    assert_eq!(server.requests()[1].json()["user_agent"], "v,w");
}
