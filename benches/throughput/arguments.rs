//! What `cargo bench --bench throughput -- …` is asked for.

use crate::table::Section;

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// The names of all sections, with their lines.
    List,
    /// To measure something.
    Measure(Measure),
    /// Nothing: `cargo test --all-targets` built and ran this, and nobody wants to wait for minutes.
    Nothing,
}

/// What is to be measured.
#[derive(Debug)]
pub(crate) struct Measure {
    pub(crate) sections: Vec<Section>,
    /// Whether `docs/benchmarks.md` gets the new values.
    pub(crate) write: bool,
}

/// Understands the arguments, or says which one is wrong.
pub(crate) fn parse(words: &[&str]) -> Result<Wanted, String> {
    let (mut long, mut write, mut list, mut bench) = (false, false, false, false);
    let mut names = Vec::new();
    for word in words {
        match *word {
            "--long" => long = true,
            "--write" => write = true,
            "--list" => list = true,
            // From cargo.
            "--bench" => bench = true,
            option if option.starts_with('-') => {
                return Err(format!(
                    "unknown option `{option}`: there are --list, --long, --write, and names of sections"
                ));
            }
            name => names.push(name),
        }
    }
    if list {
        return Ok(Wanted::List);
    }
    if !bench {
        return Ok(Wanted::Nothing);
    }
    let sections = Section::named(&names, long)?;
    Ok(Wanted::Measure(Measure { sections, write }))
}
