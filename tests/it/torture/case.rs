//! A case from a seed: files of users as they are written and as they must come back, the settings of the run, and what
//! happens to it.
//!
//! This is the model: it makes each row, so it knows its bytes and its user without reading them, and must not use any code of
//! the program.

use fastrand::Rng;

use crate::support::users::{Verdict, gzip};

use super::service::Faults;

/// A word in the name of every user, which nothing that a run says may show.
pub(super) const PERSON: &str = "Quillon";
/// Which rows are sent, where not all are.
const ONLY: &str = "--only=Ort=home";

/// Options for a part of the rows.
const PARTS: [&str; 4] = [
    "--limit 1",
    "--limit 20",
    "--sample 30%",
    "--sample auto:±20%",
];
/// Values that are not easy to read or to write.
const ODD: [&str; 11] = [
    "",
    "",
    " x ",
    ",;|\t",
    "\"b\"",
    "a\nb",
    "é漢🙂",
    "-1",
    "=1+1",
    "\\N",
    "{}",
];

/// A command, and what happens to it until it may end undisturbed.
pub(super) struct Case {
    pub(super) files: Vec<UserFile>,
    pub(super) form: Form,
    /// Into a directory instead of to one output.
    pub(super) in_directory: bool,
    pub(super) is_packed: bool,
    pub(super) concurrency: usize,
    pub(super) has_ledger: bool,
    /// The other options, which stay the same.
    pub(super) options: Vec<String>,
    /// The calls that all starts but the last ones may make together.
    pub(super) max_calls: Option<usize>,
    /// The options of all starts but the last ones.
    pub(super) first_options: Vec<String>,
    pub(super) faults: Faults,
    pub(super) history: Vec<Event>,
}

/// How rows are written, and what is added to them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    /// `None` is JSONL.
    delimiter: Option<char>,
    line_end: &'static str,
    has_bom: bool,
    /// What stands before the names of new columns.
    prefix: &'static str,
    /// A fourth column has another field of the answer.
    has_level: bool,
}

pub(super) struct UserFile {
    pub(super) name: String,
    head: String,
    pub(super) rows: Vec<Row>,
}

pub(super) struct Row {
    text: String,
    user: usize,
    can_be_sent: bool,
    /// It has the value that `--only` looks for.
    is_home: bool,
}

/// What happens during one start of the command, or before it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// It may end by itself.
    Nothing,
    /// A kill after some more calls or, at the latest, this many microseconds.
    Kill(usize, u64),
    /// A signal after some more calls.
    Signal(&'static str, usize),
    /// It stands still for a while, in milliseconds, after some more calls.
    StandStill(usize, u64),
    /// No file may become larger than this many blocks of `ulimit -f`.
    FullDisk(u8),
    /// Only the rows that these options choose.
    Part(&'static str),
    /// The same command is started twice.
    Twice,
    /// It may take a second.
    OutOfTime,
    /// The inputs get another time of modification.
    Touched,
    /// The ledger is replaced by how it was before the start before, or removed.
    LostLedger,
    /// After so many milliseconds, the clock is so many seconds off until the start ends.
    WrongClock(i64, u64),
}

fn pick<T: Copy>(chance: &mut Rng, from: &[T]) -> T {
    from[chance.usize(..from.len())]
}

/// True in this many of a hundred cases.
fn percent(chance: &mut Rng, percent: u8) -> bool {
    chance.u8(..100) < percent
}

impl Case {
    /// The case of a seed, always the same.
    pub(super) fn of(seed: u64) -> Self {
        let chance = &mut Rng::with_seed(seed);
        let is_large = percent(chance, 2);
        let is_csv = percent(chance, 70);
        let form = Form {
            delimiter: is_csv.then(|| pick(chance, &[',', ',', ';', '\t', '|'])),
            line_end: pick(chance, &["\n", "\n", "\r\n"]),
            has_bom: is_csv && percent(chance, 15),
            prefix: if percent(chance, 15) { "v_" } else { "" },
            has_level: percent(chance, 20),
        };
        let in_directory = percent(chance, 15);
        let is_packed = percent(chance, 12);
        let users = if is_large { 300 } else { chance.usize(1..60) };
        let files = (0..if in_directory { chance.usize(1..4) } else { 1 })
            .map(|nth| UserFile::new(nth, users, form, is_packed, chance))
            .collect();
        let has_ledger = percent(chance, 88);
        let mut history = Vec::new();
        // Without a ledger, whatever ends a run ends what it knows.
        for _ in 0..if has_ledger { chance.usize(..6) } else { 0 } {
            history.push(Event::any(users, in_directory, chance));
        }
        // Few calls in flight are few that a kill may cost.
        let most = [3, 3, 12, 32][chance.usize(..4)];
        let concurrency = chance.usize(1..=most);
        let may_limit = has_ledger && percent(chance, 20);
        let max_calls = may_limit.then(|| chance.usize(1..=users));
        Self {
            files,
            form,
            in_directory,
            is_packed,
            concurrency,
            has_ledger,
            options: options(form, in_directory, chance),
            first_options: first_options(max_calls, chance),
            max_calls,
            faults: Faults::any(seed, users, chance),
            history,
        }
    }

    /// The name of the output of this file.
    pub(super) fn output_of(&self, file: &UserFile) -> String {
        if self.in_directory {
            return format!("scored/{}", file.name);
        }
        let (_, endings) = file.name.split_once('.').unwrap();
        format!("scored.{endings}")
    }

    /// Whether a row has failed in the end.
    pub(super) fn has_failures(&self) -> bool {
        let mut rows = self.files.iter().flat_map(|file| &file.rows);
        rows.any(|row| self.is_chosen(row) && self.last_verdict(row).is_none())
    }

    fn is_chosen(&self, row: &Row) -> bool {
        row.is_home || !self.options.contains(&ONLY.into())
    }

    /// The verdict of a row, if it ever has one.
    fn verdict(&self, row: &Row) -> Option<Verdict> {
        let can_have = self.is_chosen(row) && row.can_be_sent;
        can_have.then(|| Verdict::of(&name_of(row.user)))
    }

    fn last_verdict(&self, row: &Row) -> Option<Verdict> {
        let is_refused = self.faults.is_refused(row.user);
        self.verdict(row).filter(|_| !is_refused)
    }

    /// The content of the output of this file, without its compression.
    pub(super) fn expected(&self, file: &UserFile) -> String {
        let scored = |row: &Row| self.form.scored(&row.text, self.last_verdict(row));
        self.head_of(file) + &file.rows.iter().map(scored).collect::<String>()
    }

    /// Whether a run may have left this as the output of this file: each row in its place, with its verdict or none. A sample may
    /// lack any rows, and a run with a limit the last ones.
    pub(super) fn may_be_left(&self, file: &UserFile, text: &str) -> bool {
        let Some(mut rest) = text.strip_prefix(&*self.head_of(file)) else {
            return false;
        };
        let has_part = |kind| self.has(|it| matches!(it, Event::Part(it) if it.starts_with(kind)));
        for row in &file.rows {
            let as_left = |verdict| rest.strip_prefix(&*self.form.scored(&row.text, verdict));
            match as_left(self.verdict(row)).or_else(|| as_left(None)) {
                Some(more) => rest = more,
                None if has_part("--sample") => {}
                None => return rest.is_empty() && has_part("--limit"),
            }
        }
        rest.is_empty()
    }

    /// Whether such a thing happens.
    pub(super) fn has(&self, what: impl Fn(&Event) -> bool) -> bool {
        self.history.iter().any(what)
    }

    /// How many lines stand before the rows of a file.
    pub(super) fn head_lines(&self) -> usize {
        usize::from(self.form.delimiter.is_some())
    }

    fn head_of(&self, file: &UserFile) -> String {
        let (form, mut text) = (self.form, file.head.clone());
        if let Some(delimiter) = form.delimiter {
            for column in ["transaction_id", "risk_score", "decision", "level"] {
                if column != "level" || form.has_level {
                    text.extend([&delimiter.to_string(), form.prefix, column]);
                }
            }
            text += form.line_end;
        }
        text
    }
}

/// Options that end with the faults: those of a limit, and `--max-age`, which the option that asks again excludes.
fn first_options(max_calls: Option<usize>, chance: &mut Rng) -> Vec<String> {
    let mut options = String::new();
    if let Some(calls) = max_calls {
        let (euros, cents) = (calls / 100, calls % 100);
        let in_calls = format!("--max-calls {calls}");
        let in_money = format!("--price 0.01 --max-cost {euros}.{cents:02}");
        let limit = if chance.bool() { in_calls } else { in_money };
        options = format!("{limit} --at-limit {} ", pick(chance, &["stop", "finish"]));
    }
    if percent(chance, 10) {
        options += "--max-age 24d..30d";
    }
    options.split_whitespace().map(str::to_owned).collect()
}

/// Options that change nothing of the rows, but for those of the form.
fn options(form: Form, in_directory: bool, chance: &mut Rng) -> Vec<String> {
    let mut options = Vec::new();
    let mut add = |share: u8, words: String, chance: &mut Rng| {
        if percent(chance, share) {
            options.extend(words.split_whitespace().map(str::to_owned));
        }
    };
    if !form.prefix.is_empty() {
        add(100, format!("--prefix {}", form.prefix), chance);
    }
    if form.has_level {
        add(100, "--column level=/summary/risk_level".into(), chance);
    }
    let rate = pick(chance, &["unlimited", "unlimited", "unlimited", "500/s"]);
    add(100, format!("--rate {rate}"), chance);
    let (retries, resent) = (chance.u8(..5), chance.u8(..3));
    add(40, format!("--retries {retries}"), chance);
    add(40, format!("--resend-unknown {resent}"), chance);
    add(20, "--log log.jsonl".into(), chance);
    add(10, "--metrics run.prom".into(), chance);
    add(10, "--keep-going".into(), chance);
    add(10, "--vpn-check".into(), chance);
    add(10, ONLY.into(), chance);
    let progress = pick(chance, &["plain", "json", "off"]);
    add(60, format!("--progress {progress}"), chance);
    add(10, "--quiet".into(), chance);
    if !in_directory {
        add(10, "--rejects rejected.txt".into(), chance);
        add(8, "--report report.html".into(), chance);
        add(10, "--changes changes.txt --changes-key id".into(), chance);
    }
    options
}

impl Event {
    fn any(users: usize, in_directory: bool, chance: &mut Rng) -> Self {
        let calls = chance.usize(..users.min(80));
        match chance.u8(..100) {
            0..25 => Self::Kill(calls, chance.u64(..200_000)),
            25..33 => Self::Kill(usize::MAX, chance.u64(..30_000)),
            33..50 => Self::Signal(pick(chance, &["INT", "TERM", "HUP"]), calls),
            50..58 => Self::StandStill(calls, chance.u64(1..60)),
            58..68 => Self::FullDisk(pick(chance, &[1, 8, 64, 128, 250])),
            68..76 if !in_directory => Self::Part(pick(chance, &PARTS)),
            76..82 => Self::Twice,
            82..86 => Self::Touched,
            86..90 => Self::LostLedger,
            90..92 => Self::OutOfTime,
            92..98 if cfg!(target_os = "linux") => {
                let seconds = pick(chance, &[5, 3_600, 2_000_000]);
                Self::WrongClock(pick(chance, &[-seconds, seconds]), chance.u64(..20))
            }
            _ => Self::Nothing,
        }
    }
}

fn name_of(user: usize) -> String {
    let first = ["Zoë", "Ann", "Łukasz", "李", "O'Neil"][user % 5];
    format!("{first} {PERSON} {user}")
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

impl UserFile {
    fn new(nth: usize, users: usize, form: Form, is_packed: bool, chance: &mut Rng) -> Self {
        let ending = if is_packed { ".gz" } else { "" };
        let kind = form.delimiter.map_or("jsonl", |_| "csv");
        let mut columns = ["id", "name", "email", "ip", "user_agent", "note", "Ort"];
        chance.shuffle(&mut columns);
        let delimiter = form.delimiter.map(String::from);
        let mut head = delimiter.map_or(String::new(), |it| columns.join(&it));
        if form.has_bom {
            head.insert(0, '\u{feff}');
        }
        let rows = (0..=users).map(|nth| form.row(nth, columns, chance));
        Self {
            name: format!("part-{nth}.{kind}{ending}"),
            head,
            rows: rows.collect(),
        }
    }

    /// The bytes of the file.
    pub(super) fn content(&self, form: Form, is_packed: bool) -> Vec<u8> {
        let mut text = self.head.clone();
        if form.delimiter.is_some() {
            text += form.line_end;
        }
        for row in &self.rows {
            text += &row.text;
            text += form.line_end;
        }
        if is_packed { gzip(text) } else { text.into() }
    }
}

impl Form {
    /// A row as it comes back, with its line end.
    fn scored(self, row: &str, verdict: Option<Verdict>) -> String {
        if let Some(delimiter) = self.delimiter {
            let none = delimiter.to_string().repeat(3);
            let level = match &verdict {
                Some(_) if self.has_level => format!("{delimiter}0"),
                None if self.has_level => delimiter.to_string(),
                _ => String::new(),
            };
            let cells = verdict.map_or(none, |it| it.cells(delimiter));
            return row.to_owned() + &cells + &level + self.line_end;
        }
        let value = |of: fn(&Verdict) -> String| verdict.as_ref().map_or("null".to_owned(), of);
        let mut members = vec![
            ("transaction_id", value(|it| quoted(&it.id))),
            ("risk_score", value(|it| it.score.clone())),
            ("decision", value(|it| quoted(it.decision))),
        ];
        if self.has_level {
            members.push(("level", value(|_| "0".to_owned())));
        }
        let mut text = row.strip_suffix('}').unwrap().to_owned();
        for (name, value) in members {
            text += &format!(",\"{}{name}\":{value}", self.prefix);
        }
        text + "}" + self.line_end
    }

    /// The row of this number. From the second on, some repeat an earlier user or have no name.
    fn row(self, nth: usize, columns: [&str; 7], chance: &mut Rng) -> Row {
        let is_first = nth == 0;
        let repeats = !is_first && percent(chance, 12);
        let user = if repeats { chance.usize(..nth) } else { nth };
        let can_be_sent = is_first || !percent(chance, 4);
        let is_home = is_first || chance.bool();
        let value = |column: &str, chance: &mut Rng| match column {
            "id" => nth.to_string(),
            "name" if can_be_sent => name_of(user),
            "name" => String::new(),
            "email" => format!("{PERSON}{user}@example.com").to_lowercase(),
            "ip" => format!("192.0.2.{}", user % 250),
            "Ort" if is_home => "home".to_owned(),
            "user_agent" => format!("Mozilla/5.0 (X11; {})", user % 7),
            _ => pick(chance, &ODD).to_owned(),
        };
        let (quotes, blank) = (percent(chance, 20), pick(chance, &["", "", " "]));
        let cells = columns.map(|column| (column, value(column, chance)));
        let cells = cells.map(|(name, value)| match self.delimiter {
            None => {
                let value = serde_json::Value::from(value);
                format!("{blank}\"{name}\":{blank}{value}")
            }
            Some(it) if quotes || value.contains([it, '"', '\r', '\n']) => {
                quoted(&value.replace('"', "\"\""))
            }
            Some(_) => value,
        });
        let text = match self.delimiter {
            None => format!("{{{}}}", cells.join(",")),
            Some(delimiter) => cells.join(&delimiter.to_string()),
        };
        Row {
            text,
            user,
            can_be_sent,
            is_home,
        }
    }
}
