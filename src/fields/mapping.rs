//! Where each field's value comes from: a column, a joined template or a constant.
//!
//! [`Assignments`] are what a person asked for, by name; a [`Mapping`] is that held against a file, by whatever key the
//! format uses (a column's index for CSV, a path for JSONL).

use super::missing::{self, Needed};
use super::template::{Part, Template};
use super::{Field, PerField, names, sanitise};
use crate::base::error::{Error, Result, column, quoted};
use crate::raw_json::Pointer;

/// What `--map` and `--set` asked for.
#[derive(Debug, Clone, Default)]
pub struct Assignments {
    sources: PerField<Option<Assigned>>,
}

/// One `--map` or `--set`.
#[derive(Debug, Clone)]
pub(crate) enum Assigned {
    /// `--map`: from these columns.
    Columns(Template<String>),
    /// `--set`: the same value in every row.
    Constant(String),
}

impl Assignments {
    /// Adds one `--map`.
    ///
    /// # Errors
    /// When the field was given before.
    pub(crate) fn map(&mut self, field: Field, template: Template<String>) -> Result<()> {
        self.assign(field, Assigned::Columns(template))
    }

    /// Adds one `--set`.
    ///
    /// # Errors
    /// When the field was given before, or no row could be sent with this value.
    pub fn set(&mut self, field: Field, value: String) -> Result<()> {
        if let Some(wrong) = sanitise::wrong_constant(&value, field) {
            return Err(Error::usage(format!(
                "no row could be sent with `--set {field}=…`: its value {wrong}"
            ))
            .hint(format!(
                "give another value, or take it from a column with `--map {field}=COLUMN`"
            )));
        }
        self.assign(field, Assigned::Constant(value))
    }

    fn assign(&mut self, field: Field, assigned: Assigned) -> Result<()> {
        let slot = self.sources.get_mut(field);
        if slot.is_some() {
            return Err(Error::usage(format!(
                "`{field}` is given twice by `--map` and `--set`"
            )));
        }
        *slot = Some(assigned);
        Ok(())
    }

    /// What was asked for one field.
    #[must_use]
    pub(crate) fn get(&self, field: Field) -> Option<&Assigned> {
        self.sources.get(field).as_ref()
    }
}

/// Where a field's value comes from in the file at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ColumnSource<K> {
    /// Nowhere: the field is absent in every row.
    Absent,
    /// From the row.
    Columns(Template<K>),
    /// The same in every row.
    Constant(String),
}

/// Where every field's value comes from in the file at hand.
#[derive(Debug, Clone)]
pub(crate) struct Mapping<K> {
    /// The source of each field.
    pub(crate) sources: PerField<ColumnSource<K>>,
    /// One line for people: `name ← "Full Name", email ← …`.
    pub(crate) described: String,
}

impl<K> Mapping<K> {
    /// That of a file without columns.
    pub(crate) fn nothing() -> Self {
        Self {
            sources: PerField::from_fn(|_| ColumnSource::Absent),
            described: String::new(),
        }
    }
}

impl Mapping<usize> {
    /// Holds the assignments against a header.
    ///
    /// # Errors
    /// A column that is asked for and not there or there twice, or a required field without a column.
    pub(crate) fn of_header(
        header: &[String],
        assignments: &Assignments,
        file: &str,
    ) -> Result<Self> {
        let sources = PerField::try_from_fn(|field| match assignments.get(field) {
            Some(Assigned::Constant(value)) => Ok(ColumnSource::Constant(value.clone())),
            Some(Assigned::Columns(template)) => {
                match template.try_map(|name| index_of(name, header)) {
                    Ok(template) => Ok(ColumnSource::Columns(template)),
                    Err(Index::Twice(first, second)) => {
                        Err(twice(field, header, first, second, file))
                    }
                    // Is refused below, with all others.
                    Err(Index::Nowhere) => Ok(ColumnSource::Absent),
                }
            }
            None => by_name(field, header, file),
        })?;
        let is_there = |name: &str| index_of(name, header).is_ok();
        missing::refuse(assignments, header, Needed::All, is_there, file).map_err(|error| {
            match header {
                [_] => error.hint("one column found; try `--delimiter`"),
                _ => error,
            }
        })?;
        let described = describe(&sources, |template| {
            let name = |index: &usize| Ok::<_, ()>(header.get(*index).cloned().unwrap_or_default());
            template
                .try_map(name)
                .map(|template| template.to_string())
                .unwrap_or_default()
        });
        Ok(Self { sources, described })
    }
}

/// Why a name means no column.
enum Index {
    Nowhere,
    Twice(usize, usize),
}

/// Looks for a column by its name as it is written, or else in any case.
fn index_of(name: &str, header: &[String]) -> Result<usize, Index> {
    let find = |is_it: &dyn Fn(&str) -> bool| {
        let columns = header.iter().enumerate();
        let mut found = columns.filter_map(|(index, column)| is_it(column).then_some(index));
        match (found.next(), found.next()) {
            (None, _) => Err(Index::Nowhere),
            (Some(index), None) => Ok(index),
            (Some(first), Some(second)) => Err(Index::Twice(first, second)),
        }
    };
    match find(&|column| column == name) {
        Err(Index::Nowhere) => find(&|column| column.trim().eq_ignore_ascii_case(name.trim())),
        found => found,
    }
}

fn by_name(field: Field, header: &[String], file: &str) -> Result<ColumnSource<usize>> {
    let ranked = ranked(field, header, file)?;
    match ranked.as_slice() {
        [] => Ok(ColumnSource::Absent),
        [(first_rank, first), (second_rank, second), ..] if first_rank == second_rank => {
            Err(twice(field, header, *first, *second, file))
        }
        [(_, first), ..] => Ok(ColumnSource::Columns(Template(vec![Part::Column(*first)]))),
    }
}

/// The columns whose name means the field: how plainly it does, and which column it is; the plainest first.
///
/// # Errors
/// A column that may be only half of a name.
fn ranked(field: Field, columns: &[String], file: &str) -> Result<Vec<(usize, usize)>> {
    if field == Field::Name
        && let Some(half) = names::half(columns)
    {
        return Err(Error::usage(format!(
            "{} in {file} may be the {} name alone, as {} stands beside it",
            quoted(half.column),
            half.which,
            quoted(half.other)
        ))
        .hint(format!(
            "`{}` sends both, `--map 'name={}'` that one alone",
            half.map, half.column
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

fn twice(field: Field, header: &[String], first: usize, second: usize, file: &str) -> Error {
    let name = |index: usize| {
        header
            .get(index)
            .map(|name| format!("`{}`", column(name)))
            .unwrap_or_default()
    };
    Error::usage(format!(
        "two columns for `{field}` in {file}: column {} {} and column {} {}",
        first + 1,
        name(first),
        second + 1,
        name(second)
    ))
    .hint(format!(
        "rename one of them, or name another column with `--map {field}=COLUMN`"
    ))
}

/// More columns than this are counted, not listed: a wide export must not fill the screen.
const LISTED_COLUMNS: usize = 20;

pub(super) fn columns_line(columns: &[String]) -> String {
    let shown = columns.iter().take(LISTED_COLUMNS);
    let shown: Vec<_> = shown.map(|name| column(name)).collect();
    let more = columns.len().saturating_sub(LISTED_COLUMNS);
    let tail = if more > 0 {
        format!(" … and {more} more")
    } else {
        String::new()
    };
    format!("columns: {}{tail}", shown.join(", "))
}

fn describe<K>(
    sources: &PerField<ColumnSource<K>>,
    show: impl Fn(&Template<K>) -> String,
) -> String {
    let shown: Vec<String> = Field::ALL
        .into_iter()
        .map(|field| match sources.get(field) {
            ColumnSource::Absent => format!("{field} not sent"),
            // A constant may be a person's own address: that there is one is enough here.
            ColumnSource::Constant(_) => format!("{field} ← constant"),
            ColumnSource::Columns(template) => format!("{field} ← {}", show(template)),
        })
        .collect();
    shown.join(", ")
}

/// How much of a JSONL file its first objects are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sample {
    /// So few that nothing can be said of the others.
    Few,
    /// Enough to judge by.
    Part,
    /// All of it.
    Whole,
}

impl Mapping<String> {
    /// Holds the assignments against the members seen in the first objects of a JSONL file. A field without an
    /// assignment is looked up by name in each row, as rows may differ; the template names what the first ones had.
    ///
    /// # Errors
    /// A required field, or a member that `--map` names, that none of the objects has; a small sample is not enough to
    /// say so.
    pub(crate) fn of_members(
        members: &[String],
        sample: Sample,
        assignments: &Assignments,
        file: &str,
    ) -> Result<Self> {
        let sources = PerField::try_from_fn(|field| {
            Ok(match assignments.get(field) {
                Some(Assigned::Constant(value)) => ColumnSource::Constant(value.clone()),
                Some(Assigned::Columns(template)) => ColumnSource::Columns(template.clone()),
                None => {
                    let plainest = ranked(field, members, file)?.into_iter().next();
                    let member = plainest.and_then(|(_, index)| members.get(index));
                    member.map_or(ColumnSource::Absent, |name| {
                        ColumnSource::Columns(Template(vec![Part::Column(name.clone())]))
                    })
                }
            })
        })?;
        // Before the end of a file, an object may still come that has what `--map` names.
        let needed = match sample {
            Sample::Few => None,
            Sample::Part => Some(Needed::Required),
            Sample::Whole => Some(Needed::All),
        };
        let is_there = |name: &str| {
            let member = Pointer::parse(name).unwrap_or_else(|_| Pointer::of_member(name));
            members.iter().any(|there| there == member.split_first().0)
        };
        if let Some(needed) = needed {
            missing::refuse(assignments, members, needed, is_there, file)?;
        }
        let described = describe(&sources, ToString::to_string);
        Ok(Self { sources, described })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn header(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn assignments(map: &[(Field, &str)]) -> Assignments {
        let mut assignments = Assignments::default();
        for (field, template) in map {
            assignments
                .map(*field, Template::parse(template).unwrap())
                .unwrap();
        }
        assignments
    }

    #[test]
    fn columns_are_found_by_their_usual_names() {
        let header = header(&["id", "Full Name", "E-mail", "IP Address", "userAgent"]);
        let mapping = Mapping::of_header(&header, &Assignments::default(), "`x.csv`").unwrap();
        assert_eq!(
            mapping.described,
            "name ← `Full Name`, email ← `E-mail`, phone not sent, ip ← `IP Address`, user_agent ← `userAgent`"
        );
    }

    #[test]
    fn a_missing_column_is_named_with_the_nearest_one() {
        let header = header(&["id", "full_name", "email", "last_login_ip", "ua"]);
        let error =
            Mapping::of_header(&header, &Assignments::default(), "`people.csv`").unwrap_err();
        assert_eq!(
            error.report(),
            "error: no column for `ip` in `people.csv`\n  columns: id, full_name, email, last_login_ip, ua\n\nhint: did you mean `--map ip=last_login_ip`?"
        );
    }

    #[test]
    fn all_missing_columns_are_named_in_one_message_with_those_that_may_be_meant() {
        let header = header(&["full_nam", "first", "last", "emial", "last_login_ip"]);
        for (map, report) in [
            (
                &[(Field::Email, "emial")][..],
                "error: no column for `name`, for `ip` and for `user_agent` in `x.csv`\n  columns: full_nam, first, last, emial, last_login_ip\n\nhint: did you mean `--map name=full_nam --map ip=last_login_ip`?",
            ),
            (
                &[
                    (Field::Name, "{frist} {last}"),
                    (Field::Email, "emial"),
                    (Field::Ip, "IP-Adr"),
                    (Field::UserAgent, "agent"),
                ],
                "error: no column `frist` for `--map name=…`, `IP-Adr` for `--map ip=…` and `agent` for `--map user_agent=…` in `x.csv`\n  columns: full_nam, first, last, emial, last_login_ip\n\nhint: did you mean `--map 'name={first} {last}' --map ip=last_login_ip`?",
            ),
            (
                &[
                    (Field::Name, "first"),
                    (Field::Ip, "Last_Login_IP"),
                    (Field::Email, "emial"),
                    (Field::UserAgent, "x"),
                ],
                "error: no column `x` for `--map user_agent=…` in `x.csv`\n  columns: full_nam, first, last, emial, last_login_ip\n\nhint: name it with `--map user_agent=COLUMN`, or give a constant with `--set user_agent=VALUE`",
            ),
            (
                &[(Field::Email, "x")],
                "error: no column `x` for `--map email=…`, and none for `name`, for `ip` and for `user_agent`, in `x.csv`\n  columns: full_nam, first, last, emial, last_login_ip\n\nhint: did you mean `--map name=full_nam --map email=emial --map ip=last_login_ip`?",
            ),
        ] {
            let error = Mapping::of_header(&header, &assignments(map), "`x.csv`").unwrap_err();
            assert_eq!(error.report(), report);
        }
    }

    #[test]
    fn where_there_is_one_column_another_delimiter_is_proposed_and_not_for_members() {
        let (one, map) = (header(&["users"]), Assignments::default());
        let of_csv = Mapping::of_header(&one, &map, "`x.csv`").unwrap_err();
        assert!(of_csv.report().contains("--delimiter"));
        let of_jsonl = Mapping::of_members(&one, Sample::Whole, &map, "`x.jsonl`").unwrap_err();
        assert!(!of_jsonl.report().contains("--delimiter"));
    }

    #[test]
    fn a_member_of_a_pointer_that_is_misspelt_is_suggested() {
        let members = header(&["name", "email", "device", "ua"]);
        let map = assignments(&[(Field::Ip, "/devcie/ip")]);
        let of = |sample| Mapping::of_members(&members, sample, &map, "`x.jsonl`");
        assert!(of(Sample::Few).is_ok() && of(Sample::Part).is_ok());
        assert_eq!(
            of(Sample::Whole).unwrap_err().report(),
            "error: no column `/devcie/ip` for `--map ip=…` in `x.jsonl`\n  columns: name, email, device, ua\n\nhint: did you mean `--map 'ip=/device/ip'`?"
        );
    }

    #[test]
    fn two_columns_for_one_field_are_refused_by_name() {
        let header = header(&["name", "email", "E-Mail", "ip", "ua"]);
        let error = Mapping::of_header(&header, &Assignments::default(), "`x.csv`").unwrap_err();
        assert!(
            error
                .report()
                .contains("column 2 `email` and column 3 `E-Mail`"),
            "{}",
            error.report()
        );
        let clear = assignments(&[(Field::Email, "E-Mail")]);
        assert!(Mapping::of_header(&header, &clear, "`x.csv`").is_ok());
    }
}
