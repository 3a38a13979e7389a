//! Commands in messages, as they are typed: an address may have characters that mean something to a shell.

/// An argument as it is typed.
pub(super) fn in_shell(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@,+=%".contains(c);
    if argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}
