//! Reading a file and writing it back: without our cells the output is the input, whatever its content and however its
//! bytes arrive.
//!
//! The first [`CHOICES`] bytes of an input choose options, the rest is the file.

use bytes::{Bytes, BytesMut};
use rescore::internals::{
    AddedColumns, Assignments, Compose, DecisionPolicy, Failure, Field, FieldRules, FileSettings,
    FormatChoice, Input, Invalid, Layout, OutputFile, Plan, Reader, ReaderSettings, Reason, Result,
    Row, RowFiles, RowNumber, RowState, Selection, TextEncoding, UserRequest, Verdict, Writer,
    members as for_each_member, string, write_body,
};
use serde::de::IgnoredAny;

use super::cells::{self, Ours, is_appended};
use super::sides;
use super::{Drip, Kept};

/// How many bytes choose options.
const CHOICES: usize = 4;
/// Delimiters that may be given. The quote may not: in its place none is given.
const DELIMITERS: &[u8; 8] = b",;\t|_ \0\"";

/// Delimited text.
pub(crate) fn csv(input: &[u8]) {
    holds(input, FormatChoice::Csv);
}

/// Lines of JSON.
pub(crate) fn jsonl(input: &[u8]) {
    holds(input, FormatChoice::Jsonl);
}

fn holds(input: &[u8], format: FormatChoice) {
    let Some((choices, file)) = input.split_first_chunk::<CHOICES>() else {
        return;
    };
    // Bytes that are not UTF-8 pass through a file that is otherwise UTF-8, as a byte order mark says.
    let marked = [&b"\xef\xbb\xbf"[..], file].concat();
    let file = if std::str::from_utf8(file).is_ok() || is_packed(file) {
        file
    } else {
        &marked
    };
    let settings = settings(*choices, format);
    let [flags, _, step, pattern] = *choices;
    let whole = read(file, usize::MAX, &settings);
    let dripped = read(file, usize::from(step).max(1), &settings);
    // The bytes at hand decide whether a file is refused at the start, and a pipe's second row may come an hour later.
    if let (Ok(whole), Ok(dripped)) = (&whole, &dripped) {
        whole.agrees_with(dripped);
    }
    for contents in [whole, dripped].into_iter().flatten() {
        if contents.ended && !is_packed(file) {
            assert_eq!(contents.bytes(), file, "bytes were lost or made up");
        }
        let finished = contents.finished(pattern);
        let written = write(&contents.layout, &finished);
        if flags & 0x80 != 0 {
            sides::check(&contents.layout, &finished);
        }
        match cells::delimiter(&contents.layout) {
            Some(delimiter) => {
                check_cells(&contents, &finished, &written, delimiter);
                check_columns(&contents, &finished, &written, delimiter);
            }
            None => check_members(&contents, &finished, &written),
        }
    }
}

fn settings([flags, delimiter, ..]: [u8; CHOICES], format: FormatChoice) -> ReaderSettings {
    let has = |bit: u8| flags & (1 << bit) != 0;
    let mut assignments = Assignments::default();
    if has(2) {
        // Then any file has all that is needed.
        for (field, value) in [
            (Field::Name, "N"),
            (Field::Email, "n@example.com"),
            (Field::Ip, "192.0.2.1"),
            (Field::UserAgent, "u"),
        ] {
            assignments.set(field, value.to_owned()).unwrap();
        }
    }
    let reason = (delimiter & 0x80 != 0).then_some(cells::REASON);
    let columns = AddedColumns::new("", has(3).then_some("level"), reason);
    ReaderSettings {
        file: FileSettings {
            input: Input::Stdin,
            format: if has(4) { FormatChoice::Detect } else { format },
            encoding: TextEncoding::UTF_8,
            delimiter: DELIMITERS
                .get(usize::from(delimiter & 0x7f))
                .copied()
                .filter(|byte| *byte != b'"'),
            no_header: false,
            quotes: true,
        },
        assignments,
        rules: FieldRules::new(
            None,
            if has(5) {
                Invalid::Drop
            } else {
                Invalid::Reject
            },
        ),
        columns,
        judges_first_rows: true,
        notes_quality: true,
        refuses_cut: true,
        selection: Selection::default(),
        only: Vec::new(),
        key: None,
        scored: None,
    }
}

/// Whether it is read as something compressed.
fn is_packed(file: &[u8]) -> bool {
    file.starts_with(&[0x1f, 0x8b])
        || file.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
        || matches!(file, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// All that was read.
struct Contents {
    layout: Layout,
    rows: Vec<Row>,
    trailer: Bytes,
    /// It was read to its end.
    ended: bool,
}

fn read(file: &[u8], step: usize, settings: &ReaderSettings) -> Result<Contents> {
    let compose = |request: &UserRequest<'_>, to: &mut BytesMut| {
        write_body(request, Plan::Free, to);
    };
    let source = Drip::new(file, step);
    let (mut reader, opened) = Reader::over(source, settings.clone(), Compose::new(compose))?;
    let mut contents = Contents {
        layout: opened.layout,
        rows: Vec::new(),
        trailer: Bytes::new(),
        ended: false,
    };
    loop {
        match reader.next_batch() {
            Ok(Some(batch)) => {
                assert!(
                    contents.trailer.is_empty(),
                    "rows after the last blank lines"
                );
                contents.rows.extend(batch.rows);
                contents.trailer = batch.trailer;
            }
            Ok(None) => {
                contents.ended = true;
                break;
            }
            Err(error) => {
                assert_eq!(error.exit().code(), 2, "{}", error.report());
                break;
            }
        }
    }
    let mut number = RowNumber::FIRST;
    for row in &contents.rows {
        assert_eq!(row.number, number, "rows are out of order");
        number = number.next();
    }
    Ok(contents)
}

impl Contents {
    /// Everything that was read.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.layout.preamble.to_vec();
        bytes.extend(
            self.layout
                .header
                .iter()
                .flat_map(|header| header.bytes.iter()),
        );
        bytes.extend(self.rows.iter().flat_map(|row| row.raw.bytes.iter()));
        bytes.extend_from_slice(&self.trailer);
        bytes
    }

    /// Rows that both have are equal.
    fn agrees_with(&self, other: &Self) {
        if self.layout.format != other.layout.format {
            // The delimiter is guessed from the bytes at hand.
            return;
        }
        for (a, b) in self.rows.iter().zip(&other.rows) {
            assert_eq!(a.raw.bytes, b.raw.bytes);
            assert_eq!(a.raw.content, b.raw.content);
            assert_eq!(a.raw.scored_cells, b.raw.scored_cells);
            assert_eq!(a.state.failure(), b.state.failure());
            assert_eq!(body(a), body(b));
        }
        assert_eq!(self.ended, other.ended, "only one was read to its end");
        if self.ended && other.ended {
            assert_eq!(self.rows.len(), other.rows.len());
            assert_eq!(self.trailer, other.trailer);
        }
    }

    /// The rows with verdicts: rows without a request fail, and of every eight others those in the pattern.
    fn finished(&self, pattern: u8) -> Vec<Row> {
        let verdict = |row: &Row| match row.state.failure() {
            Some(failure) => Verdict::Failed(failure.clone()),
            None if pattern >> (row.number.get() % 8) & 1 == 1 => {
                Verdict::Failed(Failure::new(Reason::Refused, "no"))
            }
            None => cells::scored(row.number),
        };
        let finished = |row: &Row| Row {
            number: row.number,
            raw: row.raw.clone(),
            state: RowState::Done {
                verdict: verdict(row),
                old: None,
            },
        };
        self.rows.iter().map(finished).collect()
    }
}

/// What asks for a row that was read.
fn body(row: &Row) -> Option<&[u8]> {
    match &row.state {
        RowState::Asked(body) => Some(body),
        _ => None,
    }
}

/// The verdict of a finished row.
pub(super) fn verdict(row: &Row) -> &Verdict {
    match &row.state {
        RowState::Done { verdict, .. } => verdict,
        other => panic!("row {} has no verdict: {other:?}", row.number),
    }
}

/// What the writer wrote for the rows.
struct Output {
    /// The byte order mark and the header.
    head: Vec<u8>,
    rows: Vec<Vec<u8>>,
}

fn write(layout: &Layout, finished: &[Row]) -> Output {
    let writer = |kept: &Kept| {
        let files = RowFiles::new(OutputFile::stream(kept.clone()), None, None);
        Writer::new(layout.clone(), DecisionPolicy::default(), files)
    };
    let (at_once, singly) = (Kept::default(), Kept::default());
    assert!(writer(&at_once).write(finished).is_ok());
    let mut writer = writer(&singly);
    let mut put = |rows: &[Row]| {
        assert!(writer.write(rows).is_ok());
        singly.take()
    };
    let head = put(&[]);
    let rows: Vec<_> = finished.chunks(1).map(put).collect();
    let joined = [&head, &rows.concat()].map(Vec::as_slice).concat();
    assert_eq!(
        at_once.bytes(),
        joined,
        "rows are written otherwise together"
    );
    Output { head, rows }
}

/// Without our cells the output is the input.
fn check_cells(contents: &Contents, finished: &[Row], written: &Output, delimiter: u8) {
    let layout = &contents.layout;
    let head = written.head.strip_prefix(&*layout.preamble).unwrap();
    let Some(header) = &layout.header else {
        assert!(finished.is_empty() && head.is_empty(), "an empty file");
        return;
    };
    let ours = Ours::of_header(layout, header, delimiter);
    assert!(ours.are_all_that_is_new(head, header, b""), "the header");
    for (row, written) in finished.iter().zip(&written.rows) {
        let verdict = verdict(row);
        let ours = Ours::of_cells(layout, row, verdict, delimiter);
        let number = row.number;
        assert!(
            ours.are_all_that_is_new(written, &row.raw, b""),
            "row {number}"
        );
    }
}

/// Whether parsers disagree about the row's cells.
pub(super) fn is_broken(finished: &Row) -> bool {
    matches!(verdict(finished), Verdict::Failed(failure) if failure.reason == Reason::TextAfterQuote)
}

/// As another parser reads it, every cell of the input is in its place, and ours are under our names.
fn check_columns(contents: &Contents, finished: &[Row], written: &Output, delimiter: u8) {
    // With our empty cells, a row of one empty cell is a blank line.
    let is_blank = |row: &Row| row.raw.content() == b"\"\"";
    if !contents.ended || finished.iter().any(|row| is_broken(row) || is_blank(row)) {
        return;
    }
    let layout = &contents.layout;
    let Some(header) = &layout.header else {
        return;
    };
    let skip = layout.preamble.len();
    let bytes = &contents.bytes()[skip..];
    // For the csv crate, a byte order mark before a later record is part of a cell.
    if bytes.windows(3).any(|three| three == b"\xef\xbb\xbf") {
        return;
    }
    let read = by_the_csv_crate(bytes, delimiter);
    let head = written.head[skip..].to_vec();
    let wrote = by_the_csv_crate(&[head, written.rows.concat()].concat(), delimiter);
    assert_eq!(read.len(), wrote.len());
    assert_eq!(read.len(), 1 + finished.len());
    let appended: Vec<_> = (0..layout.columns.len())
        .filter(|column| is_appended(header, *column))
        .collect();
    for ((old, new), row) in read.iter().zip(&wrote).skip(1).zip(finished) {
        let verdict = verdict(row);
        let (number, value) = (row.number, |column| {
            cells::value(layout, row, verdict, column)
        });
        assert_eq!(new.len(), old.len() + appended.len(), "row {number}");
        // In a ragged row it is not defined which cells are ours.
        let ragged = old.len() != read[0].len();
        assert!(!ragged || row.raw.scored_cells.is_empty(), "row {number}");
        let (kept, added) = new.split_at(old.len());
        for (column, cell) in appended.iter().zip(added) {
            assert_eq!(*cell, value(*column).into_bytes(), "row {number}");
        }
        let places = wrote[0].iter().map(|name| String::from_utf8_lossy(name));
        for ((before, after), name) in old.iter().zip(kept).zip(places) {
            let ours = layout.columns.iter().position(|ours| ours == name.trim());
            match ours.filter(|_| !row.raw.scored_cells.is_empty()) {
                Some(column) => assert_eq!(*after, value(column).into_bytes(), "row {number}"),
                None => assert_eq!(before, after, "row {number}"),
            }
        }
    }
}

pub(super) fn by_the_csv_crate(text: &[u8], delimiter: u8) -> Vec<Vec<Vec<u8>>> {
    let mut reader = ::csv::ReaderBuilder::new();
    let reader = reader
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter);
    let records = reader.from_reader(text).into_byte_records();
    // A line of empty cells is a blank line.
    let is_row =
        |cells: &Vec<Vec<u8>>| cells.len() == 1 || cells.iter().any(|cell| !cell.is_empty());
    records
        .map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect())
        .filter(is_row)
        .collect()
}

/// Without our members the output is the input, and valid JSON stays valid.
fn check_members(contents: &Contents, finished: &[Row], written: &Output) {
    let layout = &contents.layout;
    assert_eq!(written.head, layout.preamble);
    for (row, written) in finished.iter().zip(&written.rows) {
        let verdict = verdict(row);
        let number = row.number;
        if stays(verdict) {
            assert_eq!(*written, row.raw.bytes, "row {number}");
            continue;
        }
        assert!(
            is_json(row.raw.content()),
            "row {number} is no JSON and has a verdict"
        );
        // Blank lines before the row may contain bytes that are not white space in JSON.
        let line = &written[row.raw.before().len()..];
        assert!(is_json(line), "row {number} became broken JSON");
        let content = row.raw.content().trim_ascii_end();
        let tail = &row.raw.content()[content.len() - 1..];
        assert!(tail.starts_with(b"}"), "row {number}");
        let ours = Ours::of_members(layout, row, verdict);
        assert!(
            ours.are_all_that_is_new(written, &row.raw, tail),
            "row {number}"
        );
        let (Some(old), Some(new)) = (members(row.raw.content()), members(line)) else {
            continue;
        };
        assert_eq!(new, expected(&old, layout, row, verdict), "row {number}");
    }
}

/// Whether the line has no place for our members, or must not get them.
const fn stays(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Failed(failure) => matches!(
            failure.reason,
            Reason::NotJson | Reason::NotAnObject | Reason::ExistingColumns
        ),
        Verdict::Scored(..) => false,
    }
}

pub(super) fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// Names and values of an object's members; `None` if it is not UTF-8.
fn members(text: &[u8]) -> Option<Vec<(String, String)>> {
    let text = std::str::from_utf8(text).ok()?;
    let mut members = Vec::new();
    let taken = for_each_member(text, |key, value| {
        let name = string(key).unwrap_or_default().into_owned();
        members.push((name, value.to_owned()));
    });
    taken.is_ok().then_some(members)
}

/// The members that an object should have in the output.
fn expected(
    old: &[(String, String)],
    layout: &Layout,
    row: &Row,
    verdict: &Verdict,
) -> Vec<(String, String)> {
    let ours = |name: &str| layout.columns.iter().position(|ours| ours == name);
    let mut expected: Vec<_> = old
        .iter()
        .map(|(name, value)| match ours(name) {
            Some(column) => (name.clone(), cells::json(layout, row, verdict, column)),
            None => (name.clone(), value.clone()),
        })
        .collect();
    for (column, name) in layout.columns.iter().enumerate() {
        if old.iter().all(|(old, _)| old != name) {
            expected.push((name.clone(), cells::json(layout, row, verdict, column)));
        }
    }
    expected
}
