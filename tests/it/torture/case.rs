//! A case from a seed: files of users as they are written and as they must come back, the settings of the run, and what
//! happens to it.
//!
//! This is the model: it makes each row, so it knows its bytes and its user without reading them, and must not use any code of
//! the program.

use crate::support::users::{Verdict, gzip};

use super::service::Faults;

/// A word in the name of every user, which nothing that a run says may show.
pub(super) const PERSON: &str = "Quillon";

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
    /// The calls that all starts but the last one may make together.
    pub(super) max_calls: Option<usize>,
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
    rows: Vec<Row>,
}

struct Row {
    text: String,
    user: usize,
    can_be_sent: bool,
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
    /// Only the first rows.
    Part(usize),
    /// The same command is started twice.
    Twice,
    /// It may take a second.
    OutOfTime,
    /// The inputs get another time of modification.
    Touched,
    /// The ledger is replaced by how it was before the start before, or removed.
    LostLedger,
}

fn pick<T: Copy>(chance: &mut fastrand::Rng, from: &[T]) -> T {
    from[chance.usize(..from.len())]
}

/// True in this many of a hundred cases.
fn percent(chance: &mut fastrand::Rng, percent: u8) -> bool {
    chance.u8(..100) < percent
}

impl Case {
    /// The case of a seed, always the same.
    pub(super) fn of(seed: u64) -> Self {
        let chance = &mut fastrand::Rng::with_seed(seed);
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
        Self {
            files,
            form,
            in_directory,
            is_packed,
            concurrency,
            has_ledger,
            options: options(form, in_directory, chance),
            max_calls: may_limit.then(|| chance.usize(1..=users)),
            faults: Faults::any(seed, users, chance),
            history,
        }
    }

    /// The name of the output of this file.
    pub(super) fn output_of(&self, file: &UserFile) -> String {
        let ending = if self.is_packed { ".gz" } else { "" };
        match (self.in_directory, self.form.delimiter) {
            (true, _) => format!("scored/{}", file.name),
            (false, Some(_)) => format!("scored.csv{ending}"),
            (false, None) => format!("scored.jsonl{ending}"),
        }
    }

    /// How many rows have no verdict in the end.
    pub(super) fn rows_without_verdict(&self) -> usize {
        let rows = self.files.iter().flat_map(|file| &file.rows);
        rows.filter(|row| !self.has_verdict(row)).count()
    }

    fn has_verdict(&self, row: &Row) -> bool {
        row.can_be_sent && !self.faults.is_refused(row.user)
    }

    /// The content of the output of this file, without its compression.
    pub(super) fn expected(&self, file: &UserFile) -> String {
        let rows = file.rows.iter().map(|row| {
            let verdict = self
                .has_verdict(row)
                .then(|| Verdict::of(&name_of(row.user)));
            self.form.scored(&row.text, verdict.as_ref())
        });
        self.head_of(file) + &rows.collect::<String>()
    }

    /// Whether a run may have left this as the output of this file: each row in its place, with its verdict or none. Only a part
    /// may lack rows, at its end.
    pub(super) fn may_be_left(&self, file: &UserFile, text: &str) -> bool {
        let head = self.head_of(file);
        let Some(mut rest) = text.strip_prefix(&*head) else {
            return false;
        };
        for row in &file.rows {
            let verdict = row.can_be_sent.then(|| Verdict::of(&name_of(row.user)));
            let scored = self.form.scored(&row.text, verdict.as_ref());
            let unscored = self.form.scored(&row.text, None);
            let row = [scored, unscored];
            let Some(more) = row.iter().find_map(|row| rest.strip_prefix(&**row)) else {
                let has_part = |event: &Event| matches!(event, Event::Part(_));
                return rest.is_empty() && self.history.iter().any(has_part);
            };
            rest = more;
        }
        rest.is_empty()
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

/// Options that change nothing of the rows, but for those of the form.
fn options(form: Form, in_directory: bool, chance: &mut fastrand::Rng) -> Vec<String> {
    let mut options = Vec::new();
    let mut add = |share: u8, words: String, chance: &mut fastrand::Rng| {
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
    add(10, "--price 0.004EUR".into(), chance);
    let progress = pick(chance, &["plain", "json", "off"]);
    add(60, format!("--progress {progress}"), chance);
    add(10, "--quiet".into(), chance);
    if !in_directory {
        add(10, "--rejects rejected.txt".into(), chance);
        add(8, "--report report.html".into(), chance);
    }
    options
}

impl Event {
    fn any(users: usize, in_directory: bool, chance: &mut fastrand::Rng) -> Self {
        let calls = chance.usize(..users.min(80));
        match chance.u8(..100) {
            0..25 => Self::Kill(calls, chance.u64(..200_000)),
            25..33 => Self::Kill(usize::MAX, chance.u64(..30_000)),
            33..50 => Self::Signal(pick(chance, &["INT", "TERM", "HUP"]), calls),
            50..58 => Self::StandStill(calls, chance.u64(1..60)),
            58..68 => Self::FullDisk(pick(chance, &[1, 8, 64, 128, 250])),
            68..76 if !in_directory => Self::Part(chance.usize(1..=users)),
            76..84 => Self::Twice,
            84..90 => Self::Touched,
            90..94 => Self::LostLedger,
            94..96 => Self::OutOfTime,
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
    fn new(
        nth: usize,
        users: usize,
        form: Form,
        is_packed: bool,
        chance: &mut fastrand::Rng,
    ) -> Self {
        let ending = if is_packed { ".gz" } else { "" };
        let kind = if form.delimiter.is_some() {
            "csv"
        } else {
            "jsonl"
        };
        let mut columns = ["id", "name", "email", "ip", "user_agent", "note", "Ort"];
        chance.shuffle(&mut columns);
        let mut rows = Vec::new();
        // One row more than users, and from the second on some repeat an earlier user or have no name.
        for user in 0..=users {
            let user = if user > 0 && percent(chance, 12) {
                chance.usize(..user)
            } else {
                user
            };
            let can_be_sent = rows.is_empty() || !percent(chance, 4);
            let text = form.row(&columns, rows.len(), user, can_be_sent, chance);
            rows.push(Row {
                text,
                user,
                can_be_sent,
            });
        }
        let mut head = String::new();
        if let Some(delimiter) = form.delimiter {
            head = columns.join(&delimiter.to_string());
        }
        if form.has_bom {
            head.insert(0, '\u{feff}');
        }
        Self {
            name: format!("part-{nth}.{kind}{ending}"),
            head,
            rows,
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

    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }
}

impl Form {
    /// A row as it comes back, with its line end.
    fn scored(self, row: &str, verdict: Option<&Verdict>) -> String {
        if let Some(delimiter) = self.delimiter {
            let none = delimiter.to_string().repeat(3);
            let mut text = row.to_owned() + &verdict.map_or(none, |it| it.cells(delimiter));
            if self.has_level {
                text.push(delimiter);
                text += verdict.map_or("", |_| "0");
            }
            return text + self.line_end;
        }
        let value = |of: fn(&Verdict) -> String| verdict.map_or("null".to_owned(), of);
        let mut members = vec![
            ("transaction_id", value(|it| quoted(&it.id))),
            ("risk_score", value(|it| it.score.clone())),
            ("decision", value(|it| quoted(it.decision))),
        ];
        if self.has_level {
            members.push(("level", value(|_| "0".to_owned())));
        }
        let members = members
            .iter()
            .map(|(name, value)| format!(",\"{}{name}\":{value}", self.prefix));
        row.strip_suffix('}').unwrap().to_owned()
            + &members.collect::<String>()
            + "}"
            + self.line_end
    }

    fn row(
        self,
        columns: &[&str],
        nth: usize,
        user: usize,
        has_name: bool,
        chance: &mut fastrand::Rng,
    ) -> String {
        let value = |column: &str, chance: &mut fastrand::Rng| match column {
            "id" => nth.to_string(),
            "name" if has_name => name_of(user),
            "name" => String::new(),
            "email" => format!("{PERSON}{user}@example.com").to_lowercase(),
            "ip" => format!("192.0.2.{}", user % 250),
            "user_agent" => format!("Mozilla/5.0 (X11; {})", user % 7),
            _ => pick(
                chance,
                &[
                    "",
                    "",
                    " x ",
                    "a,b;c|d\te",
                    "said \"no\"",
                    "two\nlines",
                    "é漢🙂",
                    "-1",
                    "=1+1",
                    "\\N",
                    "{}",
                ],
            )
            .to_owned(),
        };
        let cells = columns
            .iter()
            .map(|column| (*column, value(column, chance)));
        let cells: Vec<_> = cells.collect();
        let Some(delimiter) = self.delimiter else {
            let blank = if percent(chance, 30) { " " } else { "" };
            let members = cells.iter().map(|(name, value)| {
                let value = serde_json::Value::from(value.as_str());
                format!("{blank}\"{name}\":{blank}{value}")
            });
            let members: Vec<_> = members.collect();
            return format!("{{{}}}", members.join(","));
        };
        let quotes = percent(chance, 20);
        let cells = cells.iter().map(|(_, value)| {
            let special = |c: char| c == delimiter || "\"\r\n".contains(c);
            if quotes || value.contains(special) {
                quoted(&value.replace('"', "\"\""))
            } else {
                value.clone()
            }
        });
        cells.collect::<Vec<_>>().join(&delimiter.to_string())
    }
}
