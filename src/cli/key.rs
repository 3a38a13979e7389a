//! Where the API key comes from: a file, a variable or systemd's credentials, never an argument.
//!
//! A key in an argument would be visible to everybody on the machine (`ps`) and stay in shell histories. The file is not
//! read here: `service` knows what a key may look like, and reads its file again during a run.

use std::path::Path;

use crate::base::error::Result;
use crate::config::KeySource;
use crate::service::{KeyFile, check_key, unusable_key};

/// The variable that holds the key itself.
pub(super) const VARIABLE: &str = "RESCORE_API_KEY";
/// The name of systemd's credential: `LoadCredential=rescore-api-key:/etc/rescore/key`.
const CREDENTIAL: &str = "rescore-api-key";

/// Where the key is, if anything names a place.
///
/// # Errors
/// Exit code 2: the variable holds no usable key.
pub(super) fn find(file: Option<&Path>) -> Result<Option<KeySource>> {
    if let Some(file) = file {
        return Ok(Some(KeySource::File(KeyFile::new(file))));
    }
    if let Some(key) = std::env::var_os(VARIABLE).filter(|key| !key.is_empty()) {
        let place = format!("in `{VARIABLE}`");
        let key = key.into_string().map_err(|_| unusable_key(&place))?;
        return Ok(Some(KeySource::Variable(check_key(&key, &place)?)));
    }
    let directory = std::env::var_os("CREDENTIALS_DIRECTORY");
    Ok(directory.map(|directory| {
        let file = Path::new(&directory).join(CREDENTIAL);
        KeySource::Credential(KeyFile::new(&file))
    }))
}
