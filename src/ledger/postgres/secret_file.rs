//! The secret that all keys of a ledger are made with, in a file of its own: with a copy of the database alone, nobody can
//! tell who is in it.
//!
//! The database has only a check value, so that a wrong secret is refused and does not pay for everybody again.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::Write as _;
use std::path::Path;
use std::time::SystemTime;

use super::private_file;
use crate::base::error::{Error, Result, shown};
use crate::base::own_file;
use crate::ledger::clock::millis;
use crate::ledger::file::PRIVATE;
use crate::ledger::request_key::RequestHasher;

/// How many bytes a secret has.
const BYTES: usize = 32;

/// The secret of a ledger.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct HashingSecret([u8; BYTES]);

/// Shows nothing of it.
impl std::fmt::Debug for HashingSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashingSecret(…)")
    }
}

impl HashingSecret {
    /// Of these bytes.
    pub(super) const fn of(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// Draws a new one.
    pub(super) fn draw() -> Self {
        let mut hasher = blake3::Hasher::new();
        // The standard library seeds each of these from the system's source of random numbers.
        for _ in 0..8 {
            hasher.update(&RandomState::new().hash_one(()).to_le_bytes());
        }
        hasher.update(&millis(SystemTime::now()).to_le_bytes());
        Self(*hasher.finalize().as_bytes())
    }

    /// Reads it from a file.
    ///
    /// # Errors
    /// Exit code 2: the file cannot be read, can be read by others, or has no secret.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = private_file::read(file, "the ledger's secret").map_err(|error| {
            let made = "`rescore ledger init` makes the file; all machines need the same one";
            match error.hint_text() {
                Some(_) => error,
                None => error.hint(made),
            }
        })?;
        parse(text.trim_end()).map(Self).ok_or_else(|| {
            Error::usage(format!("`{}` has no secret of a ledger", shown(file)))
                .detail("that is a line of 64 hexadecimal digits")
                .hint("name the file that `rescore ledger init` has made")
        })
    }

    /// Writes it to a new file that nobody else may read.
    ///
    /// # Errors
    /// Exit code 2: there is one already, or it cannot be made.
    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let cannot = |e| {
            Error::usage(format!(
                "cannot write the ledger's secret to `{}`",
                shown(file)
            ))
            .because(e)
            .about(file)
        };
        let mut text: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        text.push('\n');
        let mut to = own_file::open(file, PRIVATE, true).map_err(cannot)?;
        let written = to.write_all(text.as_bytes()).and_then(|()| to.sync_all());
        written.map_err(cannot)
    }

    /// What the database has of it.
    pub(super) fn check_value(&self) -> [u8; 16] {
        half(&blake3::keyed_hash(&self.0, b"rescore ledger: check value"))
    }

    /// What the database has of an account: its name, and what makes its keys, sealed. Without the secret, neither tells
    /// what a request's key is.
    pub(super) fn seal(&self, hasher: &RequestHasher) -> SealedContext {
        let name = name_of(hasher);
        SealedContext {
            name,
            bytes: self.mask(&name, hasher.context()),
        }
    }

    /// Opens what was sealed; `None` if it was not sealed with this secret.
    pub(super) fn open(&self, sealed: &SealedContext) -> Option<RequestHasher> {
        let hasher = RequestHasher::of_context(self.mask(&sealed.name, &sealed.bytes));
        (name_of(&hasher) == sealed.name).then_some(hasher)
    }

    fn mask(&self, name: &[u8; 16], bytes: &[u8; BYTES]) -> [u8; BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        // The prefix keeps it apart from what makes keys, which starts with a length.
        hasher.update(b"rescore ledger: context").update(name);
        let mut masked = *hasher.finalize().as_bytes();
        for (masked, byte) in masked.iter_mut().zip(bytes) {
            *masked ^= byte;
        }
        masked
    }

    /// The bytes, which make keys.
    pub(super) const fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }
}

/// An account as the database has it.
pub(super) struct SealedContext {
    /// The name that it is found by.
    pub(super) name: [u8; 16],
    /// What makes its keys, sealed.
    pub(super) bytes: [u8; BYTES],
}

/// The name of an account: no way leads back from it.
pub(super) fn name_of(hasher: &RequestHasher) -> [u8; 16] {
    half(&blake3::keyed_hash(hasher.context(), b"name"))
}

/// The first half of a hash.
fn half(hash: &blake3::Hash) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(hash.as_bytes().split_at(16).0);
    half
}

fn parse(text: &str) -> Option<[u8; BYTES]> {
    let mut digits = text.chars().map(|digit| digit.to_digit(16));
    let mut secret = [0; BYTES];
    for byte in &mut secret {
        *byte = u8::try_from(digits.next()?? << 4 | digits.next()??).ok()?;
    }
    digits.next().is_none().then_some(secret)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_secret_is_read_back_and_written_only_once() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("secret");
        let secret = HashingSecret::draw();
        assert_ne!(secret, HashingSecret::draw());
        secret.write(&file).unwrap();
        assert_eq!(HashingSecret::read(&file).unwrap(), secret);
        assert_eq!(own_file::mode_of(&fs::metadata(&file).unwrap()), PRIVATE);
        assert_eq!(secret.write(&file).unwrap_err().exit().code(), 2);
        assert_eq!(format!("{secret:?}"), "HashingSecret(…)");
    }

    /// Writes a file that nobody else may read.
    fn write_private(file: &Path, text: &str) {
        let _ = fs::remove_file(file);
        let mut to = own_file::open(file, PRIVATE, true).unwrap();
        to.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;

        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("secret");
        HashingSecret::draw().write(&file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let error = HashingSecret::read(&file).unwrap_err();
        assert_eq!(error.exit().code(), 2);
        let report = error.report();
        assert!(report.contains("can read the ledger's secret"), "{report}");
        assert!(report.contains("hint: `chmod 600 "), "{report}");
        let missing = HashingSecret::read(&place.path().join("none")).unwrap_err();
        assert!(missing.report().contains("`rescore ledger init` makes"));
    }

    #[test]
    fn only_the_secret_opens_what_it_has_sealed() {
        let secret = HashingSecret::of([1; BYTES]);
        let hasher = RequestHasher::new(secret.bytes(), "https://a", "b");
        let sealed = secret.seal(&hasher);
        assert_ne!(&sealed.bytes, hasher.context());
        let opened = secret.open(&sealed).unwrap();
        assert_eq!(opened.context(), hasher.context());
        assert!(HashingSecret::of([2; BYTES]).open(&sealed).is_none());
    }

    #[test]
    fn anything_else_is_not_a_secret() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("secret");
        for text in ["", "abc", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64)] {
            write_private(&file, text);
            let report = HashingSecret::read(&file).unwrap_err().report();
            assert!(report.contains("64 hexadecimal digits"), "{report}");
        }
    }
}
