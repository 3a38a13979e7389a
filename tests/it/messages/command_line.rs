//! What is refused before anything is read, sent or written: words of the command line, settings, and names of files.

use std::fs;

use super::{Page, each, words};
use crate::support::command_line::CommandLine;
use crate::support::process::{KEY, Place};
use crate::support::server::Server;
use crate::support::users;

/// Typed behind `rescore run users.csv -o scored.csv` and the settings of a service.
const TYPED: &str = "
# Values out of range
--concurrency 0
--concurrency 10001
--concurrency many
--concurrency ''
--retries -1
--retries 101
--rate 0
--rate 1e9
--rate NaN
--rate 1/h
--rate 50/d
--rate fast
--timeout 30
--timeout 0s
--timeout 2h
--delimiter ;;
--delimiter §
--delimiter '\"'
--base-url http://example.com
--base-url http://127.0.0.1.example.com
--base-url https://example.com?tenant=1
--base-url https://example.com#top
--base-url file:///etc/passwd
--base-url example.com
--base-url ''
--allow-http --base-url file:///x
--plan free --free-base-url http://example.com
--plan free --sandbox --advanced
--plan free --sandbox --vpn-check
--plan gold
--service-id ''
--ca-file nowhere.pem
--column decision=/a
--column Decision=/a
--column level=/a --column Level=/b
--column risk_level
--column =/summary
--format jsonl --delimiter ;
--rejects x.xlsx
--phone-region Germany
--set shoe=1
--set ip=unknown
--set email=jane
--set ip=::1 --default ip=::2
--map age=name
--map name={first
--map ip=ip --set ip=::1
--map name=id --map name=name
--only name

# Options that exclude each other
--ledger x --no-ledger
--sandbox --base-url https://a.org
-c 1 -c 2

# Decisions
--approve-max 6
--review-max NaN
--review-levels 1
--decide-by scores
--decide-by level=risk_level --approve-levels 0
--decide-by level=/summary/risk_level
--decide-by level=/summary/risk_level --approve-levels 0,low,LOW
--decide-by level=/summary/risk_level --approve-levels 0 --block-levels 2,0
--decide-by level=/summary/risk_level --review-levels 1,,2

# Budgets
--max-cost 5
--max-cost 5/week
--max-calls 5/day --no-ledger
--price 0
--price 0,004
--price '0.004 E\u{1b}[1m'
--price '0.004 EUR' --max-cost 0.003

# Files
--ledger /dev/null
--summary -
--log users.csv
--log scored.csv
--log scored.rejects.csv
--log rescore.ledger
--log x --summary x
--log x --metrics x
--log /dev/full
--metrics nowhere/m.prom
--config settings.toml
--profile nightly

# Options that are misspelt, and those of other programs
--concurency 3
--bogus
--resume
--retry
--dry-run
--force
--workers
--rows
--url
--key=secret
--where
--budget
--rps
--sep
--max-retries
-n5
--input
--out
--threshold
-vv
--silent
--currency
--refresh
--yes
-Z9
";

/// Whole commands, in a folder with files that are not what they should be.
const COMMANDS: &str = "
# Commands that are misspelt, and those of other programs
rum
score users.csv
validate
estimate
test
diff
version
chekc
TAB
ledger TAB
ledger a.ledger
ledger prnue
users.csv
'my users.jsonl.gz' --sandbox
run users.csv mine.csv
run usres.csv -o scored.csv
completions tcsh

# Paths that cannot be written
run users.csv -o mine
run users.csv -o new/
run users.csv -o users.csv/scored.csv
run users.csv -o no/such/scored.csv
run users.csv -o link.csv
run users.csv -o x.xlsx --sandbox
run users.csv --output-dir no/such/scored
run users.csv -o ~/scored.csv
run users.csv -o s3://bucket/scored.csv
run users.csv -o gs://bucket/scored.csv
run users.csv \u{2013}o x.csv

# Several inputs
run parts/a.csv more/a.csv --output-dir o
run parts/a.csv parts/a.csv.gz --output-dir o
run parts --output-dir o
run parts/*.tsv --output-dir o
run parts/a.csv - --output-dir o
run parts/a.csv --output-dir parts
run parts/a.csv --output-dir mine.csv
run parts/a.csv --output-dir o --output x
run parts/a.csv --output-dir o --changes x
run parts/a.csv --output-dir o --limit 1
run parts/a.csv --output-dir o --summary o/a.csv

# Changes by key
run users.csv -o x.csv --changes-key id
run users.csv -o x.csv --changes c.csv --changes-key ID2
run users.csv -o old.csv --overwrite --changes c.csv --changes-key email
run users.csv -o unscored.csv --overwrite --changes c.csv --changes-key id
run users.csv --output-dir o --changes c.csv --changes-key id

# The page of a run
run users.csv -o x.csv --report mine.html
run users.csv -o x.csv --report nowhere/r.html
run users.csv -o x.csv --report x.csv
run users.csv -o x.csv --report x.rejects.csv

# check
check a-b.csv
check users.csv -
check phones.jsonl
check nowhere.csv
check none/*.csv
check .
check users.csv --price EUR
check users.csv --max-age 7
check users.csv --max-age 30d..24d
check users.csv --plan free --advanced
check users.csv -o x.csv --output-dir x

# decide
decide users.csv -o out.csv
decide foreign.csv -o out.csv
decide comma.csv
decide nowhere.csv
decide old.csv --prefix x_
decide old.csv --decide-by level=risk_level --approve-levels 0
decide old.csv --what-if --decide-by level=risk_level --approve-levels 0
decide old.csv --block-levels 2
decide old.csv --approve-max 6
decide old.csv -o old.csv --overwrite
decide old.csv --changes ./old.csv --overwrite
decide old.csv -o o.csv --changes o.csv
decide old.csv -o out.jsonl
decide old.csv -o mine.csv
decide old.csv -o new.csv --changes mine.csv
decide old.csv -o paid.csv
decide old.csv --json
decide old.csv --what-if -o x.csv
decide old.csv --what-if --overwrite

# report
report users.csv
report nowhere.csv -o mine.html
report old.csv --by country
report old.csv --by name
report old.csv --against users.csv --key id
report old.csv --against empty.csv --key id
report old.csv --against -
report old.csv --against mixed.csv
report old.csv --key id
report old.csv --run other.json
report old.csv --run nowhere.json
report old.csv --run summary.json
report old.csv --approve-max 6
report old.csv -o mine.html
report old.csv -o old.csv --overwrite
report old.csv -o summary.json --overwrite --run summary.json

# ledger
ledger stats nowhere.ledger
ledger stats --by year
ledger prune --older-than 1s
ledger prune --older-than soon
ledger prune

# sandbox
sandbox --listen 0.0.0.0:1
sandbox --fault 404=1
sandbox --fault 500=1.5
sandbox --fault 500=0.9 --fault reset=0.2
sandbox --burst 3
sandbox --accept-key=
";

/// Settings files, in which a run finds these.
const SETTINGS: [&str; 12] = [
    "\nrat = 1\n",
    "base_url = 'x'\n",
    "config = 'x'\n",
    "rate = '1/s'\n[profile.unused]\nratte = 1\n",
    "api-key = 'very-secret'\n",
    "[run]\nrate = '1/s'\n",
    "timeout = 'soon'\n",
    "timeout = ['1s', '2s']\n",
    "rate = \n",
    "fresh = true\nmax-age = '7d'\n",
    "rejects = 'rejects.xlsx'\n",
    "output = '$HOME/scored.csv'\n",
];

/// Files of every kind that a command may be given by mistake.
fn odd_files() -> Place {
    let place = Place::with("users.csv", users::csv(3));
    let phone = r#"{"name":"Ann","phone":4930123456,"ip":"::1","user_agent":"curl/8"}"#;
    let scored = "id,name,transaction_id,risk_score,decision\n";
    for folder in ["parts", "more", "mine"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    for (name, content) in [
        ("unscored.csv", users::csv(3)),
        ("a-b.csv", "a,b\n1,2\n".to_owned()),
        ("phones.jsonl", format!("{phone}\n").repeat(100)),
        ("empty.csv", String::new()),
        ("old.csv", format!("{scored}1,A,t,1,approve\n")),
        (
            "mixed.csv",
            format!("{scored}1,A,t,1,approve\n2,B,t,1,block\n"),
        ),
        ("foreign.csv", format!("{scored}1,A,t,1,accepted\n")),
        // As a spreadsheet saves it where a comma is the decimal sign.
        (
            "comma.csv",
            "transaction_id;risk_score;decision\nt;2,5;review\n".to_owned(),
        ),
        ("mine.csv", "mine".to_owned()),
        ("mine.html", "mine".to_owned()),
        ("other.json", "{\"rows\":1}".to_owned()),
        // It may have rows that were paid for.
        ("paid.csv.partial", "rows".to_owned()),
        ("parts/a.csv", users::csv(2)),
        ("more/a.csv", users::csv(2)),
    ] {
        place.write(name, content);
    }
    place.write("parts/a.csv.gz", users::gzip(users::csv(2)));
    std::os::unix::fs::symlink("no/such/scored.csv", place.path("link.csv")).unwrap();
    let made_up = "run users.csv -o made-up.csv --sandbox --no-ledger --summary summary.json";
    place.rescore(made_up).exits(0);
    place
}

/// The names of all files, and what is in them.
fn contents(place: &Place) -> Vec<(String, Option<Vec<u8>>)> {
    let read = |name: String| (name.clone(), fs::read(place.path(&name)).ok());
    place.names().into_iter().map(read).collect()
}

#[test]
fn what_is_refused_is_named_with_the_way_out_and_nothing_is_sent_printed_or_changed() {
    let mut page = Page::default();
    let line = CommandLine::new();
    each(&mut page, TYPED, |page, typed| {
        let done = line.refuses(line.typed(words(typed)));
        // Nothing that costs money is named beside it.
        done.silent_about("--fresh").silent_about("secret");
        page.add(typed, &done);
    });
    page.heading("# Settings files");
    for text in SETTINGS {
        let place = Place::with("users.csv", users::csv(1));
        place.write("settings.toml", text);
        let run = place.rescore("run users.csv --sandbox --config settings.toml");
        let done = run.exits(2);
        done.silent_about("very-secret");
        page.add(&text.trim().replace('\n', " ⏎ "), &done);
    }
    let (place, server) = (odd_files(), Server::good());
    let before = contents(&place);
    each(&mut page, COMMANDS, |page, command| {
        let program = place.rescore(words(command));
        let program = program.env("RESCORE_BASE_URL", server.url());
        let program = program.env("RESCORE_SERVICE_ID", "test");
        let done = program.env("RESCORE_API_KEY", KEY).exits(2);
        done.check(done.stdout.is_empty(), "nothing on standard output");
        assert!(contents(&place) == before, "{done}");
        page.add(command, &done);
    });
    assert_eq!(server.connections(), 0);
    page.is("command_line");
}
