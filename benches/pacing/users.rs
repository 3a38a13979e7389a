//! Files of made-up users, and the number of the row that a call is for.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use memchr::memmem;

/// The text before the number in a user's email address.
const BEFORE_NUMBER: &[u8] = b"\"user.";

/// Writes a CSV file with these users.
pub(crate) fn write(path: &Path, numbers: impl Iterator<Item = u32>) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    writeln!(file, "user_id,name,email,ip,user_agent").unwrap();
    for n in numbers {
        writeln!(
            file,
            "{n},Jane Doe,user.{n}@mail{}.example,198.51.100.{},Mozilla/5.0 (X11; Linux x86_64)",
            n % 100,
            n % 256
        )
        .unwrap();
    }
    // Writing it to the disk must not be measured.
    file.into_inner().unwrap().sync_all().unwrap();
}

/// The number of the user that this body asks about.
pub(crate) fn number(body: &[u8]) -> Option<u32> {
    let at = memmem::find(body, BEFORE_NUMBER)? + BEFORE_NUMBER.len();
    let digits = body[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
}
