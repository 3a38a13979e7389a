//! Every line of the benchmark: what is measured, and what it should be.
//!
//! A line's measure is its name in `docs/benchmarks.md`: one that is worded differently is another line, without a value
//! until it is measured.

use super::aim::Aim;
use super::section::Section;

/// A line of the table.
#[derive(Debug)]
pub(crate) struct Line {
    /// Where it is measured.
    pub(crate) section: Section,
    /// What is measured, and in which unit; no other line has the same.
    pub(crate) measure: &'static str,
    pub(crate) aim: Aim,
    /// How many digits are shown after the point.
    pub(crate) digits: usize,
}

impl Line {
    const fn new(section: Section, measure: &'static str, aim: Aim, digits: usize) -> Self {
        Self {
            section,
            measure,
            aim,
            digits,
        }
    }
}

/// Lines under a heading.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) heading: &'static str,
    pub(crate) lines: &'static [&'static Line],
}

macro_rules! groups {
    ($($heading:literal { $($name:ident: $section:ident, $measure:literal, $aim:expr, $digits:literal;)+ })+) => {
        $($(pub(crate) static $name: Line = Line::new(Section::$section, $measure, $aim, $digits);)+)+

        /// All lines, in the order in which they are shown.
        pub(crate) static GROUPS: &[Group] = &[
            $(Group { heading: $heading, lines: &[$(&$name),+] }),+
        ];
    };
}

groups! {
    "Calls" {
        CSV_SPEED: EndToEndCsv, "CSV, zero latency, 64 in flight, rows/s", Aim::None, 0;
        CSV_SHARE: EndToEndCsv, "… as a share of the bare loop", Aim::AtLeast(0.92), 3;
        CSV_CPU: EndToEndCsv, "… CPU a row, µs", Aim::None, 1;
        CSV_CPU_RATIO: EndToEndCsv, "… CPU as a multiple of the bare loop's", Aim::AtMost(1.15), 3;
        JSONL_SPEED: EndToEndJsonl, "JSONL, zero latency, 64 in flight, rows/s", Aim::None, 0;
        JSONL_SHARE: EndToEndJsonl, "… JSONL as a share of the bare loop", Aim::AtLeast(0.85), 3;
        JSONL_CPU: EndToEndJsonl, "… JSONL, CPU a row, µs", Aim::None, 1;
        JSONL_CPU_RATIO: EndToEndJsonl, "… JSONL, CPU as a multiple of the bare loop's", Aim::None, 3;
        LATENCY: Latency, "20 ms latency, 64 in flight, % of 3,200 rows/s", Aim::AtLeast(95.0), 1;
        LATENCY_LEDGER: Latency, "… with a ledger", Aim::AtLeast(95.0), 1;
        RATE: Rate, "`--rate 1000/s` for 10 s, % of the rate", Aim::Between(98.0, 100.5), 2;
        STARTUP: Startup, "start to first request, with a ledger, ms", Aim::Below(50.0), 1;
    }
    "Ledger" {
        LEDGER_SPEED: Ledger, "100,000 rows with a ledger, zero latency, rows/s", Aim::None, 0;
        LEDGER_SHARE: Ledger, "… as a share of the run without", Aim::AtLeast(0.85), 3;
        LEDGER_CPU: Ledger, "… CPU a row with a ledger, µs", Aim::None, 1;
        LEDGER_WRITTEN: Ledger, "… bytes written a row", Aim::AtMost(1_000.0), 0;
        LEDGER_SIZE: Ledger, "… bytes of the ledger per answer", Aim::None, 1;
        KNOWN: Known, "400,000 rows, every answer known, rows/s", Aim::AtLeast(500_000.0), 0;
        KNOWN_CHECK: Known, "… `check` with that ledger, rows/s", Aim::None, 0;
        KNOWN_CHECK_SHARE: Known, "… `check` as a share of the run", Aim::AtLeast(1.0), 3;
    }
    "Memory" {
        MEMORY: Memory, "peak memory, 10,000 rows with a ledger, MiB", Aim::AtMost(20.0), 1;
        MEMORY_FOUR_MILLION: FourMillion, "peak memory, 4,000,000 rows with a ledger, MiB", Aim::AtMost(32.0), 1;
        MEMORY_TEN_MILLION: TenMillion, "peak memory, 10,000,000 rows with a ledger, MiB", Aim::None, 1;
        MEMORY_NIGHT: TenMillion, "… of the nightly run over them, MiB", Aim::None, 1;
        MEMORY_CHECK: CheckTenMillion, "peak memory of `check`, 10,000,000 rows, MiB", Aim::None, 1;
    }
    "Millions of rows" {
        FOUR_MILLION_SPEED: FourMillion, "4,000,000 rows with a ledger, rows/s", Aim::None, 0;
        FOUR_MILLION_SHARE: FourMillion, "… as a share of 100,000 rows", Aim::AtLeast(0.9), 3;
        FOUR_MILLION_SHARE_WITHOUT: FourMillion, "… as a share of 4,000,000 rows without a ledger", Aim::None, 3;
        FOUR_MILLION_WRITTEN: FourMillion, "… bytes written a row, 4,000,000 rows", Aim::AtMost(1_000.0), 0;
        RESUME: Resume, "from the start to the first new call, after a kill at 4,000,000 rows, s", Aim::AtMost(10.0), 2;
        RESUME_AGAIN: Resume, "… rows asked twice because of the kill", Aim::AtMost(128.0), 0;
        TEN_MILLION_SPEED: TenMillion, "10,000,000 rows with a ledger, rows/s in each million", Aim::None, 0;
        TEN_MILLION_WRITTEN: TenMillion, "… bytes written a row in each million", Aim::None, 0;
        TEN_MILLION_ALL_WRITTEN: TenMillion, "… bytes written a row, 10,000,000 rows", Aim::AtMost(1_000.0), 0;
        HUNDRED_MILLION_WRITTEN: TenMillion, "… bytes written a row, 100,000,000 rows, estimated", Aim::None, 0;
        TEN_MILLION_SIZE: TenMillion, "… bytes of the ledger per answer, 10,000,000 answers", Aim::AtMost(50.0), 1;
        NIGHT_SPEED: TenMillion, "a nightly run over them with 1% new rows, rows/s", Aim::None, 0;
        NIGHT_WRITTEN: TenMillion, "… bytes written per new row", Aim::None, 0;
    }
    "Files" {
        CSV_FILE: Files, "CSV read and written, rows/s", Aim::AtLeast(1_500_000.0), 0;
        CSV_FILE_BODIES: Files, "… and each row turned into a request, rows/s", Aim::None, 0;
        JSONL_FILE: Files, "JSONL read and written, rows/s", Aim::AtLeast(1_600_000.0), 0;
        JSONL_FILE_BODIES: Files, "… and each row of JSONL turned into a request, rows/s", Aim::None, 0;
    }
    "Without calls" {
        CHECK: Check, "`check`, 1,000,000 CSV rows, rows/s", Aim::AtLeast(1_000_000.0), 0;
        DECIDE_CSV: Decide, "`decide`, CSV written, rows/s", Aim::AtLeast(1_000_000.0), 0;
        DECIDE_CSV_WHAT_IF: Decide, "`decide --what-if`, CSV, rows/s", Aim::AtLeast(1_000_000.0), 0;
        DECIDE_JSONL: Decide, "`decide`, JSONL written, rows/s", Aim::None, 0;
        DECIDE_JSONL_WHAT_IF: Decide, "`decide --what-if`, JSONL, rows/s", Aim::None, 0;
        REPORT: Report, "`report`, rows/s", Aim::AtLeast(500_000.0), 0;
        REPORT_BY: Report, "… with two `--by` columns of a million values, rows/s", Aim::AtLeast(500_000.0), 0;
        REPORT_BY_MEMORY: Report, "… peak memory with them, MiB", Aim::AtMost(64.0), 1;
        REPORT_AGAINST: Report, "… against an earlier file of a million rows, rows/s of both", Aim::None, 0;
        REPORT_AGAINST_MEMORY: Report, "… peak memory against it, MiB", Aim::None, 1;
        PHONES: Phones, "`--phone-region`, a national number of DE, US, GB, FR, IT, µs", Aim::Below(10.0), 2;
    }
}
