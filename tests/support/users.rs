//! Users for a file, the verdict that the scripted server gives each, and the file as it must look afterwards.

use std::io::Write as _;

use serde_json::json;

/// The scripted server's verdict on a user: a pure function of the name, so that a verdict in the wrong row is noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) id: String,
    pub(crate) score: String,
    pub(crate) decision: &'static str,
}

impl Verdict {
    pub(crate) fn of(name: &str) -> Self {
        // FNV-1a.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let tenths = hash % 101;
        let decision = match tenths {
            0..=20 => "approve",
            21..=50 => "review",
            _ => "block",
        };
        let score = format!("{}.{}", tenths / 10, tenths % 10);
        Self {
            id: format!("t-{hash:016x}"),
            score,
            decision,
        }
    }

    /// The three cells with a delimiter before each.
    pub(crate) fn cells(&self, delimiter: char) -> String {
        let Self {
            id,
            score,
            decision,
        } = self;
        format!("{delimiter}{id}{delimiter}{score}{delimiter}{decision}")
    }

    /// The three members with a comma before each.
    pub(crate) fn members(&self) -> String {
        let Self {
            id,
            score,
            decision,
        } = self;
        format!(r#","transaction_id":"{id}","risk_score":{score},"decision":"{decision}""#)
    }
}

/// The names of our columns with a delimiter before each.
pub(crate) const COLUMNS: &str = ",transaction_id,risk_score,decision";
/// The cells of a row without a verdict.
pub(crate) const EMPTY: &str = ",,,";
/// The members of an object without a verdict.
pub(crate) const NULLS: &str = r#","transaction_id":null,"risk_score":null,"decision":null"#;

/// A CSV file of `n` valid users, `User 1` to `User n`.
pub(crate) fn csv(n: usize) -> String {
    named((1..=n).map(|i| format!("User {i}")))
}

/// A CSV file of valid users with these names.
pub(crate) fn named<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let row = |(i, name): (usize, T)| {
        let name = name.as_ref();
        format!(
            "{i},{name},user{i}@example.com,192.0.2.{},Mozilla/5.0 (X11)\n",
            i % 256
        )
    };
    let rows: String = (1..).zip(names).map(row).collect();
    format!("id,name,email,ip,user_agent\n{rows}")
}

/// A CSV file of [`csv`] or [`named`] as it comes back.
pub(crate) fn scored(csv: &str) -> String {
    scored_without(csv, |_| false)
}

/// As [`scored`], but users whose name is `failed` have empty cells.
pub(crate) fn scored_without(csv: &str, failed: impl Fn(&str) -> bool) -> String {
    let mut lines = csv.lines();
    let header = lines.next().unwrap();
    let rows = lines.map(|line| {
        let name = line.split(',').nth(1).unwrap();
        let cells = if failed(name) {
            EMPTY.to_owned()
        } else {
            Verdict::of(name).cells(',')
        };
        format!("{line}{cells}\n")
    });
    format!("{header}{COLUMNS}\n{}", rows.collect::<String>())
}

/// One line of JSONL for a valid user.
pub(crate) fn object(name: &str) -> String {
    let user =
        json!({"name": name, "email": "u@example.com", "ip": "192.0.2.1", "user_agent": "curl/8"});
    user.to_string()
}

/// A file as `gzip` writes it.
pub(crate) fn gzip(content: impl AsRef<[u8]>) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(content.as_ref()).unwrap();
    gzip.finish().unwrap()
}
