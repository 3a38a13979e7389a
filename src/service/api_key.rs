//! API keys: those that a run has used, and the file of one, which is read again during a run.
//!
//! It decides whether a text can be an API key, regardless of its source. It must not know options,
//! variables or the service, and its messages never repeat a key.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::private_file::read_small;
use crate::base::secret::Secret;

/// Every API key that a run has used. After a rotation, any answer may repeat the old or the new
/// key. Clones share the keys.
#[derive(Debug, Clone, Default)]
pub struct ApiKeys(pub(super) Arc<[Secret]>);

impl ApiKeys {
    /// The key that a run starts with.
    pub fn new(key: Secret) -> Self {
        Self(Arc::new([key]))
    }

    /// These keys and one more.
    pub(crate) fn and(&self, key: &Secret) -> Self {
        let others = self.0.iter().filter(|known| known.expose() != key.expose());
        Self(others.chain([key]).cloned().collect())
    }
}

/// Where an API key is.
#[derive(Debug, Clone)]
pub(crate) enum KeySource {
    /// In a variable, which cannot change during the run.
    Variable(Secret),
    /// In a file that an option or systemd names.
    File(KeyFile),
}

impl KeySource {
    /// The key that is there now.
    ///
    /// # Errors
    /// Exit code 2: it cannot be read, or is not usable.
    pub(crate) fn read(&self) -> Result<Secret> {
        match self {
            Self::Variable(key) => Ok(key.clone()),
            Self::File(file) => file.read(),
        }
    }

    /// The file, if it is in one.
    pub(crate) const fn file(&self) -> Option<&KeyFile> {
        match self {
            Self::Variable(_) => None,
            Self::File(file) => Some(file),
        }
    }
}

/// A file with an API key. It may have another key later, as keys are rotated.
#[derive(Debug, Clone)]
pub(crate) struct KeyFile(PathBuf);

impl KeyFile {
    /// The file at `path`; it is not opened yet.
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the key that is in the file now.
    ///
    /// # Errors
    /// Exit code 2: it cannot be read, or has no usable key.
    fn read(&self) -> Result<Secret> {
        let path = self.0.display();
        let bytes = read_small(&self.0).map_err(|e| {
            Error::usage(format!("cannot read the API key from `{path}`")).because(e)
        })?;
        let origin = format!("in `{path}`");
        let text = String::from_utf8(bytes).map_err(|_| unusable_key(&origin))?;
        // Editors add one line end to a file. More than one does not come from an editor.
        let key = text
            .strip_suffix('\n')
            .map_or(text.as_str(), |key| key.strip_suffix('\r').unwrap_or(key));
        check_key(key, &origin)
    }

    /// Reads the file again during a run, for another key than the last one that was `used`.
    ///
    /// # Errors
    /// Why there is no new key, in one sentence.
    pub(super) fn read_again(&self, used: &ApiKeys) -> Result<Secret, String> {
        let path = self.0.display();
        // The key in a pipe can be read only once, and opening a named pipe would block all calls
        // until another program writes to it.
        if fs::metadata(&self.0).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(format!(
                "cannot read the API key in `{path}` again: it is not a regular file"
            ));
        }
        let key = self
            .read()
            .map_err(|error| format!("no new API key: {}", error.log_words()))?;
        if used.0.last().map(Secret::expose) == Some(key.expose()) {
            return Err(format!("`{path}` was read again and has the same API key"));
        }
        Ok(key)
    }

    /// A warning if other users of this machine can read the file.
    pub(crate) fn warning(&self) -> Option<String> {
        use std::os::unix::fs::PermissionsExt;
        let path = self.0.display();
        let is_open = |file: fs::Metadata| file.permissions().mode() & 0o044 != 0;
        fs::metadata(&self.0).is_ok_and(is_open).then(|| {
            format!(
                "other users of this machine can read the API key in `{path}`; `chmod 600` prevents that"
            )
        })
    }
}

/// Checks a key that was found at `origin`, such as "in `FILE`".
///
/// # Errors
/// Exit code 2: it is empty, or has characters that API keys never have.
pub(crate) fn check_key(key: &str, origin: &str) -> Result<Secret> {
    // People copy keys with their quotes or scheme out of a file of variables or a curl command.
    let key = unquoted(key);
    let key = match key.split_at_checked(BEARER.len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(BEARER) => rest.trim(),
        _ => key,
    };
    if key.is_empty() {
        return Err(Error::usage(format!("the API key {origin} is empty")));
    }
    // A bearer token has no white space (RFC 6750, section 2.1). Characters that a header cannot
    // have would lead to a 401.
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(unusable_key(origin));
    }
    Ok(Secret::new(key))
}

/// What an `Authorization` header has before a key.
const BEARER: &str = "bearer ";

/// A setting without quotes around it: some programs, such as `docker` with a file of variables, keep them.
pub(super) fn unquoted(setting: &str) -> &str {
    let inner = |quote| setting.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(setting)
}

/// The error for a key at `origin` with characters that API keys never have.
pub(crate) fn unusable_key(origin: &str) -> Error {
    Error::usage(format!(
        "the API key {origin} contains a line break, white space or other characters that API keys never have"
    ))
}
