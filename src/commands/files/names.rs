//! Names of the files that rows go to: the format that they name, and the default name for the rejects.

use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result, shown};
use crate::layout::{Compression, Format};

/// Endings of files that are not made of lines.
const NO_LINES: [&str; 16] = [
    "xlsx", "xlsm", "xlsb", "xls", "ods", "numbers", "parquet", "avro", "arrow", "feather", "orc",
    "pdf", "zip", "7z", "bz2", "xz",
];

/// Fails when the name of a file for rows says another format than they have: programs go by the name.
pub(in crate::commands) fn check_name(flag: &str, path: &Path, format: Format) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let lower = name.to_lowercase();
    let packed = [".gz", ".zst"].into_iter().find(|end| lower.ends_with(end));
    let lower = lower
        .strip_suffix(packed.unwrap_or_default())
        .unwrap_or(&lower);
    let Some((stem, end)) = lower.rsplit_once('.') else {
        return Ok(());
    };
    let fits = match (end, format) {
        ("jsonl" | "ndjson" | "json", format) => format == Format::Jsonl,
        ("csv", format) => format != Format::Jsonl,
        // A program that reads a file of this name does not look for another delimiter.
        ("tsv", format) => format == Format::Delimited { delimiter: b'\t' },
        (end, _) => !NO_LINES.contains(&end),
    };
    if fits {
        return Ok(());
    }
    let is = match format {
        Format::Delimited { delimiter: b'\t' } => "TSV",
        Format::Delimited { .. } => "CSV",
        Format::Jsonl => "JSONL",
    };
    // Upper and lower case stay. `scored.csv.zip` is meant to be `scored.csv`.
    let stem = name.get(..stem.len()).unwrap_or(stem);
    let stem = stem
        .strip_suffix(&format!(".{}", format.extension()))
        .unwrap_or(stem);
    let better = format!(
        "{stem}.{}{}",
        format.extension(),
        packed.unwrap_or_default()
    );
    Err(Error::usage(format!(
        "cannot write {is} to `{flag} {}`: its extension does not match, as the output has the format of the input",
        shown(path)
    ))
    .hint(format!("name it `{}`", shown(&path.with_file_name(better)))))
}

/// Where the rejects of an output go if no option says so.
///
/// # Errors
/// Exit code 2: something other than a file has that name. It was not asked for, so it is not followed to wherever it leads.
pub(in crate::commands) fn rejects_beside(output: &Path, extension: &str) -> Result<PathBuf> {
    let path = beside(output, extension);
    if path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
        return Err(Error::usage(format!(
            "cannot write the rejects to `{}`: it is not a regular file",
            path.display()
        ))
        .hint("choose another place with `--rejects FILE`"));
    }
    Ok(path)
}

/// `scored.csv.gz` has its rejects in `scored.rejects.csv`.
fn beside(output: &Path, extension: &str) -> PathBuf {
    let name = output
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let (name, _) = Compression::split_name(&name);
    let known = ["csv", "tsv", "jsonl", "ndjson", "txt"];
    let is_known = |end: &str| known.iter().any(|known| end.eq_ignore_ascii_case(known));
    let stem = match name.rsplit_once('.') {
        Some((stem, end)) if is_known(end) => stem,
        _ => name,
    };
    output.with_file_name(format!("{stem}.rejects.{extension}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_says_another_format_is_refused_with_a_better_one() {
        let [csv, tsv] = [b',', b'\t'].map(|delimiter| Format::Delimited { delimiter });
        for (name, format, better) in [
            ("scored.xlsx", csv, "scored.csv"),
            ("out/Scored.XLSX", tsv, "out/Scored.tsv"),
            ("scored.parquet", Format::Jsonl, "scored.jsonl"),
            ("scored.csv.zip", csv, "scored.csv"),
            ("scored.jsonl.gz", csv, "scored.csv.gz"),
            ("scored.json", csv, "scored.csv"),
            ("scored.csv.zst", Format::Jsonl, "scored.jsonl.zst"),
            ("scored.tsv", csv, "scored.csv"),
        ] {
            let report = check_name("--output", Path::new(name), format)
                .unwrap_err()
                .report();
            assert!(
                report.ends_with(&format!("\n\nhint: name it `{better}`")),
                "{report}"
            );
        }
        for (name, format) in [
            ("scored.csv", csv),
            ("scored.CSV.GZ", tsv),
            ("scored.tsv.zst", tsv),
            ("scored.json", Format::Jsonl),
            ("scored.ndjson", Format::Jsonl),
            ("scored", csv),
            ("scored.txt", Format::Jsonl),
            ("scored.2026-11-22", csv),
        ] {
            assert!(
                check_name("--output", Path::new(name), format).is_ok(),
                "{name}"
            );
        }
    }

    #[test]
    fn rejects_go_next_to_the_output() {
        for (output, rejects) in [
            ("scored.csv", "scored.rejects.csv"),
            ("out/scored.csv.gz", "out/scored.rejects.csv"),
            ("OUT.CSV.GZ", "OUT.rejects.csv"),
            ("scored", "scored.rejects.csv"),
            ("a.b.jsonl.zst", "a.b.rejects.csv"),
        ] {
            assert_eq!(beside(Path::new(output), "csv"), PathBuf::from(rejects));
        }
    }
}
