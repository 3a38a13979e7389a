//! The password for the server: from a file that an option names, or from where PostgreSQL's own programs take it. Never an
//! argument, and no message repeats it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::private_file;
use crate::base::error::{Error, Result, shown};
use crate::base::secret::Secret;
use crate::ledger::server_url::{ServerHost, ServerUrl};

/// What the file has, for messages.
const WHAT: &str = "the ledger's password";

/// Finds the password: in the named file, in `PGPASSWORD`, or in the file of `PGPASSFILE` or `~/.pgpass`. A server may need
/// none.
///
/// # Errors
/// Exit code 2: a file that was named cannot be read, is empty, or can be read by others.
pub(super) fn find(file: Option<&Path>, url: &ServerUrl) -> Result<Option<Secret>> {
    if let Some(file) = file {
        return read(file).map(Some);
    }
    let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(password) = set("PGPASSWORD") {
        return Ok(Some(Secret::new(password)));
    }
    let named = set("PGPASSFILE").map(PathBuf::from);
    let usual = || Some(PathBuf::from(set("HOME")?).join(".pgpass"));
    let is_named = named.is_some();
    let Some(file) = named.or_else(usual) else {
        return Ok(None);
    };
    if !is_named && fs::read_to_string(&file).is_err() {
        return Ok(None);
    }
    let text = private_file::read(&file, WHAT)?;
    Ok(find_in(&text, url).map(Secret::new))
}

/// The password that is all of a file, but for one line end.
fn read(file: &Path) -> Result<Secret> {
    let text = private_file::read(file, WHAT)?;
    let password = text.strip_suffix('\n').map_or(text.as_str(), |text| {
        text.strip_suffix('\r').unwrap_or(text)
    });
    if password.is_empty() {
        return Err(Error::usage(format!(
            "the ledger's password in `{}` is empty",
            shown(file)
        )));
    }
    Ok(Secret::new(password))
}

/// The password of the first line of a `.pgpass` that is about this server: `host:port:database:user:password`.
fn find_in(text: &str, url: &ServerUrl) -> Option<String> {
    let host = match url.host() {
        // PostgreSQL's own programs look for a socket under this name.
        ServerHost::Socket(_) => "localhost",
        ServerHost::Network(name) => name,
    };
    let port = url.port().to_string();
    let wanted = [host, &port, url.database(), url.user()];
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(fields).find_map(|fields| {
        let (password, about) = fields.split_last()?;
        let fits = |(field, wanted): (&String, &&str)| field == "*" || field == wanted;
        let is_ours = about.len() == wanted.len() && about.iter().zip(&wanted).all(fits);
        (is_ours && !password.is_empty()).then(|| password.clone())
    })
}

/// The fields of a line; a backslash before a colon or a backslash makes it part of the field.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(next) = characters.next() {
        let field = match next {
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                continue;
            }
            '\\' => characters.next(),
            other => Some(other),
        };
        if let (Some(last), Some(character)) = (fields.last_mut(), field) {
            last.push(character);
        }
    }
    fields
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_about_a_server_has_its_password() {
        let url = |text| ServerUrl::parse(text, None).unwrap();
        let file = "# a comment\nother:*:*:*:no\ndb1:5432:x:ann:a\\:b\\\\c\n*:*:*:ann:last:one\n";
        let found = |text| find_in(file, &url(text));
        assert_eq!(found("postgresql://ann@db1/x").as_deref(), Some("a:b\\c"));
        assert_eq!(found("postgresql://ann@db1/y").as_deref(), Some("last:one"));
        assert_eq!(found("postgresql://bob@db1/x"), None);
        assert_eq!(
            find_in("localhost:*:*:*:s", &url("postgresql://a@/x?host=/run")).as_deref(),
            Some("s")
        );
    }
}
