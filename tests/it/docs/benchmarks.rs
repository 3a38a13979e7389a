//! `docs/benchmarks.md` has every line of the benchmark, and is written as it should be.

use crate::docs::documents::document;
use table::lines::{self, GROUPS};
use table::{Document, Line, Run, Section, Table};

/// The benchmark's own files: `cargo bench` runs no tests.
#[path = "../../../benches/throughput/table/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the benchmark uses all of it")]
mod table;

const NAME: &str = "docs/benchmarks.md";

fn run(day: &str) -> Run {
    Run {
        day: day.to_owned(),
        version: "0.1.0".to_owned(),
        machine: "A processor, 2 cores".to_owned(),
    }
}

/// The text after these lines were measured on that day.
fn measured(text: &str, day: &str, lines: &[(&'static Line, &[f64], &str)]) -> String {
    let mut table = Table::default();
    for (line, values, baseline) in lines {
        table.add(line, values, baseline);
    }
    let mut document = Document::read(text).unwrap();
    for (line, entry) in table.entries() {
        document.put(line, entry, &run(day));
    }
    document.text()
}

/// The rows that have values, and those of the runs.
fn values(text: &str) -> String {
    let is_value = |line: &&str| {
        line.starts_with('|') && {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let number = |cell: Option<&&str>| cell.is_some_and(|cell| cell.parse::<u32>().is_ok());
            number(cells.get(1)) || number(cells.get(7))
        }
    };
    let lines: Vec<_> = text.lines().filter(is_value).collect();
    lines.join("\n")
}

/// A document without values.
const EMPTY: &str = "\
Before.

<!-- From here on, written by `cargo bench --bench throughput -- --write`. -->
<!-- Up to here. -->

After.
";

#[test]
fn the_page_has_every_line_of_the_benchmark_and_no_other() {
    let text = document(NAME);
    let written = Document::read(&text).unwrap().text();
    let [text, written] = [&text, &written].map(|text| text.lines().collect::<Vec<_>>());
    let differs = text.iter().zip(&written).find(|(is, should)| is != should);
    // To put it in order, measure any section with `--write`.
    assert_eq!((differs, text.len()), (None, written.len()), "{NAME}");
}

#[test]
fn no_two_lines_measure_the_same_and_every_section_has_lines() {
    let lines: Vec<&Line> = GROUPS
        .iter()
        .flat_map(|group| group.lines)
        .copied()
        .collect();
    let mut measures: Vec<_> = lines.iter().map(|line| line.measure).collect();
    measures.sort_unstable();
    measures.dedup();
    assert_eq!(measures.len(), lines.len());
    for section in Section::ALL {
        assert!(
            lines.iter().any(|line| line.section == section),
            "{section:?}"
        );
    }
}

#[test]
fn a_measured_line_is_replaced_and_the_others_keep_their_run() {
    let first = measured(
        EMPTY,
        "21 November 2026",
        &[
            (
                &lines::KNOWN,
                &[239_657.4, 234_790.0, 267_652.0],
                "read 1,700,000",
            ),
            (&lines::MEMORY, &[18.25], "without 12.0"),
        ],
    );
    insta::assert_snapshot!(values(&first), @r"
    | 400,000 rows, every answer known, rows/s | ≥ 500,000 | **239,657** | 234,790–267,652 | read 1,700,000 | 3 | 1 |
    | peak memory, 10,000 rows with a ledger, MiB | ≤ 20 | 18.2 | | without 12.0 | 1 | 1 |
    | 1 | 21 November 2026 | 0.1.0 | A processor, 2 cores |
    ");
    let second = measured(
        &first,
        "22 November 2026",
        &[(&lines::KNOWN, &[500_000.0], "")],
    );
    insta::assert_snapshot!(values(&second), @r"
    | 400,000 rows, every answer known, rows/s | ≥ 500,000 | 500,000 | | | 1 | 1 |
    | peak memory, 10,000 rows with a ledger, MiB | ≤ 20 | 18.2 | | without 12.0 | 1 | 2 |
    | 1 | 22 November 2026 | 0.1.0 | A processor, 2 cores |
    | 2 | 21 November 2026 | 0.1.0 | A processor, 2 cores |
    ");
    assert!(second.starts_with("Before.\n\n<!-- From"), "{second}");
    assert!(
        second.ends_with("<!-- Up to here. -->\n\nAfter.\n"),
        "{second}"
    );
}

#[test]
fn what_is_written_twice_stays_the_same() {
    let values: [(&'static Line, &[f64], &str); 2] = [
        (&lines::CSV_SHARE, &[0.9, 0.95, 0.85], ""),
        (&lines::RATE, &[100.08], "the rate"),
    ];
    let once = measured(EMPTY, "21 November 2026", &values);
    assert_eq!(Document::read(&once).unwrap().text(), once);
    assert_eq!(measured(&once, "21 November 2026", &values), once);
}

#[test]
fn a_value_that_misses_its_aim_is_bold() {
    let text = measured(
        EMPTY,
        "21 November 2026",
        &[
            (&lines::CSV_SHARE, &[0.919], ""),
            (&lines::JSONL_SHARE, &[0.85], ""),
            (&lines::LEDGER_WRITTEN, &[11_600.0], ""),
            (&lines::STARTUP, &[50.0], ""),
            (&lines::RATE, &[100.5], ""),
            (&lines::CSV_SPEED, &[1.0], ""),
        ],
    );
    insta::assert_snapshot!(values(&text), @r"
    | CSV, zero latency, 64 in flight, rows/s | | 1 | | | 1 | 1 |
    | … as a share of the bare loop | ≥ 0.92 | **0.919** | | | 1 | 1 |
    | … JSONL as a share of the bare loop | ≥ 0.85 | 0.850 | | | 1 | 1 |
    | `--rate 1000/s` for 10 s, % of the rate | 98–100.5 | 100.50 | | | 1 | 1 |
    | start to first request, with a ledger, ms | < 50 | **50.0** | | | 1 | 1 |
    | … bytes written a row | ≤ 1,000 | **11,600** | | | 1 | 1 |
    | 1 | 21 November 2026 | 0.1.0 | A processor, 2 cores |
    ");
}

#[test]
fn a_page_that_cannot_be_written_says_why() {
    let error = |text: &str| Document::read(text).unwrap_err();
    insta::assert_snapshot!(error("# Benchmarks\n"), @"this line is missing: <!-- From here on, written by `cargo bench --bench throughput -- --write`. -->");
    let without_end = EMPTY.replace("<!-- Up to here. -->\n", "");
    insta::assert_snapshot!(error(&without_end), @"this line is missing: <!-- Up to here. -->");
    let once = measured(EMPTY, "21 November 2026", &[(&lines::RATE, &[100.0], "")]);
    let line = values(&once).lines().next().unwrap().to_owned();
    let twice = once.replace(&line, &format!("{line}\n{line}"));
    insta::assert_snapshot!(error(&twice), @"this measure has two lines: `--rate 1000/s` for 10 s, % of the rate");
}

#[test]
fn names_choose_sections_and_long_ones_must_be_asked_for() {
    let names = |names: &[&str], long: bool| {
        let sections = Section::named(names, long)?;
        let names: Vec<_> = sections.into_iter().map(Section::name).collect();
        Ok::<_, String>(names.join(" "))
    };
    let chosen = |words: &[&str], long| names(words, long).unwrap();
    assert_eq!(chosen(&["check"], false), "check");
    assert_eq!(chosen(&["check"], true), "check check-ten-million");
    assert_eq!(chosen(&["known", "jsonl"], false), "end-to-end-jsonl known");
    assert!(!chosen(&[], false).contains("million"));
    assert_eq!(chosen(&[], true).split(' ').count(), Section::ALL.len());
    let error = |name: &str| names(&[name], false).unwrap_err();
    insta::assert_snapshot!(error("nothing"), @"no section is called `nothing`: --list names all of them");
    insta::assert_snapshot!(error("resume"), @"`resume` takes many minutes and gigabytes: add --long");
}

#[test]
fn numbers_are_computed_and_written_as_people_read_them() {
    assert_eq!(table::text(1_234_567.891, 2), "1,234,567.89");
    assert_eq!(table::text(-1_234.0, 0), "-1,234");
    assert_eq!(table::text(999.0, 0), "999");
    assert_eq!(table::text(table::median(&[3.0, 1.0, 2.0]), 1), "2.0");
    assert_eq!(table::text(table::median(&[4.0, 1.0, 2.0, 3.0]), 1), "2.5");
}

#[test]
fn a_hundred_million_rows_are_estimated_from_ten() {
    // What costs the same in each million costs the same later.
    let flat = table::estimate(&[600.0; 10], 100.0);
    assert_eq!(table::text(flat, 3), "600.000");
    // What costs 50 more in each million costs 5,450 in the hundredth, and half of that and of the first on average.
    let steps: Vec<f64> = (0..10).map(|number| f64::from(500 + 50 * number)).collect();
    assert_eq!(table::text(table::estimate(&steps, 100.0), 0), "2,975");
}
