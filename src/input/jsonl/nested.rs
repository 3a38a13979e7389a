//! Nested members whose names mean a field: what `--map` may be meant to take.

use super::lines::readable;
use crate::fields;
use crate::raw_json::{self, JsonValue, Pointer};

/// How deep they are searched for: exports of events have a user at this depth at most.
const DEPTH: usize = 4;

/// The fewest lines that must have one. A name that only few lines have may be a user's: in a file that is one object with all
/// users, each user's name or address leads to the members.
const FEWEST: usize = 3;
/// The most that are kept. More are not the members of one user, and each is compared with all.
const MOST: usize = 64;

/// The pointers to those that at least half of these lines have.
pub(super) fn pointers<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let (mut found, mut all) = (Vec::new(), 0);
    for line in lines {
        all += 1;
        search(&readable(line), "", DEPTH, &mut found);
    }
    found.retain(|(_, times)| *times >= FEWEST && times * 2 >= all);
    found.into_iter().map(|(pointer, _)| pointer).collect()
}

/// Counts those in this value, if it is an object; `path` leads there.
fn search(value: &str, path: &str, depth: usize, found: &mut Vec<(String, usize)>) {
    let visit = |key: JsonValue<'_>, value: JsonValue<'_>| {
        let name = raw_json::string(key).unwrap_or_default();
        let pointer = format!("{path}{}", Pointer::of_member(&name));
        if value.get().starts_with('{') {
            if depth > 1 && !fields::is_value(&name) {
                search(value.get(), &pointer, depth - 1, found);
            }
        } else if !path.is_empty() && fields::rank(&name).is_some() {
            let has_room = found.len() < MOST;
            match found.iter_mut().find(|(known, _)| *known == pointer) {
                Some((_, times)) => *times += 1,
                None if has_room => found.push((pointer, 1)),
                None => {}
            }
        }
    };
    // A broken line fails later, with its own reason.
    let _ = raw_json::members(value, visit);
}

#[cfg(test)]
mod tests {
    use super::pointers;

    #[test]
    fn members_with_known_names_are_found_unless_their_path_may_be_a_user() {
        let lines = [
            r#"{"id":1,"ip":"::1","device":{"ip":"::1","os":"x","browser":{"user_agent":"M"}},"a@b.example":{"ip":"::1"}}"#,
            r#"{"id":2,"device":{"ip":null,"browser":{"user_agent":"M"}},"Ann":{"e-mail":"a@b.example"},"a/b":{"name":"Ann"}}"#,
            r#"{"id":3,"device":{"browser":{"user_agent":"M"}},"a/b":{"name":"Bob"}}"#,
            r#"{"id":4,"device":{"ip":"::1"},"Ann":{"e-mail":"a@b.example"},"a/b":{"name":"Eve"}}"#,
            "{",
        ];
        assert_eq!(
            pointers(lines.iter().map(|line| line.as_bytes())),
            ["/device/ip", "/device/browser/user_agent", "/a~1b/name"]
        );
    }

    #[test]
    fn one_object_with_all_users_leads_to_nobody() {
        let users = |from: usize| {
            let user = |number| format!(r#""User {number}":{{"name":"User {number}","ip":"::1"}}"#);
            let users: Vec<String> = (from..from + 5_000).map(user).collect();
            format!(r#"{{"users":{{{}}}}}"#, users.join(","))
        };
        let lines = [users(0), users(5_000)];
        let lines = || lines.iter().map(String::as_bytes);
        assert!(pointers(lines()).is_empty());
        assert!(pointers(lines().take(1)).is_empty());
    }
}
