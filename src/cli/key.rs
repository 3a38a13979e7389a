//! Where the API key comes from: a file, a variable or systemd's credentials, never an argument.
//!
//! A key in an argument would be seen by everybody on the machine (`ps`) and kept in shell histories.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::secret::Secret;

/// The variable that holds the key itself.
const VARIABLE: &str = "RESCORE_API_KEY";
/// The name of systemd's credential: `LoadCredential=rescore-api-key:/etc/rescore/key`.
const CREDENTIAL: &str = "rescore-api-key";

/// The key, and a warning where its file is readable by others.
pub(super) fn find(file: Option<&Path>) -> Result<(Secret, Option<String>)> {
    if let Some(file) = file {
        return of_file(file);
    }
    if let Some(key) = std::env::var_os(VARIABLE).filter(|key| !key.is_empty()) {
        let key = key
            .into_string()
            .map_err(|_| unusable(&format!("in `{VARIABLE}`")))?;
        return Ok((check(&key, &format!("in `{VARIABLE}`"))?, None));
    }
    match credential() {
        Some(file) => of_file(&file),
        None => Err(Error::usage("no API key")
            .hint(format!("set the variable `{VARIABLE}`, or name a file with `--api-key-file`; `--sandbox` needs none"))),
    }
}

fn credential() -> Option<PathBuf> {
    let directory = std::env::var_os("CREDENTIALS_DIRECTORY")?;
    Some(Path::new(&directory).join(CREDENTIAL)).filter(|file| file.exists())
}

fn of_file(file: &Path) -> Result<(Secret, Option<String>)> {
    let shown = file.display();
    let bytes = fs::read(file)
        .map_err(|e| Error::usage(format!("cannot read the API key in `{shown}`")).because(e))?;
    let place = format!("in `{shown}`");
    let text = String::from_utf8(bytes).map_err(|_| unusable(&place))?;
    // Editors end files with one line end; more than one is not an editor's doing.
    let key = text
        .strip_suffix('\n')
        .map_or(text.as_str(), |key| key.strip_suffix('\r').unwrap_or(key));
    let warning = open_to_others(file).then(|| {
        format!(
            "others on this machine can read the API key in `{shown}`; `chmod 600` keeps it to you"
        )
    });
    Ok((check(key, &place)?, warning))
}

fn check(key: &str, place: &str) -> Result<Secret> {
    if key.is_empty() {
        return Err(Error::usage(format!("the API key {place} is empty")));
    }
    // A bearer token has no white space (RFC 6750, section 2.1); what cannot stand in a header would come back as a 401.
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(unusable(place));
    }
    Ok(Secret::new(key))
}

fn unusable(place: &str) -> Error {
    Error::usage(format!(
        "the API key {place} has a line break, white space or other characters that no key has"
    ))
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
