//! The directory of a file.

use std::path::Path;

/// The directory that a file is in, or will be in. A name alone is one in the current directory.
#[must_use]
pub(crate) fn directory_of(file: &Path) -> &Path {
    file.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_is_in_the_current_directory() {
        for (file, expected) in [("x", "."), ("a/x", "a"), ("/x", "/"), ("./x", ".")] {
            assert_eq!(directory_of(Path::new(file)), Path::new(expected));
        }
    }
}
