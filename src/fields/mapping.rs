//! The columns of a file that are fields, and the errors about those that are missing: all of them in one error, with
//! suggestions.
//!
//! [`Assignments`] are what the options say, by name. A [`Mapping`] is the same for a given file, with the keys of its format (a
//! column's index for CSV, a member's path for JSONL). The first row of a file without a header is a user, so not every header
//! may be shown.

use super::names::{self, Field, PerField};
use super::template::{Assigned, Assignments, Part, Template};
use crate::base::error::{Error, Result};
use crate::base::numbers::counted;
use crate::base::text::{self, column, composed, quoted};
use crate::layout::VERDICT_COLUMNS;
use crate::raw_json::Pointer;

/// The source of a field in a given file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ColumnSource<K> {
    /// None: the field is absent in every row.
    Absent,
    /// From the row.
    Columns(Template<K>),
    /// The same in every row.
    Constant(String),
}

/// The source of every field in a given file.
#[derive(Debug, Clone)]
pub(crate) struct Mapping<K> {
    /// The source of each field.
    pub(crate) sources: PerField<ColumnSource<K>>,
    /// The column with the region of national phone numbers, if there is one.
    pub(crate) region: Option<K>,
    /// One line for people: `name ← "Full Name", email ← …`.
    pub(crate) described: String,
}

impl<K> Mapping<K> {
    /// The mapping of a file without columns.
    pub(crate) fn nothing() -> Self {
        Self {
            sources: PerField::from_fn(|_| ColumnSource::Absent),
            region: None,
            described: String::new(),
        }
    }
}

impl Mapping<usize> {
    /// Maps the assignments to a header.
    ///
    /// # Errors
    /// A column that an option names is missing or appears twice, or a required field has no column.
    pub(crate) fn of_header(
        header: &[String],
        assignments: &Assignments,
        file: &str,
    ) -> Result<Self> {
        let sources = PerField::try_from_fn(|field| match assignments.get(field) {
            Some(Assigned::Constant(value)) => Ok(ColumnSource::Constant(value.clone())),
            Some(Assigned::Columns(template)) => {
                match template.try_map(|name| find_column(name, header)) {
                    Ok(template) => Ok(ColumnSource::Columns(template)),
                    Err(NoColumn::Ambiguous(first, second)) => {
                        Err(twice_for(field, header, first, second, file))
                    }
                    Err(NoColumn::Missing) if assignments.is_list => by_name(field, header, file),
                    // Reported below, together with all others.
                    Err(NoColumn::Missing) => Ok(ColumnSource::Absent),
                }
            }
            None => by_name(field, header, file),
        })?;
        let region = assignments.region_column();
        let region = match region.map(|name| find_column(name, header)) {
            Some(Ok(index)) => Some(index),
            Some(Err(NoColumn::Ambiguous(first, second))) => {
                let error = twice("--phone-region-column", header, first, second, file);
                return Err(error.hint(HINT_RENAME));
            }
            // Reported below as well.
            Some(Err(NoColumn::Missing)) | None => None,
        };
        let exists = |name: &str| find_column(name, header).is_ok();
        let sample = MemberSample::Whole;
        refuse_missing(assignments, "column", header, &[], sample, exists, file)?;
        let described = describe(&sources, assignments, |template| {
            let name = |index: &usize| header.get(*index).cloned().unwrap_or_default();
            template.map(name).to_string()
        });
        Ok(Self {
            sources,
            region,
            described,
        })
    }
}

/// Why a name does not identify a column.
pub(crate) enum NoColumn {
    /// There is none.
    Missing,
    /// These two have it.
    Ambiguous(usize, usize),
}

/// How well the name of a column or member fits one that was typed: 0 is exactly, 1 is with another case or white space around it.
/// Names that look the same are equal.
pub(crate) fn name_rank(typed: &str, name: &str) -> Option<usize> {
    let (typed, name) = (composed(typed), composed(name));
    if typed == name {
        return Some(0);
    }
    typed.trim().eq_ignore_ascii_case(name.trim()).then_some(1)
}

/// Finds a column by its exact name, or else ignoring case.
///
/// # Errors
/// None has this name, or several have.
pub(crate) fn find_column(name: &str, header: &[String]) -> Result<usize, NoColumn> {
    let columns = header.iter().enumerate();
    let mut ranked: Vec<_> = columns
        .filter_map(|(index, column)| Some((name_rank(name, column)?, index)))
        .collect();
    ranked.sort_unstable();
    match *ranked {
        [] => Err(NoColumn::Missing),
        [(best, first), (next, second), ..] if best == next => {
            Err(NoColumn::Ambiguous(first, second))
        }
        [(_, found), ..] => Ok(found),
    }
}

fn by_name(field: Field, header: &[String], file: &str) -> Result<ColumnSource<usize>> {
    let ranked = ranked(field, "column", header, file)?;
    match ranked.as_slice() {
        [] => Ok(ColumnSource::Absent),
        [(first_rank, first), (second_rank, second), ..] if first_rank == second_rank => {
            Err(twice_for(field, header, *first, *second, file))
        }
        [(_, first), ..] => Ok(ColumnSource::Columns(Template(vec![Part::Column(*first)]))),
    }
}

/// The columns whose names mean the field, as rank and index, the best rank first.
///
/// # Errors
/// A column that may be only half of a name.
fn ranked(field: Field, noun: &str, columns: &[String], file: &str) -> Result<Vec<(usize, usize)>> {
    if field == Field::Name
        && let Some((column, other, which, map)) = names::half(columns)
    {
        return Err(Error::usage(format!(
            "{} in {file} may be only the {which} name, as there is also a {noun} {}",
            quoted(column),
            quoted(other)
        ))
        .hint(format!(
            "`{map}` sends both, `--map 'name={column}'` only this one"
        )));
    }
    let columns = columns.iter().enumerate();
    let mut ranked: Vec<_> = columns
        .filter_map(|(index, name)| match names::rank(name) {
            Some((found, rank)) if found == field => Some((rank, index)),
            _ => None,
        })
        .collect();
    ranked.sort_unstable();
    Ok(ranked)
}

const HINT_RENAME: &str = "rename one of them";

fn twice_for(field: Field, header: &[String], first: usize, second: usize, file: &str) -> Error {
    let error = twice(field.name(), header, first, second, file);
    match (header.get(first), header.get(second)) {
        (Some(one), Some(other)) if one != other => {
            let option = names::option(field, other);
            error.hint(format!("{HINT_RENAME}, or choose one, as with `{option}`"))
        }
        // A name that both have chooses neither.
        _ => error.hint(HINT_RENAME),
    }
}

fn twice(what: &str, header: &[String], first: usize, second: usize, file: &str) -> Error {
    let [one, other] = [first, second].map(|index| {
        let name = header.get(index).map_or("", String::as_str);
        format!("column {} `{}`", index + 1, column(name))
    });
    Error::usage(format!(
        "two columns for `{what}` in {file}: {one} and {other}"
    ))
}

fn describe<K>(
    sources: &PerField<ColumnSource<K>>,
    assignments: &Assignments,
    to_display: impl Fn(&Template<K>) -> String,
) -> String {
    let of_field = |field| match sources.get(field) {
        ColumnSource::Absent => format!("{field} not sent"),
        // A constant may be a personal address: it is not shown.
        ColumnSource::Constant(_) => format!("{field} ← constant"),
        ColumnSource::Columns(template) => format!("{field} ← {}", to_display(template)),
    };
    let region = assignments.region_column();
    let region = region.map(|name| format!("phone region ← `{}`", column(name)));
    let parts = Field::ALL.into_iter().map(of_field).chain(region);
    parts.collect::<Vec<_>>().join(", ")
}

impl Mapping<String> {
    /// Maps the assignments to the members of a JSONL file's first objects. A field without an
    /// assignment is looked up by name in each row, as rows may differ. The templates name the members of the first objects;
    /// `nested` are pointers to members of their objects, which are only suggested.
    ///
    /// # Errors
    /// None of the objects has a required field, or a member that `--map` names. A small sample is
    /// not enough for this error.
    pub(crate) fn of_members(
        members: &[String],
        nested: &[String],
        sample: MemberSample,
        assignments: &Assignments,
        file: &str,
    ) -> Result<Self> {
        let sources = PerField::try_from_fn(|field| {
            Ok(match assignments.get(field) {
                Some(Assigned::Constant(value)) => ColumnSource::Constant(value.clone()),
                Some(Assigned::Columns(template)) => ColumnSource::Columns(template.clone()),
                None => {
                    let plainest = ranked(field, "member", members, file)?.into_iter().next();
                    let member = plainest.and_then(|(_, index)| members.get(index));
                    member.map_or(ColumnSource::Absent, |name| {
                        ColumnSource::Columns(Template(vec![Part::Column(name.clone())]))
                    })
                }
            })
        })?;
        let exists = |name: &str| {
            let member = Pointer::parse(name).unwrap_or_else(|_| Pointer::of_member(name));
            let name = member.split_first().0;
            let mut members = members.iter();
            members.any(|member| name_rank(name, member).is_some())
        };
        refuse_missing(assignments, "member", members, nested, sample, exists, file)?;
        // Later objects may have it, but it is more likely to be misspelt.
        let described = describe(&sources, assignments, |template| {
            if template.columns().any(|name| !exists(name)) {
                format!("{template} (in none of the first rows)")
            } else {
                template.to_string()
            }
        });
        let region = assignments.region_column().map(ToOwned::to_owned);
        Ok(Self {
            sources,
            region,
            described,
        })
    }
}

/// How much of a file was read for its mapping: a header is all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemberSample {
    /// Too few objects to judge the others by.
    Few,
    /// Enough objects to judge the others by. One of these may still have what `--map` names.
    Part,
    /// The whole file.
    Whole,
}

/// Fails if columns are missing, as far as so much of the file shows it: those of required fields, and those that `--map` and
/// `--phone-region-column` name. `exists` tells whether one of the latter does. `noun` is the format's word for a column, and
/// `nested` are the pointers to nested members, which are only suggested.
fn refuse_missing(
    assignments: &Assignments,
    noun: &'static str,
    columns: &[String],
    nested: &[String],
    sample: MemberSample,
    exists: impl Fn(&str) -> bool,
    file: &str,
) -> Result<()> {
    let is_absent = |field: Field| {
        assignments.get(field).is_none() && !columns.iter().any(|name| names::is_of(field, name))
    };
    let is_missing = |field: &Field| match field {
        Field::Name | Field::Ip | Field::UserAgent => is_absent(*field),
        Field::Email => is_absent(Field::Phone) && is_absent(Field::Email),
        Field::Phone => false,
    };
    let unmapped: Vec<_> = Field::ALL.into_iter().filter(is_missing).collect();
    let mut missing = match sample {
        MemberSample::Whole => missing_named(assignments, columns, exists),
        MemberSample::Few | MemberSample::Part => Vec::new(),
    };
    let is_enough = missing.is_empty() && unmapped.is_empty() || assignments.is_list;
    if is_enough || sample == MemberSample::Few {
        return Ok(());
    }
    let mut words: Vec<_> = missing.iter().map(|it| it.words.clone()).collect();
    let fields = unmapped.iter().map(|field| match field {
        Field::Email => "`email` (or `phone`)".to_owned(),
        field => format!("`{field}`"),
    });
    if let Some((last, others)) = fields.collect::<Vec<_>>().split_last() {
        let others = others.join(", ");
        let or = if others.is_empty() { "" } else { " or " };
        words.push(format!("for {others}{or}{last}"));
    }
    let all = [columns, nested].concat();
    missing.extend(unmapped.into_iter().map(|field| MissingColumn {
        words: String::new(),
        meant: names::suggestion(field, &all),
        option: format!("--map {field}=…"),
    }));
    let is_clear = missing.iter().all(|it| it.meant.is_some());
    let options = missing.into_iter().map(|it| it.meant.unwrap_or(it.option));
    let options = options.collect::<Vec<_>>().join(" ");
    let pointers = match noun {
        "member" => ", or pointers such as `/device/ip`",
        _ => "",
    };
    let error = Error::usage(format!("no {noun} {} in {file}", words.join(" and ")));
    let error = error.columns(columns_line(noun, columns));
    Err(error.hint(if is_clear {
        format!("did you mean `{options}`?")
    } else {
        format!(
            "`{options}`, with the names of {noun}s{pointers} for `…`; `--set FIELD=VALUE` gives a constant"
        )
    }))
}

/// A column that an option names or a field needs, and that the file lacks.
struct MissingColumn {
    words: String,
    /// The option that may have been meant.
    meant: Option<String>,
    /// The option with `…` for an unknown name.
    option: String,
}

/// The columns that `--map` and `--phone-region-column` name and that do not exist.
fn missing_named(
    assignments: &Assignments,
    columns: &[String],
    exists: impl Fn(&str) -> bool,
) -> Vec<MissingColumn> {
    let mut missing = Vec::new();
    for field in Field::ALL {
        if let Some(Assigned::Columns(template)) = assignments.get(field)
            && let Some(name) = template.columns().find(|name| !exists(name))
        {
            missing.push(MissingColumn {
                words: format!("{} for `--map {field}=…`", quoted(name)),
                meant: meant(field, template, columns, &exists),
                option: format!("--map {field}=…"),
            });
        }
    }
    if let Some(name) = assignments.region_column()
        && !exists(name)
    {
        let near = nearest(name, columns);
        missing.push(MissingColumn {
            words: format!("{} for `--phone-region-column`", quoted(name)),
            meant: near.map(|near| format!("--phone-region-column '{near}'")),
            option: "--phone-region-column …".to_owned(),
        });
    }
    missing
}

/// The option that may have been meant if `--map` names columns that do not exist.
fn meant(
    field: Field,
    template: &Template<String>,
    columns: &[String],
    exists: impl Fn(&str) -> bool,
) -> Option<String> {
    let near = template.try_map(|name| match nearest(name, columns) {
        _ if exists(name) => Ok(name.clone()),
        near => near.ok_or(()),
    });
    match near {
        Ok(template) => {
            let template = template.to_string();
            Some(names::option(field, template.trim_matches('`')))
        }
        // A column that is found by its name need not be mapped.
        Err(()) if columns.iter().any(|name| names::is_of(field, name)) => None,
        Err(()) => names::suggestion(field, columns),
    }
}

/// The column whose spelling is nearest to `name`, which may be a pointer into a member.
pub(crate) fn nearest(name: &str, columns: &[String]) -> Option<String> {
    let pointer = Pointer::parse(name).unwrap_or_else(|_| Pointer::of_member(name));
    let member = pointer.split_first().0;
    let plain = |name: &str| name.trim().to_lowercase();
    let plain_columns: Vec<_> = columns.iter().map(|name| plain(name)).collect();
    let near = text::nearest(&plain(member), plain_columns.iter().map(String::as_str))?;
    let column = columns.iter().find(|name| plain(name) == near)?;
    Some(name.replacen(member, column, 1))
}

/// More columns than this are counted, not listed: a wide export must not fill the screen.
const LISTED_COLUMNS: usize = 20;

/// With this number of known names, a row is a header. A user may have one by chance: `email` as the way to be reached.
const CLEARLY_KNOWN: usize = 2;

/// Names in one line; `noun` is the format's word for a column.
pub(crate) fn columns_line(noun: &str, names: &[String]) -> String {
    let listed = names.iter().take(LISTED_COLUMNS);
    let listed: Vec<_> = listed.map(|name| column(name)).collect();
    let tail = match names.len().saturating_sub(LISTED_COLUMNS) {
        0 => String::new(),
        more => format!(" … and {more} more"),
    };
    format!("{noun}s: {}{tail}", listed.join(", "))
}

/// The first column of a frame from Python, whose columns always have names.
const FRAME_ROW: &str = "rescore_row";

/// An error about a header, without the header's names if it may be a user, as hardly any is known. One that is only like a known
/// name may be a user's: `Emil`, or the surname `Nahme`.
///
/// `by_number` says what else `--no-header` needs, and `otherwise` what to do if it is a header.
pub(crate) fn without_user(
    error: Error,
    header: &[String],
    by_number: &str,
    otherwise: &str,
) -> Error {
    let known = header.iter().filter(|name| is_known(name)).count();
    let is_clear = match header {
        [first, ..] if first == FRAME_ROW => true,
        // It may have all of a user behind another delimiter.
        [only] => is_known(only),
        _ => known >= CLEARLY_KNOWN,
    };
    if !error.lists_columns() || is_clear {
        return error;
    }
    let columns = counted(header.len() as u64, "column");
    let error = error.columns(format!(
        "{columns} (not shown: if there is no header, the first row is a user)"
    ));
    match header {
        // Another delimiter is more likely.
        [_] => error,
        _ => error.hint(format!(
            "if there is no header, add `--no-header`{by_number}; otherwise {otherwise}"
        )),
    }
}

/// Whether it is the name of a field, of half a name, or of a column that rescore writes.
fn is_known(name: &str) -> bool {
    let is_scored = |column: &&str| name.trim().ends_with(column);
    names::is_known(name) || VERDICT_COLUMNS.iter().any(is_scored)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(names: &str) -> Vec<String> {
        names.split(' ').map(ToOwned::to_owned).collect()
    }

    fn assignments(map: &[(Field, &str)]) -> Assignments {
        let mut assignments = Assignments::default();
        for (field, template) in map {
            let template = Template::parse(template).unwrap();
            assignments.map(*field, template).unwrap();
        }
        assignments
    }

    /// How the columns are used, or the report of the error.
    fn of(header: &str, map: &[(Field, &str)]) -> Result<String, String> {
        let mapping = Mapping::of_header(&words(header), &assignments(map), "`x.csv`");
        let described = mapping.map(|mapping| mapping.described);
        described.map_err(|error| error.report())
    }

    #[test]
    fn columns_are_found_by_their_usual_names() {
        assert_eq!(
            of("id full_name E-mail ip_address userAgent", &[]).unwrap(),
            "name ← `full_name`, email ← `E-mail`, phone not sent, ip ← `ip_address`, \
             user_agent ← `userAgent`"
        );
    }

    #[test]
    fn all_missing_columns_are_named_in_one_message_with_those_that_may_be_meant() {
        let header = "full_nam first last emial last_login_ip";
        for (map, missing, hint) in [
            (
                &[(Field::Email, "emial")][..],
                "no column for `name`, `ip` or `user_agent` in `x.csv`",
                "`--map name=… --map ip=last_login_ip --map user_agent=…`, with the names of columns for `…`; `--set FIELD=VALUE` gives a constant",
            ),
            (
                &[
                    (Field::Name, "{frist} {last}"),
                    (Field::Email, "emial"),
                    (Field::Ip, "IP-Adr"),
                    (Field::UserAgent, "agent"),
                ],
                "no column `frist` for `--map name=…` and `IP-Adr` for `--map ip=…` and `agent` for \
                 `--map user_agent=…` in `x.csv`",
                "`--map 'name={first} {last}' --map ip=last_login_ip --map user_agent=…`, with the names of columns for `…`; `--set FIELD=VALUE` gives a constant",
            ),
            // Nothing is near it, and the case of a name is ignored.
            (
                &[
                    (Field::Name, "first"),
                    (Field::Ip, "Last_Login_IP"),
                    (Field::Email, "emial"),
                    (Field::UserAgent, "x"),
                ],
                "no column `x` for `--map user_agent=…` in `x.csv`",
                "`--map user_agent=…`, with the names of columns for `…`; `--set FIELD=VALUE` gives a constant",
            ),
        ] {
            let columns = header.replace(' ', ", ");
            let report = format!("error: {missing}\n  columns: {columns}\n\nhint: {hint}");
            assert_eq!(of(header, map).unwrap_err(), report);
        }
    }

    #[test]
    fn a_misspelt_member_in_a_pointer_is_refused_where_all_members_are_known() {
        let members = words("name email device ua");
        let map = assignments(&[(Field::Ip, "/devcie/ip")]);
        let of = |sample| Mapping::of_members(&members, &[], sample, &map, "`x.jsonl`");
        for sample in [MemberSample::Few, MemberSample::Part] {
            let described = of(sample).unwrap().described;
            let none = "ip ← `/devcie/ip` (in none of the first rows)";
            assert!(described.contains(none), "{described}");
        }
        let report = of(MemberSample::Whole).unwrap_err().report();
        assert!(
            report.ends_with("did you mean `--map 'ip=/device/ip'`?"),
            "{report}"
        );
    }

    #[test]
    fn two_columns_for_one_field_are_refused_by_name_and_cannot_be_told_apart_by_one_name() {
        let header = "name email E-Mail ip ua";
        let report = of(header, &[]).unwrap_err();
        for words in [
            "column 2 `email` and column 3 `E-Mail`",
            "as with `--map email=E-Mail`",
        ] {
            assert!(report.contains(words), "{report}");
        }
        assert!(of(header, &[(Field::Email, "E-Mail")]).is_ok());
        for map in [&[][..], &[(Field::Email, "email")]] {
            let report = of("name email email ip ua", map).unwrap_err();
            assert!(report.ends_with("hint: rename one of them"), "{report}");
        }
    }
}
