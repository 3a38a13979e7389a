//! Where the API key comes from: a file, a variable or systemd's credentials, never an argument.
//!
//! A key in an argument would be seen by everybody on the machine (`ps`) and kept in shell histories. What a key may
//! look like is known to `service`, which reads its file again in mid-run.

use std::path::{Path, PathBuf};

use crate::base::error::Result;
use crate::base::secret::Secret;
use crate::service::{KeyFile, check_key, unusable_key};

/// The variable that holds the key itself.
pub(super) const VARIABLE: &str = "RESCORE_API_KEY";
/// The name of systemd's credential: `LoadCredential=rescore-api-key:/etc/rescore/key`.
const CREDENTIAL: &str = "rescore-api-key";

/// The key, if there is one, and the file that it came from; none for the variable, which cannot change while a run is on.
pub(super) fn find(file: Option<&Path>) -> Result<Option<(Secret, Option<KeyFile>)>> {
    if let Some(file) = file {
        return of_file(file).map(Some);
    }
    if let Some(key) = std::env::var_os(VARIABLE).filter(|key| !key.is_empty()) {
        let place = format!("in `{VARIABLE}`");
        let key = key.into_string().map_err(|_| unusable_key(&place))?;
        return Ok(Some((check_key(&key, &place)?, None)));
    }
    credential().map(|file| of_file(&file)).transpose()
}

fn credential() -> Option<PathBuf> {
    let directory = std::env::var_os("CREDENTIALS_DIRECTORY")?;
    Some(Path::new(&directory).join(CREDENTIAL)).filter(|file| file.exists())
}

fn of_file(file: &Path) -> Result<(Secret, Option<KeyFile>)> {
    let file = KeyFile::new(file);
    Ok((file.read()?, Some(file)))
}
