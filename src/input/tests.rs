//! Reading when reads fail, are short or return single bytes: rows are complete and correct, or there is an error.

use std::io::{self, Read};

use bytes::{Bytes, BytesMut};

use super::{Compose, Input, Reader, ReaderSettings};
use crate::base::error::Result;
use crate::fields::UserRequest;

/// Returns at most `step` bytes per read, is interrupted at every third read, and fails at the
/// `fails`th.
struct Unsteady {
    bytes: io::Cursor<Vec<u8>>,
    step: usize,
    reads: usize,
    fails: usize,
}

impl Read for Unsteady {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        if self.reads == self.fails {
            return Err(io::Error::other("the disk is on fire"));
        }
        if self.reads.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let most = self.step.min(into.len());
        self.bytes.read(&mut into[..most])
    }
}

/// The bytes of all rows and whether they are valid, and how reading ended.
fn read(bytes: &[u8], step: usize, fails: usize) -> (Vec<(Bytes, bool)>, Result<()>) {
    let source = Unsteady {
        bytes: io::Cursor::new(bytes.to_vec()),
        step,
        reads: 0,
        fails,
    };
    let compose = Compose::new(|request: &UserRequest<'_>, to: &mut BytesMut| {
        to.extend_from_slice(request.name.as_bytes());
    });
    let settings = ReaderSettings::without_options(Input::Stdin);
    let mut rows = Vec::new();
    let mut reader = match Reader::over(source, settings, compose) {
        Ok((reader, _)) => reader,
        Err(error) => return (rows, Err(error)),
    };
    loop {
        match reader.next_batch() {
            Ok(Some(batch)) => rows.extend(batch.rows.into_iter().map(|row| {
                let is_valid = row.state.failure().is_none();
                (row.raw.bytes, is_valid)
            })),
            Ok(None) => return (rows, Ok(())),
            Err(error) => return (rows, Err(error)),
        }
    }
}

const CSV: &str = "name,email,ip,user_agent\r\n\"A\nB\",a@x.org,::1,u\r\n\nC,c@x.org,\
    \"::1\",u\rD,d@x.org,nowhere,u\nE,e@x.org,::1,\"u \"\"v\"\"\"";
const JSONL: &str = "{\"name\":\"A\",\"email\":\"a@x.org\",\"ip\":\"::1\",\"user_agent\":\"u\"}\n\nno json\r\n\
    {\"name\":\"\u{fc}\",\"email\":\"b@x.org\",\"ip\":\"::1\",\"user_agent\":\"u\"}";

#[test]
fn rows_are_the_same_however_the_bytes_arrive() {
    for text in [CSV, JSONL] {
        let (whole, ended) = read(text.as_bytes(), usize::MAX, 0);
        assert!(ended.is_ok());
        assert!(
            whole.len() >= 3 && whole.iter().any(|(_, valid)| !valid),
            "{whole:?}"
        );
        for step in 1..text.len() {
            let (rows, ended) = read(text.as_bytes(), step, 0);
            assert!(ended.is_ok(), "{step}");
            assert_eq!(rows, whole, "{step} bytes at a time");
        }
    }
}

/// As in `SQLite`'s own tests: the first operation fails, then the second, and so on, until none
/// fails.
#[test]
fn a_failed_read_is_an_error_and_never_a_short_file() {
    for text in [CSV, JSONL] {
        let (whole, _) = read(text.as_bytes(), 7, 0);
        let mut failures = 0;
        for fails in 1.. {
            let (rows, ended) = read(text.as_bytes(), 7, fails);
            let Err(error) = ended else {
                assert_eq!(rows, whole);
                break;
            };
            failures += 1;
            let report = error.report();
            assert!(report.contains("the disk is on fire"), "{report}");
            assert!(whole.starts_with(&rows), "{fails}: {rows:?}");
        }
        assert!(failures > text.len() / 7, "{failures}");
    }
}
