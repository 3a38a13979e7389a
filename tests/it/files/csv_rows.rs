//! Rows of CSV: every byte comes back, and an invalid row affects no other row.

use super::{HEADER, score};
use crate::support::server::Server;
use crate::support::users::{COLUMNS, Verdict};

/// `output` without our columns: the user's own cells, in order, each exactly once.
fn without_columns(output: &[u8], names: &[&str]) -> Vec<u8> {
    let mut text = output.to_vec();
    let mut from = 0;
    let cells = names.iter().map(|name| Verdict::of(name).cells(','));
    for cells in std::iter::once(COLUMNS.to_owned()).chain(cells) {
        let mut windows = text[from..].windows(cells.len());
        let found = windows.position(|window| window == cells.as_bytes());
        let Some(at) = found else {
            panic!("no `{cells}` in the rest of {}", output.escape_ascii())
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
        "name,email,ip,user_agent\r\nA,a@x.org,::1,u\r\nB,b@x.org,::1,u\r\n",
        "name,email,ip,user_agent\rA,a@x.org,::1,u\rB,b@x.org,::1,u\r",
        // Every line keeps its own end, and the last one has none.
        "name,email,ip,user_agent\r\nA,a@x.org,::1,u\rB,b@x.org,::1,u",
        "name,email,ip,user_agent\nA,a@x.org,::1,u\r\n\rB,b@x.org,::1,u\r",
        // Blank lines, also before the header and after the last row.
        "\n\r\nname,email,ip,user_agent\n\n\nA,a@x.org,::1,u\r\n\r\n\nB,b@x.org,::1,u\n\n\r\n",
        "\u{feff}name,email,ip,user_agent\nA,a@x.org,::1,u\nB,b@x.org,::1,u\n",
        // Quotes where none are needed, padding, doubled quotes, delimiters and line ends in cells.
        "\"name\",email,\"ip\",user_agent,note\nA, a@x.org ,\" ::1\",u,\"a\r\nb\n\"\"c\"\", d\re\"\n\"B\",b@x.org,::1,u,\"\"\n",
        // Ids and numbers that a reader of numbers would change; more than 2^53.
        "id,name,email,phone,ip,user_agent,n\n007,A,a@x.org,+4915112345678,::1,u,1e5\n-0,B,b@x.org,+15550100199,::1,u,90071992547409931.10\n",
        // A formula, and what looks like our own columns.
        "name,email,ip,user_agent,Größe,score\nA,a@x.org,::1,u,\u{202e}日本語,=1+1\nB,b@x.org,::1,u,🙂,2.5\n",
    ] {
        let (place, done) = score(csv, &server, "");
        done.exits(0);
        assert!(!place.names().contains(&"scored.rejects.csv".to_owned()));
        let back = without_columns(&place.read("scored.csv"), &["A", "B"]);
        assert_eq!(String::from_utf8(back).unwrap(), csv);
    }
    // Any bytes, in columns that are not sent.
    let csv =
        b"\xef\xbb\xbfname,email,ip,user_agent,\xff\nA,a@x.org,::1,u,\xfe\x80\nB,b@x.org,::1,u,\xc3\n";
    let (place, done) = score(csv, &server, "");
    done.exits(0);
    assert_eq!(without_columns(&place.read("scored.csv"), &["A", "B"]), csv);
}

#[test]
fn an_invalid_row_gets_empty_cells_and_is_in_the_rejects_as_it_was() {
    let server = Server::good();
    // The last row but one has a quote that has made one row of two.
    let csv = "\u{feff}name,email,ip,user_agent\r\n\
        A,a@x.org,::1,u\r\n\
        \r\n\
        B\r\n\
        C,c@x.org,::1,u,extra\r\n\
        \"D,d@x.org,::1,u\r\nE,e@x.org,::1,u\r\n\"F\",f@x.org,::1,u\r\n\
        G,g@x.org,::1,u";
    let (place, done) = score(csv, &server, "");
    done.exits(1);
    let (a, g) = (Verdict::of("A").cells(','), Verdict::of("G").cells(','));
    let expected = format!(
        "\u{feff}{HEADER}{COLUMNS}\r\n\
        A,a@x.org,::1,u{a}\r\n\
        \r\n\
        B,,,\r\n\
        C,c@x.org,::1,u,extra,,,\r\n\
        \"D,d@x.org,::1,u\r\nE,e@x.org,::1,u\r\n\"F\",f@x.org,::1,u,,,\r\n\
        G,g@x.org,::1,u{g}"
    );
    assert_eq!(place.text("scored.csv"), expected);
    let expected = format!(
        "\u{feff}reject_row,reject_reason,reject_message,{HEADER}\r\n\
        2,ragged,line 4: 1 cell where the header has 4,B\r\n\
        3,ragged,line 5: 5 cells where the header has 4,C,c@x.org,::1,u,extra\r\n\
        4,stray_quotes,\"lines 6 to 8: a quote opens a cell that has whole rows in it; \
        `--quotes off` reads quotes as ordinary characters\",\
        \"D,d@x.org,::1,u\r\nE,e@x.org,::1,u\r\n\"F\",f@x.org,::1,u\r\n"
    );
    assert_eq!(place.text("scored.rejects.csv"), expected);
    done.check(server.calls() == 2, "wrong rows cost no call");
}

#[test]
fn each_broken_rule_has_its_reason_word_and_costs_no_call() {
    let server = Server::good();
    let rows: [(&[u8], &str); 11] = [
        (b" \t,a@x.org,,::1,u", "missing_name"),
        (b"A,a@x.org,,,u", "missing_ip"),
        (b"A,a@x.org,,::1,\"\"", "missing_user_agent"),
        (b"A,,,::1,u", "missing_contact"),
        (b"A,a@x.org,,300.1.1.1,u", "invalid_ip"),
        (b"A,ax.org,,::1,u", "invalid_email"),
        (b"A,a@x.org,0151 234567,::1,u", "invalid_phone"),
        (b"A\xff,a@x.org,,::1,u", "not_utf8"),
        (b"A,a@x.org,,::1,\xed\xa0\x80", "not_utf8"),
        (b"A\0,a@x.org,,::1,u", "nul_byte"),
        (b"A,a\0@x.org,,::1,u", "nul_byte"),
    ];
    // Invalid bytes in the first MiB would condemn the whole file.
    let far = "\n".repeat(1 << 20);
    let mut csv = format!("name,email,phone,ip,user_agent\n{far}").into_bytes();
    for (row, _) in &rows {
        csv.extend([row, &b"\n"[..]].concat());
    }
    let (place, done) = score(&csv, &server, "");
    done.exits(1);
    let rejects = place.read("scored.rejects.csv");
    let rejects = String::from_utf8_lossy(&rejects);
    let lines = rejects.lines().skip(1);
    let reasons: Vec<_> = lines.map(|line| line.split(',').nth(1).unwrap()).collect();
    assert_eq!(reasons, rows.map(|(_, reason)| reason));
    assert!(
        rejects.contains("not_utf8,line 1048585: name is not UTF-8"),
        "{rejects}"
    );
    let output = place.read("scored.csv");
    let output = output.split(|byte| *byte == b'\n');
    let empty = output.filter(|line| line.ends_with(b",,,")).count();
    assert_eq!((empty, server.calls()), (rows.len(), 0));
}
