//! Whether the input is UTF-8 text: judged by its first MiB, as the bytes arrive.
//!
//! A byte order mark decides on the encoding, or else the first line with anything beyond ASCII, so that it does not
//! matter in what pieces the bytes come. Where that is UTF-8, bytes that are not are the fault of single rows. Where it is
//! not, the file is in another encoding, and no row of it should be paid for. A file whose encoding changes later is
//! judged by its start.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use memchr::{memchr, memchr2, memchr2_iter};

use super::magic::{self, Foreign};
use crate::error::Error;

/// How much of the input is judged: it is read in a moment, and one MiB of users shows what letters a file has.
pub(super) const HEAD: usize = 1024 * 1024;

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Judges bytes in the order in which they come.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// The first bytes, by which formats are recognised.
    start: Vec<u8>,
    /// How many bytes have been judged.
    judged: usize,
    /// Line ends among them.
    lines: u64,
    /// The last of them is a CR, which an LF may follow.
    after_cr: bool,
    /// The line that decides, from its first byte beyond ASCII on, as far as it has come.
    deciding: Vec<u8>,
    is_utf8: bool,
}

/// Why the input is not text that can be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotText {
    /// It has a format of its own.
    Foreign(Foreign),
    /// A NUL byte on this line.
    Nul(u64),
    /// This line is in another encoding.
    Encoding(u64),
}

impl Judge {
    /// Fails when the first bytes are those of a format that is not read.
    pub(super) fn foreign(&self) -> Result<(), NotText> {
        magic::foreign(&self.start).map_or(Ok(()), |foreign| Err(NotText::Foreign(foreign)))
    }

    /// Judges the next bytes. What is beyond the head is not looked at.
    pub(super) fn take(&mut self, bytes: &[u8], at_end: bool) -> Result<(), NotText> {
        let bytes = bytes.get(..HEAD - self.judged).unwrap_or(bytes);
        self.judged += bytes.len();
        let missing = magic::START.saturating_sub(self.start.len());
        let start = bytes.get(..missing).unwrap_or(bytes);
        self.start.extend_from_slice(start);
        let found = self.find(bytes, at_end || self.judged == HEAD);
        // A known format says more than whatever else is wrong with its bytes.
        found.map_err(|wrong| self.foreign().err().unwrap_or(wrong))
    }

    fn find(&mut self, bytes: &[u8], over: bool) -> Result<(), NotText> {
        let mut rest = bytes;
        if let Some(nul) = memchr(0, bytes) {
            self.count_lines(bytes.get(..nul).unwrap_or_default());
            return Err(NotText::Nul(self.lines + 1));
        }
        // A byte order mark decides as well.
        self.is_utf8 |= self.start.starts_with(BYTE_ORDER_MARK);
        if self.is_utf8 {
            return Ok(());
        }
        if self.deciding.is_empty() {
            let ascii = bytes.iter().take_while(|byte| byte.is_ascii()).count();
            let (before, from) = bytes.split_at(ascii);
            self.count_lines(before);
            rest = from;
        }
        let line = memchr2(b'\n', b'\r', rest);
        self.deciding
            .extend_from_slice(rest.get(..line.unwrap_or(rest.len())).unwrap_or_default());
        if self.deciding.is_empty() || (line.is_none() && !over) {
            return Ok(());
        }
        match std::str::from_utf8(&self.deciding) {
            // The head may end within a character.
            Err(e) if e.error_len().is_some() || line.is_some() || self.judged < HEAD => {
                Err(NotText::Encoding(self.lines + 1))
            }
            _ => {
                self.is_utf8 = true;
                self.deciding = Vec::new();
                Ok(())
            }
        }
    }

    fn count_lines(&mut self, bytes: &[u8]) {
        for at in memchr2_iter(b'\n', b'\r', bytes) {
            let before = at.checked_sub(1).and_then(|before| bytes.get(before));
            let after_cr = before.map_or(self.after_cr && at == 0, |byte| *byte == b'\r');
            self.lines += u64::from(bytes.get(at) == Some(&b'\r') || !after_cr);
        }
        if let Some(last) = bytes.last() {
            self.after_cr = *last == b'\r';
        }
    }
}

impl NotText {
    /// The error; `bytes` are what there is of the input called `name`.
    pub(super) fn error(&self, name: &str, bytes: &[u8]) -> Error {
        match self {
            Self::Foreign(Foreign { what, fix }) => {
                Error::usage(format!("cannot read {name}: it is {what}")).hint(*fix)
            }
            Self::Nul(line) => Error::usage(format!(
                "cannot read {name}: it is not text, as line {line} has a NUL byte"
            ))
            .hint("give the users as CSV, TSV or JSONL in UTF-8"),
            Self::Encoding(line) => {
                let encoding = encoding(bytes.get(..HEAD).unwrap_or(bytes));
                Error::usage(format!(
                    "cannot read {name}: line {line} is not UTF-8 and looks like {encoding}"
                ))
                .hint(format!("convert it with `iconv -f {encoding} -t UTF-8`"))
            }
        }
    }
}

/// The encoding that bytes look like which are not UTF-8.
fn encoding(bytes: &[u8]) -> &'static str {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Deny).name()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict on bytes that come so many at a time.
    fn judged(bytes: &[u8], step: usize) -> Result<(), NotText> {
        let mut judge = Judge::default();
        for piece in bytes.chunks(step) {
            judge.take(piece, false)?;
        }
        judge.take(b"", true)
    }

    #[test]
    fn the_first_line_beyond_ascii_decides_however_the_bytes_arrive() {
        for (text, expected) in [
            (&b"name\r\nJane\r\n"[..], Ok(())),
            (b"name\r\nJ\xc3\xbcrgen\r\nJ\xfcrgen", Ok(())),
            (b"\xef\xbb\xbfJ\xfcrgen\n", Ok(())),
            (
                b"name\r\nJ\xfcrgen\r\nJ\xc3\xbcrgen",
                Err(NotText::Encoding(2)),
            ),
            (b"name\rJane\r\nJos\xe9", Err(NotText::Encoding(3))),
            // One good letter does not make a line UTF-8.
            (b"\xc3\xbc,\xfc\n", Err(NotText::Encoding(1))),
            (b"J\xc3", Err(NotText::Encoding(1))),
            (b"name\n\nJa\0ne\n", Err(NotText::Nul(3))),
        ] {
            for step in 1..=text.len() {
                assert_eq!(judged(text, step), expected, "{step}: {text:?}");
            }
        }
    }

    #[test]
    fn only_the_head_is_judged_and_it_may_end_within_a_letter() {
        let ascii = vec![b'x'; HEAD - 1];
        for (tail, right) in [
            ("\u{fc}".as_bytes(), true),
            (b"\xfc", false),
            (b"\0", false),
        ] {
            let text = [&ascii, tail].concat();
            assert_eq!(judged(&text, 4_096).is_ok(), right, "{tail:?}");
        }
        let text = [&ascii[..], b"x\xfc\0"].concat();
        assert_eq!(judged(&text, 4_096), Ok(()));
    }

    #[test]
    fn the_encoding_is_guessed() {
        for (text, expected) in [
            (
                &b"Jos\xe9 Mu\xf1oz, J\xfcrgen Stra\xdfe"[..],
                "windows-1252",
            ),
            (
                b"\xcf\xf0\xe8\xe2\xe5\xf2, \xc8\xe2\xe0\xed \xcf\xe5\xf2\xf0\xee\xe2",
                "windows-1251",
            ),
        ] {
            assert_eq!(encoding(text), expected);
        }
    }
}
