//! Files that are not what they seem: each is refused before the first call and named for what it is, with the command that
//! makes it right, and nothing of a user is shown.

use std::fs::File;

use super::{Page, each, words};
use crate::support::process::{Place, Program};
use crate::support::server::Server;
use crate::support::users::{self, gzip};

/// Texts: the name of the file and further arguments, and its content, with `⏎` for the end of a line; `×100` repeats the last
/// one.
const TEXTS: &str = "
# Columns
users.csv: a,b⏎1,2⏎
users.csv: name,mail,last_ip,browser_ua⏎
users.csv: First Name,Last Name,email,ip,ua⏎
users.jsonl: {'name':'A','email':'a@x.org','last_ip':'::1','ua':'u'}⏎
users.csv: name,email,E-Mail,ip,ua⏎A,a@x.org,b@x.org,::1,u⏎
users.csv: Vorname,Name,email,ip,ua⏎A,B,a@x.org,::1,u⏎
users.jsonl: {'nom':'B','prenom':'A','email':'a@x.org','ip':'::1','ua':'u'}
users.jsonl --map email=emial: {'name':'A','email':'a@x.org','ip':'::1','ua':'u'}
users.csv --map ip=nowhere: id,name,email,ip,user_agent⏎
users.csv --only emial=x: id,name,email,ip,user_agent⏎1,A,a@x.org,::1,u⏎
users.csv --phone-region-column contry: name,phone,country,ip,user_agent⏎A,030 1,DE,::1,u⏎

# Columns that were there before
users.csv: name,email,ip,user_agent,decision⏎A,a@x.org,::1,u,approved by Eve⏎
users.csv: name,email,ip,user_agent,transaction_id,risk_score,decision⏎A,a@x.org,::1,u,t,1,by Eve⏎
users.csv: name,email,ip,user_agent,transaction_id,risk_score,decision⏎A,a@x.org,::1,u,=1+1,1,approve⏎
users.jsonl: {'name':'A','email':'a@x.org','ip':'::1','user_agent':'u','d\\u0065cision':'by Eve'}⏎
users.jsonl: {'name':'A','email':'a@x.org','ip':'::1','user_agent':'u','transaction_id':{},'risk_score':null,'decision':null}⏎
users.jsonl --map ip=/at/ip --column at=/x: {'name':'A','email':'a@x.org','at':{'ip':'::1'},'user_agent':'u'}⏎
users.csv --column ip=/x: name,email,ip,user_agent⏎A,a@x.org,::1,u⏎
users.csv --column country=/x: name,email,ip,user_agent,country⏎A,a@x.org,::1,u,FR⏎
users.csv --reason-column why: name,email,ip,user_agent,why⏎A,a@x.org,::1,u,because⏎
users.csv --reason-column Decision: name,email,ip,user_agent⏎A,a@x.org,::1,u⏎
users.csv --reason-column ' ': name,email,ip,user_agent⏎A,a@x.org,::1,u⏎

# No header
users.csv: 17,Jane Doe,jane@example.com,+15550100199,192.0.2.1,Mozilla/5.0⏎
users.csv: 17~Jane Doe~jane@example.com~+15550100199~192.0.2.1~Mozilla/5.0⏎
users.csv: Jane Doe,Berlin,030/1234 567⏎
users.csv: Jane,Berlin,diagnosis⏎
users.csv: Doe,Nahme,Berlin,diagnosis⏎
users.csv: email,Jane,diagnosis⏎
users.csv: Name,Email,2026-11-22⏎
users.csv --map email=3: 17,Jane Doe,jane@example.com,+15550100199,192.0.2.1,Mozilla/5.0⏎
users.csv --map name=Berln: Jane,Berlin,diagnosis⏎
users.csv --no-header --map email=5: u,A,a@x.org,::1⏎
users.jsonl --no-header: {'name':'A'}⏎

# Delimiters
users.csv: name::email::ip::user_agent⏎A::a@x.org::::1::u⏎
users.csv: name||email||ip||user_agent⏎A||a@x.org||::1||u⏎
users.csv: 'name,email,ip,user_agent'⏎'A,a@x.org,::1,u'⏎
users.csv: name~email~ip~user_agent⏎A~a@x.org~::1~u⏎
users.csv --delimiter ;: name~email~ip~user_agent⏎A~a@x.org~::1~u⏎
users.csv: name,email,ip,user_agent⏎A,a@x.org,::1,u,⏎×100
users.csv: name,email,ip,user_agent,⏎A,a@x.org,::1,u⏎×100
users.csv: name,email,ip,user_agent⏎A,a@x.org,::1⏎×100
users.csv: name,email,ip,user_agent⏎'A \\'B\\' C',a@x.org,::1,u⏎×100

# Rows that all fail, and files that end early
users.csv: name,email,ip,user_agent⏎A,a@x.org,nowhere,u⏎×100
users.csv: name,email,ip,user_agent⏎A,a@x.org,::1,u⏎'B,b@x.org,::1,u⏎
users.csv: name,email,ip,user_agent⏎A,a@x.org,::1,u⏎B,b@x

# Titles above the header
a-b.csv: Export of users⏎# today⏎⏎name,email,ip,user_agent⏎A,a@x.org,::1,u⏎
a-b.csv: Export;;;⏎name;email;ip;user_agent⏎A;a@x.org;::1;u⏎

# Nearly JSONL
users.jsonl: {'name':'A'}{'name':'B'}
users.jsonl: {'name':'A'},⏎{'name':'B'},⏎
users.jsonl: ␞{'name':'A'}⏎␞{'name':'B'}⏎
users.jsonl: {'name':'A','x':NaN}⏎
users.jsonl: {'name':'A','x':-Infinity}⏎
users.jsonl: {’name’:’A’}⏎
users.jsonl: {'ok':true,'users':[{'name':'A'}]}⏎
users.jsonl: {'name':'A','email':'a@x.org','lastLogin':{'ip':'::1'},'user_agent':'u'}⏎
users.jsonl: {'name':'A',}⏎
users.jsonl: [{'name':'A'},⏎{'name':'B'}]⏎
users.jsonl: {⏎  'name':'A'⏎}⏎{⏎  'name':'B'⏎}⏎
users.csv --format csv: {'name':'A'}⏎
users.csv --format jsonl: name,email,ip,user_agent⏎

# Encodings
users.csv --encoding utf-16: name,email,ip,user_agent⏎
users.csv --encoding win1252: name,email,ip,user_agent⏎
users.csv --encoding shift_jis: name|email|ip|user_agent⏎A|a@x.org|::1|u⏎
users.csv --encoding latin1: \u{feff}name,email,ip,user_agent⏎A,a@x.org,::1,u⏎
users.csv --encoding latin1: name,email,ip,user_agent⏎J\u{fc}rgen,a@x.org,::1,u⏎
users.csv --encoding gbk: name,email,ip,user_agent⏎J\u{fc}rgen,a@x.org,::1,u⏎×100
users.jsonl --encoding latin1: {'name':'A'}⏎
";

/// How files start that are no text.
const BINARY: [(&str, &[u8]); 13] = [
    ("users.csv", b"PAR1\x15\x04\x15\n\0\0"),
    ("users.bz2", b"BZh91AY&SYx"),
    ("users.xz", b"\xfd7zXZ\0\0"),
    ("users.lz4", b"\x04\x22\x4d\x18\x64\x40\xa7rest"),
    ("users.Z", b"\x1f\x9d\x90abc\x80\x81"),
    ("users.arrow", b"ARROW1\0\0"),
    ("users.avro", b"Obj\x01\x04"),
    ("users.orc", b"ORC\0\x01"),
    ("users.db", b"SQLite format 3\0"),
    ("users.duckdb", b"12345678DUCK\0\0"),
    ("users.csv", b"\xff\xfe\0\0n\0\0\0a\0\0\0m\0\0\0e\0\0\0"),
    ("users.csv", b"n\0\0\0a\0\0\0m\0\0\0e\0\0\0,\0\0\0"),
    ("users.csv", b"\0\0\0n\0\0\0a\0\0\0m\0\0\0e\0\0\0,"),
];

/// Names in other encodings than UTF-8, of which several may be meant: an encoding is advised only if it makes names of all.
const NAMES: [&[u8]; 10] = [
    // Code pages of MS-DOS: 850, 437 and 862.
    b"Jos\x82 Garc\xa1a|Zo\x89 Martin|Fran\x87ois M\x81ller",
    b"J\x81rgen M\x81ller|K\x84the Gro\xe1",
    b"\x8e\x99\x84 \x8b\x84\x8f|\x83\x85\x83 \x8c\x85\x89",
    // One of them alone, 852, 857 and windows-1257 are not clear.
    b"\x8e\x99\x84 \x8b\x84\x8f",
    b"\x9dukasz Wi\x98niewski|Ma\x88gorzata D\xa5browska",
    b"J\xe2nis B\xe7rzi\xf2\xf0",
    b"\xa3ukasz Wi\x9cniewski",
    b"Jos\x8e Garc\x92a",
    b"Jos\xe9 Garc\xeda",
    b"Ann \xed\xa0\xbd\xed\xb8\x80",
];

/// The bytes of a text of the list.
fn content(text: &str) -> String {
    let text = text.replace('\'', "\"").replace('’', "'");
    let text = text.replace('␞', "\u{1e}");
    let (text, times) = text
        .strip_suffix("×100")
        .map_or((&*text, 1), |it| (it, 100));
    let text = text.replace('⏎', "\n");
    let last = text.trim_end().rfind('\n').map_or(0, |at| at + 1);
    text[..last].to_owned() + &text[last..].repeat(times)
}

/// The start of a zip archive with one uncompressed file, as far as the program reads it.
fn zip(name: &str) -> Vec<u8> {
    let mut zip = b"PK\x03\x04\x0a\0\0\0\0\0".to_vec();
    zip.resize(26, 0);
    zip.extend([u8::try_from(name.len()).unwrap(), 0, 0, 0]);
    zip.extend([name.as_bytes(), b"<xml>\n"].concat());
    zip
}

/// The start of a tar archive.
fn tar() -> Vec<u8> {
    let mut tar = b"users.csv".to_vec();
    tar.resize(257, 0);
    tar.extend_from_slice(b"ustar\x0000");
    tar
}

/// Adds what is said of a file. It is refused as a file and down a pipe, no call is made, and no file is left.
fn refused(page: &mut Page, scenario: &str, arguments: &str, bytes: impl AsRef<[u8]>) {
    let name = arguments.split(' ').next().unwrap();
    let arguments = words(&arguments[name.len()..]);
    let (place, server) = (Place::with(name, bytes), Server::good());
    let run = |program: Program<'_>| {
        let done = program.args(&arguments).exits(2);
        for value in [
            "Jane",
            "Doe",
            "Nahme",
            "Eve",
            "Berlin",
            "diagnosis",
            "0100199",
            "192.0",
            "rgen",
        ] {
            done.silent_about(value);
        }
        done.check(server.calls() == 0, "no call");
        done
    };
    page.add(
        scenario,
        &run(place.run(&server, [name, "-o", "scored.out"])),
    );
    assert_eq!(place.names(), [name]);
    // What ends early is known of a pipe when its rows are paid for.
    if !bytes_end_early(scenario) {
        let file = File::open(place.path(name)).unwrap();
        run(place.run(&server, "-o scored.out").stdin_from(file));
    }
}

fn bytes_end_early(scenario: &str) -> bool {
    scenario.ends_with("b@x") || scenario.ends_with("'B,b@x.org,::1,u⏎")
}

#[test]
fn a_file_of_another_kind_is_named_with_the_way_out() {
    let mut page = Page::default();
    each(&mut page, TEXTS, |page, line| {
        let (arguments, text) = line.split_once(": ").unwrap();
        refused(page, line, arguments, content(text));
    });
    page.heading("# Binary files");
    for (name, bytes) in BINARY {
        refused(&mut page, &bytes.escape_ascii().to_string(), name, bytes);
    }
    let csv = users::csv(200);
    let header = csv.lines().next().unwrap();
    let units = || csv.encode_utf16();
    let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
    for (what, name, bytes) in [
        ("zip", "users.csv", zip("users.csv")),
        ("workbook", "users.csv", zip("xl/workbook.xml")),
        ("tar in gzip", "users.csv", gzip(tar())),
        ("gzip in gzip", "users.csv.gz", gzip(gzip(header))),
        (
            "a title in gzip",
            "users.csv.gz",
            gzip(format!("# today\n{csv}")),
        ),
        ("UTF-16", "users.csv", [&b"\xff\xfe"[..], &little].concat()),
        ("UTF-16, without a mark", "users.csv", little),
        ("UTF-16, the other way round", "users.csv", big),
        (
            "a NUL byte",
            "users.csv",
            [csv.as_bytes(), b"9,Na\0me\n"].concat(),
        ),
    ] {
        refused(&mut page, what, name, bytes);
    }
    page.heading("# Other encodings than UTF-8");
    for names in NAMES {
        let rows = names.split(|byte| *byte == b'|');
        let rows = rows.map(|name| [name, b",a@x.org,::1,u\n"].concat());
        let rows = rows.collect::<Vec<_>>().concat();
        let bytes = [b"name,email,ip,user_agent\n", &*rows].concat();
        refused(
            &mut page,
            &names.escape_ascii().to_string(),
            "users.csv",
            bytes,
        );
    }
    page.is("files");
}
