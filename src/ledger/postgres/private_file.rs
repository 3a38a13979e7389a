//! Files with a secret, which other users of the machine may not read. What is in them is left to others.

use std::fs;
use std::path::Path;

use crate::base::error::{Error, Result, shown};

/// Reads such a file; `what` it has is for messages.
///
/// # Errors
/// Exit code 2: it cannot be read, or others can read it.
pub(super) fn read(file: &Path, what: &str) -> Result<String> {
    let shown = shown(file);
    let text = fs::read_to_string(file)
        .map_err(|e| Error::usage(format!("cannot read {what} from `{shown}`")).because(e))?;
    if is_open(file) {
        return Err(Error::usage(format!(
            "other users of this machine can read {what} in `{shown}`"
        ))
        .hint(format!("`chmod 600 {shown}`")));
    }
    Ok(text)
}

/// Whether others can read a file. A pipe has no content for them.
fn is_open(file: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(file).is_ok_and(|it| it.is_file() && is_open_to_others(it.mode(), it.uid()))
}

/// Whether others can read a file with this mode and owner. As for the keys of PostgreSQL's own programs, a file of root may
/// have a group that reads it: so secrets are handed to services.
const fn is_open_to_others(mode: u32, owner: u32) -> bool {
    let forbidden = if owner == 0 { 0o037 } else { 0o077 };
    mode & forbidden != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_may_read_a_secret_or_a_group_what_root_has_given_it() {
        for (mode, owner, is_open) in [
            (0o600, 1_000, false),
            (0o400, 1_000, false),
            (0o640, 1_000, true),
            (0o604, 1_000, true),
            (0o600, 0, false),
            (0o440, 0, false),
            (0o644, 0, true),
            (0o660, 0, true),
        ] {
            let found = is_open_to_others(0o100_000 | mode, owner);
            assert_eq!(found, is_open, "{mode:o} {owner}");
        }
    }
}
