//! Every message that people read, on six pages: a sentence is worded and bettered there. All other tests hold exit codes,
//! bytes, what the server saw, and of a message a number or a name at most.
//!
//! Each page is a snapshot; `INSTA_UPDATE=always cargo test --test it messages` writes all of them again.

mod before_paying;
mod command_line;
mod end_of_run;
mod files;
mod ledger;
mod service;

use crate::support::process::Done;
use crate::support::shown::without_times;

/// The messages of some scenarios, one after the other.
#[derive(Default)]
struct Page(String);

impl Page {
    fn heading(&mut self, words: &str) {
        self.0 += &format!("{words}\n\n");
    }

    /// What a command printed and said, and its exit code.
    fn add(&mut self, scenario: &str, done: &Done) {
        let code = done.code().unwrap();
        // What clap adds to each of its errors.
        let said = stable(&(done.printed() + &done.stderr));
        let said = said.replace("\n\nFor more information, try '--help'.", "");
        self.0 += &format!("$ {scenario}\n{}\n[{code}]\n\n", said.trim_end());
    }

    /// Holds the page to its snapshot.
    #[track_caller]
    fn is(self, name: &str) {
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("pages");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(name, self.0.trim_end()));
    }
}

/// The lines of a list, those that start with `#` as headings of the page.
fn each(page: &mut Page, list: &str, mut scenario: impl FnMut(&mut Page, &str)) {
    for line in list.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(_) => page.heading(line),
            None => scenario(page, line),
        }
    }
}

/// The words of a line; what is in quotes is one word.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, part) in line.split('\'').enumerate() {
        if number % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// Without what differs from run to run: times, ports, and numbers of processes.
fn stable(text: &str) -> String {
    let text = without_times(text).replace("no call for 5 s", "no call for TIME");
    // What is said while a run lasts depends on how fast it is.
    let lines = text.lines().filter(|line| !line.starts_with("MOMENT "));
    let text = lines.collect::<Vec<_>>().join("\n");
    let mut stable = String::new();
    for piece in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = piece.len() - rest.len();
        let is_port = digits >= 4 && stable.ends_with(':');
        let differs = is_port || digits > 8 || stable.ends_with("(process ");
        stable += if differs { "N" } else { &piece[..digits] };
        stable += rest;
    }
    stable
}
