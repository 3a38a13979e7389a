//! Rows of CSV: every byte comes back, and an invalid row affects no other row.

use crate::support::process::{Done, Place};
use crate::support::server::Server;
use crate::support::users::{self, COLUMNS, Verdict};

/// Scores `csv`; the output and the reject file, where there is one.
fn score(csv: &[u8], server: &Server, code: i32) -> (Vec<u8>, Option<String>, Done) {
    let place = Place::with("users.csv", csv);
    let done = place.score(server, "");
    done.exits(code);
    let rejects = "scored.rejects.csv";
    let rejects = place
        .names()
        .iter()
        .any(|name| name == rejects)
        .then(|| String::from_utf8_lossy(&place.read(rejects)).into_owned());
    (place.read("scored.csv"), rejects, done)
}

/// `output` without our columns: the user's own cells, in order, each exactly once.
fn without_columns(output: &[u8], names: &[&str]) -> Vec<u8> {
    let mut text = output.to_vec();
    let mut from = 0;
    let cells = names.iter().map(|name| Verdict::of(name).cells(','));
    for cells in std::iter::once(COLUMNS.to_owned()).chain(cells) {
        let found = text[from..]
            .windows(cells.len())
            .position(|window| window == cells.as_bytes());
        let Some(at) = found else {
            panic!(
                "no `{cells}` in the rest of {}",
                String::from_utf8_lossy(output)
            )
        };
        text.drain(from + at..from + at + cells.len());
        from += at;
    }
    text
}

#[test]
fn dropping_our_columns_gives_back_the_input_byte_for_byte() {
    let server = Server::good();
    for csv in [
        "name,email,ip,user_agent\nA,a@x.org,::1,u\nB,b@x.org,::1,u\n",
        "name,email,ip,user_agent\r\nA,a@x.org,::1,u\r\nB,b@x.org,::1,u\r\n",
        "name,email,ip,user_agent\rA,a@x.org,::1,u\rB,b@x.org,::1,u\r",
        // Every line keeps its own end, and the last one has none.
        "name,email,ip,user_agent\r\nA,a@x.org,::1,u\rB,b@x.org,::1,u",
        "name,email,ip,user_agent\nA,a@x.org,::1,u\r\n\rB,b@x.org,::1,u\r",
        // Blank lines, also before the header and after the last row.
        "\n\r\nname,email,ip,user_agent\n\n\nA,a@x.org,::1,u\r\n\r\n\nB,b@x.org,::1,u\n\n\r\n",
        "\u{feff}name,email,ip,user_agent\r\nA,a@x.org,::1,u\r\nB,b@x.org,::1,u\r\n",
        // Quotes where none are needed, padding, doubled quotes, delimiters and line ends in cells.
        "\"name\",email,\"ip\",user_agent,note\nA, a@x.org ,\" ::1\",u,\"a\r\nb\n\"\"c\"\", d\re\"\n\"B\",b@x.org,::1,u,\"\"\n",
        // Ids and numbers that a reader of numbers would change; more than 2^53.
        "id,name,email,phone,ip,user_agent,n\n007,A,a@x.org,+4915112345678,::1,u,1e5\n-0,B,b@x.org,+15550100199,::1,u,90071992547409931.10\n",
        // A name in more scripts than one, a formula, and what looks like our own columns.
        "name,email,ip,user_agent,Größe,score\nA,a@x.org,::1,u,\u{202e}日本語,=1+1\nB,b@x.org,::1,u,🙂,2.5\n",
    ] {
        let (output, rejects, done) = score(csv.as_bytes(), &server, 0);
        done.check(rejects.is_none(), "no rejects");
        let back = without_columns(&output, &["A", "B"]);
        assert_eq!(String::from_utf8(back).unwrap(), csv);
    }
}

#[test]
fn any_bytes_pass_through_columns_that_are_not_sent() {
    let server = Server::good();
    let csv =
        b"\xef\xbb\xbfname,email,ip,user_agent,\xff\nA,a@x.org,::1,u,\xfe\x80\nB,b@x.org,::1,u,\xc3\n";
    let (output, rejects, _) = score(csv, &server, 0);
    assert_eq!(without_columns(&output, &["A", "B"]), csv);
    assert_eq!(rejects, None);
}

#[test]
fn many_rows_stay_in_order_through_many_blocks() {
    let (csv, server) = (users::csv(5_000), Server::good());
    let (output, _, _) = score(csv.as_bytes(), &server, 0);
    assert!(output == users::scored(&csv).as_bytes());
    assert_eq!(server.calls(), 5_000);
}

#[test]
fn an_invalid_row_gets_empty_cells_and_is_in_the_rejects_as_it_was() {
    let server = Server::good();
    let csv = "\u{feff}name,email,ip,user_agent\r\n\
        A,a@x.org,::1,u\r\n\
        \r\n\
        B\r\n\
        C,c@x.org,::1,u,extra\r\n\
        \"D\"x,d@x.org,::1,u\r\n\
        E,e@x.org,::1,u";
    let (output, rejects, done) = score(csv.as_bytes(), &server, 1);
    let (a, e) = (Verdict::of("A").cells(','), Verdict::of("E").cells(','));
    let expected = format!(
        "\u{feff}name,email,ip,user_agent{COLUMNS}\r\n\
        A,a@x.org,::1,u{a}\r\n\
        \r\n\
        B,,,\r\n\
        C,c@x.org,::1,u,extra,,,\r\n\
        \"D\"x,d@x.org,::1,u,,,\r\n\
        E,e@x.org,::1,u{e}"
    );
    assert_eq!(String::from_utf8(output).unwrap(), expected);
    let expected = "\u{feff}reject_row,reject_reason,reject_message,name,email,ip,user_agent\r\n\
        2,ragged,line 4: 1 cell where the header has 4,B\r\n\
        3,ragged,line 5: 5 cells where the header has 4,C,c@x.org,::1,u,extra\r\n\
        4,text_after_quote,line 6: text after a closing quote,\"D\"x,d@x.org,::1,u\r\n";
    assert_eq!(rejects.as_deref(), Some(expected));
    done.check(server.calls() == 2, "wrong rows cost no call");
}

#[test]
fn a_row_that_a_quote_has_made_of_many_lines_is_named_with_the_first_and_the_last() {
    let server = Server::good();
    let csv = "name,email,ip,user_agent\r\n\"A\r\nB\",a@x.org,::1,u\r\n\r\n\
        \"C,c@x.org,::1,u\r\nD,d@x.org,::1,u\r\n\"E\",e@x.org,::1,u";
    for end in ["", "\r\n"] {
        let (_, rejects, _) = score(format!("{csv}{end}").as_bytes(), &server, 1);
        let rejects = rejects.unwrap();
        let words = ",lines 5 to 7: text after a closing quote,";
        assert!(rejects.contains(words), "{rejects}");
    }
}

#[test]
fn each_broken_rule_has_its_reason_word_and_costs_no_call() {
    let server = Server::good();
    let rows: [(&[u8], &str); 15] = [
        (b" \t,a@x.org,,::1,u", "missing_name"),
        (b"A,a@x.org,,,u", "missing_ip"),
        (b"A,a@x.org,,::1,\"\"", "missing_user_agent"),
        (b"A,,,::1,u", "missing_contact"),
        (b"A,a@x.org,,300.1.1.1,u", "invalid_ip"),
        (b"A,a@x.org,,::1::,u", "invalid_ip"),
        (b"A,ax.org,,::1,u", "invalid_email"),
        (b"A,a@b@x.org,,::1,u", "invalid_email"),
        (b"A,a b@x.org,,::1,u", "invalid_email"),
        (b"A,a@x.org,0151 234567,::1,u", "invalid_phone"),
        (b"A,a@x.org,+123456,::1,u", "invalid_phone"),
        (b"A\xff,a@x.org,,::1,u", "not_utf8"),
        (b"A,a@x.org,,::1,\xed\xa0\x80", "not_utf8"),
        (b"A\0,a@x.org,,::1,u", "nul_byte"),
        (b"A,a\0@x.org,,::1,u", "nul_byte"),
    ];
    let (mut csv, mut expected) = (b"name,email,phone,ip,user_agent\n".to_vec(), Vec::new());
    // Invalid bytes in the first MiB would condemn the whole file.
    csv.extend_from_slice("\n".repeat(1 << 20).as_bytes());
    for (row, reason) in &rows {
        csv.extend_from_slice(&[row, &b"\n"[..]].concat());
        expected.push(reason.to_string());
    }
    let (output, rejects, _) = score(&csv, &server, 1);
    let reasons: Vec<String> = rejects
        .unwrap()
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(reasons, expected);
    let rows = output
        .split(|byte| *byte == b'\n')
        .filter(|line| line.ends_with(b",,,"))
        .count();
    assert_eq!((rows, server.calls()), (expected.len(), 0));
}

#[test]
fn a_message_about_wrong_bytes_names_line_and_field() {
    let server = Server::good();
    let (_, rejects, _) = score(
        b"name,email,ip,user_agent\n\xc3\x84,a@x.org,::1,u\nB\xff,b@x.org,::1,u\n",
        &server,
        1,
    );
    let rejects = rejects.unwrap();
    assert!(
        rejects.contains("2,not_utf8,line 3: name is not UTF-8"),
        "{rejects}"
    );
}

#[test]
fn a_quote_that_is_never_closed_is_named_with_its_line_before_the_first_call() {
    let server = Server::good();
    let csv = format!(
        "{}3,\"User 3,u@x.org,::1,u\n4,User 4,u@x.org,::1,u\n",
        users::csv(2)
    );
    let place = Place::with("users.csv", csv);
    place
        .score(&server, "")
        .exits(2)
        .says("the quote that opens at line 4 is never closed\n\nhint: close it");
    assert_eq!(place.names(), ["users.csv"]);
    assert_eq!(server.calls(), 0);
}

#[test]
fn an_empty_value_in_the_only_column_is_a_row() {
    let server = Server::good();
    let place = Place::with("users.csv", "name\n\"\"\n\nA\n");
    let set = "--set ip=::1 --set user_agent=u --set phone=+15550100199";
    place.score(&server, set).exits(1);
    let cells = Verdict::of("A").cells(',');
    assert_eq!(
        place.text("scored.csv"),
        format!("name{COLUMNS}\n\"\",,,\n\nA{cells}\n")
    );
}

/// From the Big List of Naughty Strings: name as written in the cell, name as it must be sent.
const NAUGHTY: [(&str, &str); 20] = [
    ("undefined", "undefined"),
    ("null", "null"),
    ("NaN", "NaN"),
    ("0x0", "0x0"),
    ("1e1000", "1e1000"),
    ("00012", "00012"),
    ("=cmd|' /C calc'!A0", "=cmd|' /C calc'!A0"),
    ("<script>alert(0)</script>", "<script>alert(0)</script>"),
    ("'; DROP TABLE users--", "'; DROP TABLE users--"),
    ("\"\"\"q\"\" \\\"", "\"q\" \\"),
    ("田中さんにあげて下さい", "田中さんにあげて下さい"),
    ("👨‍👩‍👧‍👦", "👨‍👩‍👧‍👦"),
    ("Ṱ̺̺̕o͞ ̷i̲̬͇̪͙n̝̗͕v̟̜̘̦͟o̶̙̰̠kè͚̮̺̪̹̱̤", "Ṱ̺̺̕o͞ ̷i̲̬͇̪͙n̝̗͕v̟̜̘̦͟o̶̙̰̠kè͚̮̺̪̹̱̤"),
    ("الكل في المجمو عة", "الكل في المجمو عة"),
    ("\u{200b}\u{2060}zero", "\u{200b}\u{2060}zero"),
    ("\u{a0}\u{2003}trimmed\u{3000}", "trimmed"),
    ("be\u{7}ll\u{1b}[31m", "bell[31m"),
    ("\"two\nlines\"", "twolines"),
    ("${HOME} %s %n {0}", "${HOME} %s %n {0}"),
    ("\\u0000 \\x41 \\", "\\u0000 \\x41 \\"),
];

#[test]
fn naughty_strings_are_sent_intact_one_row_in_one_row_out() {
    let server = Server::good();
    let (mut csv, mut expected) = (
        "name,email,ip,user_agent\n".to_owned(),
        format!("name,email,ip,user_agent{COLUMNS}\n"),
    );
    for (cell, sent) in NAUGHTY {
        csv += &format!("{cell},a@x.org,::1,u\n");
        expected += &format!("{cell},a@x.org,::1,u{}\n", Verdict::of(sent).cells(','));
    }
    let (output, _, _) = score(csv.as_bytes(), &server, 0);
    assert_eq!(String::from_utf8(output).unwrap(), expected);
    let mut sent: Vec<_> = server
        .requests()
        .iter()
        .map(crate::support::server::Request::name)
        .collect();
    let mut expected = NAUGHTY.map(|(_, sent)| sent.to_owned());
    sent.sort();
    expected.sort();
    assert_eq!(sent, expected);
}
