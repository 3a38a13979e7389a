//! The calling application's identifier (interface, section 5).

use crate::base::error::{Error, Result};

/// An identifier that is valid as a header in any HTTP version: not empty, visible ASCII, with
/// spaces only inside.
///
/// Over HTTP/2, some servers close the connection on any other value, and such a call may have been
/// billed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceId(Box<str>);

impl ServiceId {
    /// Checks an identifier, and removes the spaces around it.
    ///
    /// # Errors
    /// Exit code 2: it is empty or has other characters.
    pub(crate) fn new(text: &str) -> Result<Self> {
        let text = text.trim_matches(' ');
        if text.is_empty() {
            return Err(Error::usage("no service id")
                .hint("give it with `--service-id` or the variable `RESCORE_SERVICE_ID`"));
        }
        // It is not shown: somebody may have pasted a key.
        if !text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() || byte == b' ')
        {
            return Err(Error::usage(
                "the service id contains a line break, another control character, or a character that is not ASCII",
            )
            .hint("check `--service-id` or the variable `RESCORE_SERVICE_ID`"));
        }
        Ok(Self(text.into()))
    }

    /// The identifier.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn spaces_around_an_id_are_not_part_of_it() {
        for text in ["my app", " my app", "my app  "] {
            assert_eq!(ServiceId::new(text).unwrap().as_str(), "my app");
        }
    }

    #[test]
    fn an_id_that_is_unsafe_in_a_header_is_refused_and_not_shown() {
        for bad in [
            "",
            "  ",
            "te\nst",
            "test\n",
            "\ttest",
            "t\u{7f}",
            "tést",
            "te\u{200b}st",
        ] {
            let error = ServiceId::new(bad).unwrap_err();
            assert_eq!(error.exit().code(), 2);
            assert!(error.report().contains("service id"));
            assert!(!error.report().contains("st\n") && !error.report().contains("tést"));
        }
    }
}
