//! What stands below the options in a help, taken apart: examples, exit codes and notes.
//!
//! Manual pages are made of it. It knows how `help.rs` writes these texts, and nothing of clap.

/// The parts of the text below the options.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HelpNotes<'a> {
    /// What people use the command for.
    pub(super) examples: Vec<HelpExample<'a>>,
    /// Each exit code with its meaning.
    pub(super) exit_codes: Vec<(&'a str, &'a str)>,
    /// All other paragraphs.
    pub(super) other: Vec<&'a str>,
}

/// A command, and what it is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HelpExample<'a> {
    /// What it is for.
    pub(super) purpose: &'a str,
    /// The lines of the command, without indentation.
    pub(super) command: Vec<&'a str>,
}

/// How far a command is indented below its purpose.
const INDENT: &str = "    ";

impl<'a> HelpNotes<'a> {
    /// Takes the text apart.
    pub(super) fn of(text: &'a str) -> Self {
        let mut notes = Self::default();
        for paragraph in text.split("\n\n").filter(|text| !text.is_empty()) {
            match paragraph.split_once('\n') {
                Some(("Examples:", lines)) => notes.examples.extend(examples(lines)),
                Some(("Exit codes:", lines)) => {
                    let codes = lines.lines().filter_map(|line| line.trim().split_once(' '));
                    let codes = codes.map(|(code, meaning)| (code, meaning.trim()));
                    notes.exit_codes.extend(codes);
                }
                _ => notes.other.push(paragraph),
            }
        }
        notes
    }
}

/// The examples: a line with the purpose, then the command.
fn examples(lines: &str) -> Vec<HelpExample<'_>> {
    let mut examples: Vec<HelpExample<'_>> = Vec::new();
    for line in lines.lines() {
        match (line.strip_prefix(INDENT), examples.last_mut()) {
            (Some(command), Some(example)) => example.command.push(command),
            _ => examples.push(HelpExample {
                purpose: line.trim(),
                command: Vec::new(),
            }),
        }
    }
    examples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_taken_apart_into_examples_codes_and_notes() {
        let text = "Examples:\n  Count:\n    rescore check a.csv \\\n      --json\n  Again:\n    rescore check b.csv\n\n\
            Exit codes:\n    0  all can be sent\n  129  hung up\n\nEvery option has a variable.";
        let example = |purpose, command| HelpExample { purpose, command };
        let expected = HelpNotes {
            examples: vec![
                example("Count:", vec!["rescore check a.csv \\", "  --json"]),
                example("Again:", vec!["rescore check b.csv"]),
            ],
            exit_codes: vec![("0", "all can be sent"), ("129", "hung up")],
            other: vec!["Every option has a variable."],
        };
        assert_eq!(HelpNotes::of(text), expected);
        assert_eq!(HelpNotes::of(""), HelpNotes::default());
    }
}
