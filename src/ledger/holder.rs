//! How a process names itself in the file of a lock: another one that finds it taken can then say which process has it, since
//! when, and on which machine, as several may share a disk.

use std::time::SystemTime;

use humantime::format_rfc3339_seconds;

/// `process 12 on db1 since 2026-11-22T18:30:05Z`, for this process and now.
pub(super) fn this_process() -> String {
    let host = host().map(|host| format!(" on {host}")).unwrap_or_default();
    let since = format_rfc3339_seconds(SystemTime::now());
    format!("process {}{host} since {since}", std::process::id())
}

/// Whether a text names a process like this.
pub(super) fn is_holder(text: &str) -> bool {
    let (_, named) = text.split_once("process ").unwrap_or_default();
    let id = named.split(' ').next().unwrap_or_default();
    id.parse::<u32>().is_ok()
}

/// The name of this machine, where it has one.
pub(super) fn host() -> Option<String> {
    let name = rustix::system::uname();
    let name = name.nodename().to_str().ok()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_recognised_by_the_way_it_names_itself() {
        let this = this_process();
        assert!(this.starts_with(&format!("process {}", std::process::id())));
        assert!(this.ends_with('Z') && this.contains(" since 20"), "{this}");
        for (text, expected) in [
            (this.as_str(), true),
            ("`rescore ledger`, process 7 on a since b", true),
            ("process 7", true),
            ("process x", false),
            ("a shopping list", false),
            ("", false),
        ] {
            assert_eq!(is_holder(text), expected, "{text}");
        }
    }
}
