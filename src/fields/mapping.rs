//! The source of each field: a column, a template of several columns, or a constant.
//!
//! [`Assignments`] are what the user asked for, by name. A [`Mapping`] is the same for a given
//! file, with the keys of its format (a column's index for CSV, a member's path for JSONL).

use super::missing::{self, MemberSample};
use super::names;
use super::names::{Field, PerField};
use super::template::{Assigned, Assignments, Part, Template};
use crate::base::encoding::composed;
use crate::base::error::{Error, Result};
use crate::base::text::{column, quoted};
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
    /// A column that was asked for is missing or appears twice, or a required field has no column.
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
        let region = match assignments
            .region_column()
            .map(|name| find_column(name, header))
        {
            Some(Ok(index)) => Some(index),
            Some(Err(NoColumn::Ambiguous(first, second))) => {
                let fix = "rename one of them".to_owned();
                return Err(twice(
                    "--phone-region-column",
                    fix,
                    header,
                    first,
                    second,
                    file,
                ));
            }
            // Reported below as well.
            Some(Err(NoColumn::Missing)) | None => None,
        };
        let is_there = |name: &str| find_column(name, header).is_ok();
        let (columns, all) = (("column", (header, &[][..])), MemberSample::Whole);
        missing::refuse(assignments, columns, all, is_there, file)?;
        let described = describe(&sources, assignments, |template| {
            let name = |index: &usize| Ok::<_, ()>(header.get(*index).cloned().unwrap_or_default());
            template
                .try_map(name)
                .map(|template| template.to_string())
                .unwrap_or_default()
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

/// How well a column or member has a name that was typed: 0 is exactly, 1 but for its case and the white space around it.
/// Names that look the same are the same.
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
    let ranked = { header.iter().enumerate() }
        .filter_map(|(index, column)| Some((name_rank(name, column)?, index)));
    let mut ranked: Vec<_> = ranked.collect();
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
fn ranked(field: Field, word: &str, columns: &[String], file: &str) -> Result<Vec<(usize, usize)>> {
    if field == Field::Name
        && let Some((column, other, which, map)) = names::half(columns)
    {
        return Err(Error::usage(format!(
            "{} in {file} may be only the {which} name, as there is also a {word} {}",
            quoted(column),
            quoted(other)
        ))
        .hint(format!(
            "`{map}` sends both, `--map 'name={column}'` only this one"
        )));
    }
    let mut ranked: Vec<_> = { columns.iter().enumerate() }
        .filter_map(|(index, name)| match names::rank(name) {
            Some((found, rank)) if found == field => Some((rank, index)),
            _ => None,
        })
        .collect();
    ranked.sort_unstable();
    Ok(ranked)
}

fn twice_for(field: Field, header: &[String], first: usize, second: usize, file: &str) -> Error {
    let fix = match (header.get(first), header.get(second)) {
        // A name that both have chooses neither.
        (one, other) if one == other => "rename one of them".to_owned(),
        (_, other) => {
            let option = names::option(field, other.map_or("", |name| name.as_str()));
            format!("rename one of them, or choose one, as with `{option}`")
        }
    };
    twice(field.name(), fix, header, first, second, file)
}

fn twice(
    what: &str,
    fix: String,
    header: &[String],
    first: usize,
    second: usize,
    file: &str,
) -> Error {
    let name = |index: usize| {
        header
            .get(index)
            .map(|name| format!("`{}`", column(name)))
            .unwrap_or_default()
    };
    Error::usage(format!(
        "two columns for `{what}` in {file}: column {} {} and column {} {}",
        first + 1,
        name(first),
        second + 1,
        name(second)
    ))
    .hint(fix)
}

fn describe<K>(
    sources: &PerField<ColumnSource<K>>,
    assignments: &Assignments,
    show: impl Fn(&Template<K>) -> String,
) -> String {
    let region =
        { assignments.region_column() }.map(|name| format!("phone region ← `{}`", column(name)));
    let shown: Vec<String> = Field::ALL
        .into_iter()
        .map(|field| match sources.get(field) {
            ColumnSource::Absent => format!("{field} not sent"),
            // A constant may be a personal address. It is enough to say that there is one.
            ColumnSource::Constant(_) => format!("{field} ← constant"),
            ColumnSource::Columns(template) => format!("{field} ← {}", show(template)),
        })
        .chain(region)
        .collect();
    shown.join(", ")
}

impl Mapping<String> {
    /// Maps the assignments to the members of a JSONL file's first objects. A field without an
    /// assignment is looked up by name in each row, as rows may differ. The templates name the
    /// members of the first objects; `nested` are pointers to further ones, which are only suggested.
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
        let is_there = |name: &str| {
            let member = Pointer::parse(name).unwrap_or_else(|_| Pointer::of_member(name));
            let name = member.split_first().0;
            { members.iter() }.any(|there| name_rank(name, there).is_some())
        };
        let further = (members, nested);
        missing::refuse(assignments, ("member", further), sample, is_there, file)?;
        // Later objects may have it, but it is more likely to be misspelt.
        let is_missing =
            |part: &Part<String>| matches!(part, Part::Column(name) if !is_there(name));
        let described = describe(&sources, assignments, |template| {
            if template.0.iter().any(is_missing) {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
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
                "no column for `name`, for `ip` and for `user_agent` in `x.csv`",
                "`--map name=full_nam --map ip=last_login_ip --map user_agent=…` with the names of columns for `…`; `--set FIELD=VALUE` gives a constant",
            ),
            (
                &[
                    (Field::Name, "{frist} {last}"),
                    (Field::Email, "emial"),
                    (Field::Ip, "IP-Adr"),
                    (Field::UserAgent, "agent"),
                ],
                "no column `frist` for `--map name=…`, `IP-Adr` for `--map ip=…` and `agent` for \
                 `--map user_agent=…` in `x.csv`",
                "`--map 'name={first} {last}' --map ip=last_login_ip --map user_agent=…` with the names of columns for `…`; `--set FIELD=VALUE` gives a constant",
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
                "name the column with `--map user_agent=COLUMN`, or give a constant with \
                 `--set user_agent=VALUE`",
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
