//! What a national phone number costs more than a row that is sent without one.
//!
//! The numbers are mobile numbers and landlines of five countries, as people write them. The file is read twice in turn:
//! with the regions in a column, and without them, so that all numbers are left out.

use std::fs;
use std::path::Path;
use std::time::Instant;

use rescore::internals::{FieldRules, Invalid, PhoneRegion, Reader, RowState};

use crate::bench::Bench;
use crate::reading::{compose, reader_settings};
use crate::rounds::{ROUNDS, in_turn};
use crate::table::{Table, lines, median, text};

const ROWS: u32 = 200_000;

/// A region, and numbers that are valid there; `#` is any digit.
const NUMBERS: [(&str, [&str; 2]); 5] = [
    ("DE", ["0151 234#####", "(030) 12##-###"]),
    ("US", ["(415) 555-2###", "212-736-5###"]),
    ("GB", ["07400 12####", "020 7946 0###"]),
    ("FR", ["06 12 34 ## ##", "01 42 68 ## ##"]),
    ("IT", ["312 345 ####", "06 698 #####"]),
];

pub(crate) fn phones(bench: &Bench, table: &mut Table) {
    let place = bench.files.place();
    let (mut microseconds, mut rows) = (Vec::new(), Vec::new());
    for (region, numbers) in NUMBERS {
        let file = place.path().join(region).with_extension("csv");
        fs::write(&file, csv(&numbers)).unwrap();
        let region = PhoneRegion::of_code(region);
        let [with, without] = in_turn(
            ROUNDS,
            [&mut || read(&file, region), &mut || read(&file, None)],
        );
        let each = |seconds: f64| seconds * 1e6 / f64::from(ROWS);
        let without = median(&without);
        microseconds.push(each(median(&with) - without));
        rows.push(each(without));
    }
    let row = format!("a row without it {}", text(median(&rows), 2));
    table.add(&lines::PHONES, &microseconds, row);
}

/// Users with numbers of these forms.
fn csv(forms: &[&str]) -> String {
    let mut random = fastrand::Rng::with_seed(42);
    let mut csv = "name,email,phone,ip,user_agent\n".to_owned();
    for row in 0..ROWS {
        let form = forms[row as usize % forms.len()];
        let digit = |c| if c == '#' { random.digit(10) } else { c };
        let phone: String = form.chars().map(digit).collect();
        csv +=
            &format!("Jane Doe,user.{row}@mail.example,{phone},198.51.100.7,Mozilla/5.0 (X11)\n");
    }
    csv
}

/// Seconds for all rows, read and turned into requests. Without a region, the numbers are left out.
fn read(file: &Path, region: Option<PhoneRegion>) -> f64 {
    let mut settings = reader_settings(file);
    settings.rules = FieldRules::new(region, Invalid::Drop);
    let began = Instant::now();
    let (mut reader, _) = Reader::open(settings, compose()).unwrap();
    let mut with_phone = 0;
    while let Some(batch) = reader.next_batch().unwrap() {
        for row in batch.rows {
            let RowState::Asked(body) = row.state else {
                unreachable!("a row is not asked for");
            };
            with_phone += u32::from(body.windows(8).any(|part| part == b"\"phone\":"));
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    // Otherwise, something else would be measured.
    assert_eq!(with_phone, if region.is_some() { ROWS } else { 0 });
    seconds
}
