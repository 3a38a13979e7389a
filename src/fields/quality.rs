//! What a person should know about the values of all rows before they are paid for. It is counted, and refuses nothing.
//!
//! Values of persons are neither kept nor shown. An address or a user agent is shown if so many rows share it that it cannot
//! be one person's.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

use serde::Serialize;

use super::request::{UserRequest, is_null_word, is_public};
use crate::base::numbers::percent_of;
use crate::base::text::{is_encoded_twice, quoted};

/// What is odd about a row: the word for programs, the share of rows in percent above which it is worth a warning, and the finding
/// for people. Some good users, too, are in an office network, use a script, or have a name of two characters.
#[rustfmt::skip]
const ODDITIES: [(&str, u64, &str); 7] = [
    ("null_word", 0, "have a word such as `NULL` for a value: `--null WORD` reads it as empty"),
    ("lost_character", 0, "have a U+FFFD, which stands for a lost character"),
    ("encoded_twice", 0, "have a text that was encoded twice, as `JÃ¼rgen` for `Jürgen`"),
    ("escaped", 0, "have a name with a backslash before a quote or another backslash, as databases escape them"),
    (BOT, 25, "have the user agent of a bot or a script"),
    (PRIVATE, 10, "have a private or reserved address"),
    ("unusual_length", 10, "have a name, email address or user agent of an unusual length"),
];
const BOT: &str = "bot_user_agent";
const PRIVATE: &str = "private_address";
const ADDRESS: &str = "frequent_address";
const USER_AGENT: &str = "frequent_user_agent";

/// If a share matters, fewer odd rows say nothing about a file.
const MIN_ODD_ROWS: u64 = 10;
/// A value that more than a tenth of at least this many rows share …
const MIN_ROWS_FOR_TENTH: u64 = 1000;
/// … or all of at least this many cannot be one person's.
const MIN_ROWS_FOR_ALL: u64 = 100;
/// When so many values are kept, those of less than a twentieth of the rows are forgotten, which leaves 20 at most.
const MAX_VALUES: usize = 1024;
/// The longest user agent that is kept, in bytes; the service is not known to take longer ones.
const MAX_USER_AGENT: usize = 512;

/// Parts of user agents of crawlers and scripts, some without their first letter, which may be a capital.
const BOTS: [&str; 8] = [
    "bot", "Bot", "rawler", "pider", "eadless", "curl/", "ython", "Go-http",
];

fn is_bot(user_agent: &str) -> bool {
    BOTS.iter().any(|part| user_agent.contains(part))
}

fn is_private(address: &str) -> bool {
    address.parse().is_ok_and(|it: IpAddr| !is_public(&it))
}

/// Some rows: how many, and the first of them.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct SomeRows {
    rows: u64,
    first_row: u64,
}

impl SomeRows {
    fn add(&mut self, row: u64) {
        if self.rows == 0 {
            self.first_row = row;
        }
        self.rows += 1;
    }
}

/// Values, and the rows that have them. Those before a value was frequent may be missing.
type Values = HashMap<Box<str>, SomeRows>;

/// What was found in the values of a file's rows.
#[derive(Default)]
pub(crate) struct Quality {
    rows: u64,
    odd: [SomeRows; ODDITIES.len()],
    /// Addresses and user agents.
    values: [Values; 2],
}

/// Something that is worth a warning.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    kind: &'static str,
    #[serde(flatten)]
    having: SomeRows,
    /// The finding for people.
    #[serde(skip)]
    pub(crate) words: String,
}

impl Quality {
    /// Counts what is odd about the request of the row with this number.
    pub(crate) fn count(&mut self, number: u64, user: &UserRequest<'_>) {
        let (name, ip, agent) = (&*user.name, &*user.ip, &*user.user_agent);
        let email = user.email.as_deref().unwrap_or_default();
        let foreign = [name, email, agent].into_iter();
        let foreign: String = foreign.filter(|text| !text.is_ascii()).collect();
        let is_null = is_null_word(agent);
        let is_usual = (3..=50).contains(&name.chars().count())
            && (email.is_empty() || (5..=60).contains(&email.chars().count()))
            && (is_null || (5..=MAX_USER_AGENT).contains(&agent.chars().count()));
        let odd = [
            is_null || is_null_word(name),
            foreign.contains(char::REPLACEMENT_CHARACTER),
            is_encoded_twice(&foreign),
            name.contains('\\') && ["\\\"", "\\'", "\\\\"].iter().any(|it| name.contains(it)),
            is_bot(agent),
            is_private(ip),
            !is_usual,
        ];
        self.rows += 1;
        for (rows, is_odd) in self.odd.iter_mut().zip(odd) {
            if is_odd {
                rows.add(number);
            }
        }
        let agent = if agent.len() > MAX_USER_AGENT {
            "…"
        } else {
            agent
        };
        for (values, value) in self.values.iter_mut().zip([ip, agent]) {
            if values.len() >= MAX_VALUES {
                values.retain(|_, having| having.rows * 20 > self.rows);
            }
            match values.get_mut(value) {
                Some(having) => having.add(number),
                // A frequent value will soon be in one of these rows, and the others do not fill the map.
                None if self.rows % 8 == 1 => values.entry(value.into()).or_default().add(number),
                None => {}
            }
        }
    }

    /// The most frequent value, if so many rows have it that it may be shown.
    fn shared<'a>(&self, values: &'a Values) -> Option<(&'a str, SomeRows)> {
        let most = values
            .iter()
            .max_by_key(|(_, having)| (having.rows, Reverse(having.first_row)));
        let (value, having) = most?;
        let is_all = having.rows == self.rows && self.rows >= MIN_ROWS_FOR_ALL;
        let is_tenth = having.rows * 10 > self.rows && self.rows >= MIN_ROWS_FOR_TENTH;
        (is_all || is_tenth).then_some((value, *having))
    }

    /// What is worth a warning.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut add = |kind, having: SomeRows, at_least, what: String| {
            let (percent, row) = (percent_of(having.rows, self.rows), having.first_row);
            let more = if having.rows > 1 { ", …" } else { "" };
            let at_least = if having.rows < self.rows {
                at_least
            } else {
                ""
            };
            let words = format!("{at_least}{percent} of the rows {what} (row {row}{more})");
            findings.push(Finding {
                kind,
                having,
                words,
            });
        };
        let [mut address, mut agent] = self.values.each_ref().map(|it| self.shared(it));
        for ((kind, usual_percent, what), having) in ODDITIES.into_iter().zip(self.odd) {
            let least = if usual_percent > 0 { MIN_ODD_ROWS } else { 1 };
            if having.rows < least.max(usual_percent * self.rows / 100 + 1) {
                continue;
            }
            // An odd value that is frequent needs no sentence of its own.
            let often = match kind {
                PRIVATE => address.take_if(|(value, _)| is_private(value)),
                BOT => agent.take_if(|(value, _)| is_bot(value)),
                _ => None,
            };
            let often = often.map(|(value, _)| format!(", often {}", quoted(value)));
            add(
                kind,
                having,
                "",
                what.to_owned() + &often.unwrap_or_default(),
            );
        }
        let have = |field, value| format!("have the {field} {}", quoted(value));
        if let Some((value, having)) = address {
            add(ADDRESS, having, "at least ", have("address", value));
        }
        if let Some((value, having)) = agent {
            add(USER_AGENT, having, "at least ", have("user agent", value));
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow::{Borrowed, Owned};
    use std::iter;

    use super::*;

    const USER: UserRequest<'static> = UserRequest {
        name: Borrowed("Jane Doe"),
        email: Some(Borrowed("jane@example.com")),
        phone: None,
        ip: Borrowed("203.0.113.5"),
        user_agent: Borrowed("Mozilla/5.0 (X11; Linux)"),
    };

    /// The findings in as many rows as each of these requests says, by their kinds, and all of their words.
    fn found(rows: &[(usize, UserRequest<'_>)]) -> (Vec<&'static str>, String) {
        let mut quality = Quality::default();
        let users = rows
            .iter()
            .flat_map(|(rows, user)| iter::repeat_n(user, *rows));
        for (number, user) in (1..).zip(users) {
            quality.count(number, user);
        }
        let mut values = quality.values.iter();
        assert!(values.all(|values| values.len() <= MAX_VALUES));
        let findings = quality.findings();
        let words: Vec<_> = findings.iter().map(|it| it.words.clone()).collect();
        (
            findings.iter().map(|it| it.kind).collect(),
            words.join("\n"),
        )
    }

    #[test]
    fn one_odd_row_of_many_is_named_and_its_neighbours_are_not() {
        for (name, expected) in [
            ("NULL", Some("null_word")),
            ("#ref!", Some("null_word")),
            ("[object Object]", Some("null_word")),
            ("undefined", Some("null_word")),
            ("Nullmeier", None),
            ("Nat King Cole", None),
            ("Reference #1", None),
            ("S\u{fffd}bastien", Some("lost_character")),
            ("J\u{c3}\u{bc}rgen", Some("encoded_twice")),
            (
                "Zo\u{c3}\u{ab} \u{e2}\u{20ac}\u{201c} K",
                Some("encoded_twice"),
            ),
            (
                "\u{e7}\u{17d}\u{2039} \u{e4}\u{bc}\u{178}",
                Some("encoded_twice"),
            ),
            ("J\u{fc}rgen", None),
            ("O\\'Brien", Some("escaped")),
            ("Ann \\\"Bee\\\" Lee", Some("escaped")),
            ("Al \\\\ Fox", Some("escaped")),
            ("CORP\\ann", None),
            ("CONCEI\u{c7}\u{c3}O \u{c3}NIMA", None),
            ("Fran\u{e7}ois d\u{2019}Orl\u{e9}ans", None),
            ("\u{738b} \u{4f1f} \u{c3}\u{bc}", None),
            ("\u{738b}\u{4f1f}", None),
            (&"x".repeat(60), None),
        ] {
            let odd = UserRequest {
                name: Borrowed(name),
                ..USER
            };
            let (kinds, words) = found(&[(50, USER), (1, odd)]);
            assert_eq!(kinds, Vec::from_iter(expected), "{name}");
            assert!(
                !words.contains("rgen,") && !words.contains("bastien"),
                "{words}"
            );
        }
    }

    #[test]
    fn oddities_of_good_users_count_from_their_share_on() {
        let of_agent = |agent| UserRequest {
            user_agent: Borrowed(agent),
            ..USER
        };
        let of_address = |ip| UserRequest {
            ip: Borrowed(ip),
            ..USER
        };
        let of_name = |name| UserRequest {
            name: Borrowed(name),
            ..USER
        };
        for (user, percent, kind) in [
            (of_agent("curl/8.5.0"), 25, BOT),
            (
                of_agent("Mozilla/5.0 (compatible; FormCrawler/1.4)"),
                25,
                BOT,
            ),
            (of_agent("python-requests/2.31.0"), 25, BOT),
            (of_address("10.0.0.7"), 10, PRIVATE),
            (of_address("::1"), 10, PRIVATE),
            (of_address("0.0.0.0"), 10, PRIVATE),
            (of_address("fe80::1"), 10, PRIVATE),
            (of_name("Bo"), 10, "unusual_length"),
            (of_agent("UA/1"), 10, "unusual_length"),
        ] {
            for (rows, expected) in [(percent, vec![]), (percent + 1, vec![kind])] {
                let (mut kinds, _) = found(&[(100 - rows, USER), (rows, user.clone())]);
                kinds.retain(|kind| ![ADDRESS, USER_AGENT].contains(kind));
                assert_eq!(kinds, expected, "{rows} of 100: {user:?}");
            }
            // A few rows of a small file say nothing.
            assert!(found(&[(1, USER), (9, user)]).0.is_empty());
        }
        // Addresses of documents and public ones are as good as any.
        for ip in [
            "192.0.2.1",
            "198.51.100.7",
            "2001:db8::1",
            "172.32.0.1",
            "11.0.0.1",
        ] {
            assert!(found(&[(50, of_address(ip))]).0.is_empty(), "{ip}");
        }
    }

    #[test]
    fn a_value_is_shown_only_if_so_many_rows_share_it_that_it_is_no_persons() {
        let user = |number: usize| UserRequest {
            ip: Owned(format!("198.51.{}.{}", number / 256, number % 256)),
            user_agent: Owned(format!("Mozilla/5.0 (X11; {number})")),
            ..USER
        };
        let different = |from: usize, rows: usize| (from..from + rows).map(move |it| (1, user(it)));
        let office = |ip: &'static str| UserRequest {
            ip: Borrowed(ip),
            ..user(60_000)
        };
        for (rows, shared, ip, expected) in [
            (20_000, 0, "203.0.113.9", vec![]),
            (900, 100, "203.0.113.9", vec![]),
            (860, 140, "203.0.113.9", vec![ADDRESS, USER_AGENT]),
            (500, 499, "203.0.113.9", vec![]),
            (0, 99, "203.0.113.9", vec![]),
            (0, 100, "203.0.113.9", vec![ADDRESS, USER_AGENT]),
            (17_000, 3_000, "203.0.113.9", vec![ADDRESS, USER_AGENT]),
            (675, 2_025, "10.0.0.7", vec![PRIVATE, USER_AGENT]),
            (500, 499, "10.0.0.7", vec![PRIVATE]),
        ] {
            // In three parts, so that the value is neither only the first nor only the last one.
            let third = [rows / 3, rows / 3, rows - 2 * (rows / 3)];
            let mut all = Vec::new();
            for (part, different_rows) in third.into_iter().enumerate() {
                all.extend(different(part * 20_000, different_rows));
                let shared = [shared / 3, shared / 3, shared - 2 * (shared / 3)];
                all.push((shared.into_iter().nth(part).unwrap(), office(ip)));
            }
            let (kinds, words) = found(&all);
            assert_eq!(kinds, expected, "{rows} and {shared} rows: {words}");
            let is_shown = words.contains(ip);
            assert_eq!(
                is_shown,
                shared * 10 > rows + shared && rows + shared >= 1000 || rows == 0 && shared >= 100,
                "{words}"
            );
            assert!(!words.contains("198.51."), "{words}");
        }
    }

    #[test]
    fn a_long_user_agent_is_not_kept() {
        let long = UserRequest {
            user_agent: Owned("\u{e9}".repeat(400)),
            ..USER
        };
        let (kinds, words) = found(&[(100, long)]);
        assert_eq!(kinds, [ADDRESS, USER_AGENT]);
        assert!(!words.contains('\u{e9}'), "{words}");
    }
}
