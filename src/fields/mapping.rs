//! Where each field's value comes from: a column, a joined template or a constant.
//!
//! [`Assignments`] are what a person asked for, by name; a [`Mapping`] is that held against a file, by whatever key the
//! format uses (a column's index for CSV, a path for JSONL).

use super::template::{Part, Template};
use super::{Field, PerField, names, sanitise};
use crate::error::{Error, Result, column, quoted};
use crate::raw_json::Pointer;

/// What `--map` and `--set` asked for.
#[derive(Debug, Clone, Default)]
pub struct Assignments {
    sources: PerField<Option<Assigned>>,
}

/// One `--map` or `--set`.
#[derive(Debug, Clone)]
pub enum Assigned {
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
    pub fn map(&mut self, field: Field, template: Template<String>) -> Result<()> {
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
    pub fn get(&self, field: Field) -> Option<&Assigned> {
        self.sources.get(field).as_ref()
    }

    /// Every column that a `--map` names, with its field.
    pub fn columns(&self) -> impl Iterator<Item = (Field, &str)> {
        Field::ALL.into_iter().flat_map(|field| {
            let parts = match self.get(field) {
                Some(Assigned::Columns(template)) => template.0.as_slice(),
                _ => &[],
            };
            parts.iter().filter_map(move |part| match part {
                Part::Column(name) => Some((field, name.as_str())),
                Part::Text(_) => None,
            })
        })
    }
}

/// Where a field's value comes from in the file at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnSource<K> {
    /// Nowhere: the field is absent in every row.
    Absent,
    /// From the row.
    Columns(Template<K>),
    /// The same in every row.
    Constant(String),
}

/// Where every field's value comes from in the file at hand.
#[derive(Debug, Clone)]
pub struct Mapping<K> {
    /// The source of each field.
    pub sources: PerField<ColumnSource<K>>,
    /// One line for people: `name ← "Full Name", email ← …`.
    pub described: String,
}

impl Mapping<usize> {
    /// Holds the assignments against a header.
    ///
    /// # Errors
    /// A column that is asked for and not there or there twice, or a required field without a column.
    pub fn of_header(header: &[String], assignments: &Assignments, file: &str) -> Result<Self> {
        let sources = PerField::try_from_fn(|field| match assignments.get(field) {
            Some(Assigned::Constant(value)) => Ok(ColumnSource::Constant(value.clone())),
            Some(Assigned::Columns(template)) => template
                .try_map(|name| index_of(name, field, header, file))
                .map(ColumnSource::Columns),
            None => by_name(field, header, file),
        })?;
        require(&sources, header, file)?;
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

fn index_of(name: &str, field: Field, header: &[String], file: &str) -> Result<usize> {
    let mut exact = header
        .iter()
        .enumerate()
        .filter(|(_, column)| *column == name);
    let mut loose = header
        .iter()
        .enumerate()
        .filter(|(_, column)| column.trim().eq_ignore_ascii_case(name.trim()));
    let (first, second) = match exact.next() {
        Some(first) => (first, exact.next()),
        None => match loose.next() {
            Some(first) => (first, loose.next()),
            None => {
                return Err(no_such_column(name, field, header, file));
            }
        },
    };
    match second {
        None => Ok(first.0),
        Some(second) => Err(twice(field, header, first.0, second.0, file)),
    }
}

fn no_such_column(name: &str, field: Field, columns: &[String], file: &str) -> Error {
    Error::usage(format!(
        "no column {} in {file} for `--map {field}=…`",
        quoted(name)
    ))
    .detail(columns_line(columns))
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

/// Fails unless every required field has a source.
pub(super) fn require<K>(
    sources: &PerField<ColumnSource<K>>,
    columns: &[String],
    file: &str,
) -> Result<()> {
    let absent = |field: Field| matches!(sources.get(field), ColumnSource::Absent);
    let missing = [Field::Name, Field::Ip, Field::UserAgent]
        .into_iter()
        .find(|field| absent(*field));
    if let Some(field) = missing {
        return Err(no_column(field, &format!("`{field}`"), columns, file));
    }
    if absent(Field::Email) && absent(Field::Phone) {
        return Err(no_column(Field::Email, "`email` or `phone`", columns, file));
    }
    Ok(())
}

fn no_column(field: Field, wanted: &str, columns: &[String], file: &str) -> Error {
    let error =
        Error::usage(format!("no column for {wanted} in {file}")).detail(columns_line(columns));
    if columns.len() == 1 {
        return error.hint("one column found; try `--delimiter`");
    }
    match names::suggestion(field, columns) {
        Some(map) => error.hint(format!("did you mean `{map}`?")),
        None => error.hint(format!(
            "name it with `--map {field}=COLUMN`, or give a constant with `--set {field}=VALUE`"
        )),
    }
}

/// More columns than this are counted, not listed: a wide export must not fill the screen.
const LISTED_COLUMNS: usize = 20;

fn columns_line(columns: &[String]) -> String {
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
pub enum Sample {
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
    pub fn of_members(
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
        if sample != Sample::Few {
            require(&sources, members, file)?;
        }
        for (field, name) in assignments.columns() {
            let member = Pointer::parse(name).unwrap_or_else(|_| Pointer::of_member(name));
            let member = member.split_first().0;
            if sample == Sample::Whole && members.iter().all(|there| there != member) {
                return Err(no_such_column(name, field, members, file));
            }
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
