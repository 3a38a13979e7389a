//! The API key as it lies in a file or variable: reading it, checking it, and reading its file again in mid-run.
//!
//! Whoever found the key, this says whether it can be one. It must not know options, variables or the service, and no
//! message of it repeats a key.

use std::error::Error as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result, system_words};
use crate::base::secret::Secret;

/// A file with an API key in it. It may hold another one later: keys are rotated.
#[derive(Debug, Clone)]
pub struct KeyFile(PathBuf);

impl KeyFile {
    /// The file at `path`; it is not looked at yet.
    #[must_use]
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Where it is.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the key that is in it now.
    ///
    /// # Errors
    /// Exit code 2: it cannot be read, or holds no usable key.
    pub(crate) fn read(&self) -> Result<Secret> {
        let shown = self.0.display();
        let bytes = fs::read(&self.0).map_err(|e| {
            Error::usage(format!("cannot read the API key in `{shown}`")).because(e)
        })?;
        let place = format!("in `{shown}`");
        let text = String::from_utf8(bytes).map_err(|_| unusable_key(&place))?;
        // Editors end files with one line end; more than one is not an editor's doing.
        let key = text
            .strip_suffix('\n')
            .map_or(text.as_str(), |key| key.strip_suffix('\r').unwrap_or(key));
        check_key(key, &place)
    }

    /// Reads the file once more, in mid-run, for another key than `known`.
    ///
    /// # Errors
    /// Why there is none, in one sentence.
    pub(super) fn read_again(&self, known: &Secret) -> Result<Secret, String> {
        let shown = self.0.display();
        // A pipe has given its key away, and opening a named one would wait for a writer, with every call behind it.
        if fs::metadata(&self.0).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(format!(
                "the API key in `{shown}` cannot be read again: it is not a regular file"
            ));
        }
        let key = self
            .read()
            .map_err(|error| format!("the API key was to be read again: {}", words(&error)))?;
        if key.expose() == known.expose() {
            return Err(format!("`{shown}` was read again and holds the same key"));
        }
        Ok(key)
    }

    /// What to warn of: others on this machine can read it.
    #[must_use]
    pub(crate) fn warning(&self) -> Option<String> {
        let shown = self.0.display();
        open_to_others(&self.0).then(|| {
            format!(
                "others on this machine can read the API key in `{shown}`; `chmod 600` keeps it to you"
            )
        })
    }
}

/// Takes a key that was found at `place`, as "in `FILE`".
///
/// # Errors
/// Exit code 2: it is empty, or has characters that no key has.
pub(crate) fn check_key(key: &str, place: &str) -> Result<Secret> {
    if key.is_empty() {
        return Err(Error::usage(format!("the API key {place} is empty")));
    }
    // A bearer token has no white space (RFC 6750, section 2.1); what cannot stand in a header would come back as a 401.
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(unusable_key(place));
    }
    Ok(Secret::new(key))
}

/// The error for a key at `place` that has characters which no key has.
#[must_use]
pub(crate) fn unusable_key(place: &str) -> Error {
    Error::usage(format!(
        "the API key {place} has a line break, white space or other characters that no key has"
    ))
}

/// An error of [`KeyFile::read`] on one line.
fn words(error: &Error) -> String {
    match error
        .source()
        .and_then(<dyn std::error::Error>::downcast_ref::<io::Error>)
    {
        Some(cause) => format!("{error}: {}", system_words(cause)),
        None => error.to_string(),
    }
}

#[cfg(unix)]
fn open_to_others(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & 0o044 != 0)
}

#[cfg(not(unix))]
fn open_to_others(_: &Path) -> bool {
    false
}
