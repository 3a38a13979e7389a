//! Messages besides progress: errors, warnings and notices, in words for people or as JSON objects for programs.
//!
//! One form holds for the whole process, because everything in it shares one standard error: a program that reads it must not
//! find a sentence among its objects. Commands write messages only through here; `program` chooses the form. The log of a run
//! gets errors and warnings as well.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use super::log::{LogLine, log_line};
use super::numbers::one_line;
use crate::base::error::{Error, Exit};
use crate::base::stderr::say;

/// Whether a program reads the messages.
static FOR_PROGRAMS: AtomicBool = AtomicBool::new(false);

/// From now on, every message is a JSON object on a line of its own.
pub(crate) fn speak_json() {
    FOR_PROGRAMS.store(true, Ordering::Relaxed);
}

/// Whether every message is a JSON object.
pub(super) fn speaks_json() -> bool {
    FOR_PROGRAMS.load(Ordering::Relaxed)
}

/// Says what ended the command.
pub(crate) fn tell_error(error: &Error) {
    tell_as("error", error);
}

/// Warns, in one sentence without the word in front.
pub(crate) fn warn(warning: &str) {
    warn_of(&Error::stopped(warning));
}

/// Warns of an error that does not end the command.
pub(crate) fn warn_of(error: &Error) {
    tell_as("warning", error);
}

fn tell_as(kind: &'static str, error: &Error) {
    log_line(match kind {
        "error" => LogLine::Error(error.log_words()),
        _ => LogLine::Warning(error.log_words()),
    });
    let report = error.report();
    let words = report.strip_prefix("error: ").unwrap_or(&report);
    say(&if speaks_json() {
        line(kind, error)
    } else {
        format!("{kind}: {words}")
    });
}

/// Says what clap does not accept, in clap's own words: the first line says what is wrong, and the others help. Returns how the
/// process exits.
pub(crate) fn tell_usage(text: &str) -> Exit {
    if speaks_json() {
        tell_error(&of_lines(text, "error: "));
    } else {
        say(text.trim_end());
    }
    Exit::Usage
}

/// Says something that is neither an error nor a warning.
pub(crate) fn tell(text: &str) {
    if speaks_json() {
        // A program need not be told this program's name.
        say(&line("notice", &of_lines(text, "rescore: ")));
    } else {
        say(text);
    }
}

/// A message for programs. `error` is what ended the command, `warning` what needs attention, and `notice` anything else.
fn line(r#type: &'static str, error: &Error) -> String {
    #[derive(Serialize)]
    struct MessageJson<'a> {
        r#type: &'static str,
        /// Only an error ends the command.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<u8>,
        message: &'a str,
        causes: Vec<String>,
        details: &'a [String],
        hint: Option<&'a str>,
    }
    one_line(&MessageJson {
        r#type,
        exit_code: (r#type == "error").then(|| error.exit().code()),
        message: error.message(),
        causes: error.causes(),
        details: error.details(),
        hint: error.hint_text(),
    })
}

fn of_lines(text: &str, prefix: &str) -> Error {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let error = Error::usage(first.strip_prefix(prefix).unwrap_or(first));
    lines.fold(error, |error, line| match line.strip_prefix("tip: ") {
        Some(tip) => error.hint(tip),
        None => error.detail(line),
    })
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn an_error_and_a_warning_of_one_have_the_same_parts() {
        let error = Error::stopped("cannot write `a\u{202e}b`")
            .because(std::io::Error::other("disk on fire"))
            .detail("120 MB are free")
            .hint("free some space");
        assert_snapshot!(line("error", &error), @r#"{"type":"error","exit_code":3,"message":"cannot write `a\u202eb`","causes":["disk on fire"],"details":["120 MB are free"],"hint":"free some space"}"#);
        assert_snapshot!(line("warning", &error), @r#"{"type":"warning","message":"cannot write `a\u202eb`","causes":["disk on fire"],"details":["120 MB are free"],"hint":"free some space"}"#);
    }

    #[test]
    fn a_text_of_several_lines_is_one_object() {
        assert_snapshot!(line("notice", &of_lines("rescore: stopped immediately\n         the ledger stays", "rescore: ")), @r#"{"type":"notice","message":"stopped immediately","causes":[],"details":["the ledger stays"],"hint":null}"#);
        let text =
            "error: unexpected argument '--progres' found\n\n  tip: a similar argument exists\n";
        let error = of_lines(text, "error: ");
        assert_snapshot!(line("error", &error), @r#"{"type":"error","exit_code":2,"message":"unexpected argument '--progres' found","causes":[],"details":[],"hint":"a similar argument exists"}"#);
    }
}
