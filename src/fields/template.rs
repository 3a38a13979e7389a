//! What `--map`, `--set` and `--phone-region-column` say: the sources of fields, by column name. A source is a constant, or one or
//! more columns and texts that are joined, such as `{first} {last}`.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;

use super::names::{Field, PerField};
use super::request::constant;
use crate::base::error::{Error, Result as RunResult};
use crate::base::text::{column, quoted};

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part<K> {
    /// Text that is the same in every row.
    Text(String),
    /// The value of a column.
    Column(K),
}

/// One or more columns and texts that are joined to a field's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template<K>(pub(crate) Vec<Part<K>>);

impl Template<String> {
    /// Parses `COLUMN` or a template such as `{first} {last}`; `{{` and `}}` stand for the braces
    /// themselves.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the column name is missing".to_owned());
        }
        if !text.contains(['{', '}']) {
            return Ok(Self(vec![Part::Column(text.to_owned())]));
        }
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some((before, brace)) = rest.find(['{', '}']).map(|at| rest.split_at(at)) {
            plain.push_str(before);
            if let Some(after) = brace.strip_prefix("{{").or(brace.strip_prefix("}}")) {
                plain.extend(brace.chars().next());
                rest = after;
            } else if let Some(inner) = brace.strip_prefix('{') {
                let closed = inner.split_once('}');
                let (column, after) =
                    closed.ok_or_else(|| format!("`{text}` has a `{{` without a `}}`"))?;
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::Column(column.to_owned()));
                rest = after;
            } else {
                return Err(format!("`{text}` has a `}}` without a `{{`"));
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        if parts.iter().any(|part| matches!(part, Part::Column(_))) {
            Ok(Self(parts))
        } else {
            Err(format!(
                "`{text}` does not name a column; use `--set` for a constant"
            ))
        }
    }

    /// The names of its columns.
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Column(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }
}

impl<K> Template<K> {
    /// The same template with its keys converted.
    pub(crate) fn try_map<L, E>(
        &self,
        mut key: impl FnMut(&K) -> Result<L, E>,
    ) -> Result<Template<L>, E> {
        let parts = self.0.iter().map(|part| match part {
            Part::Text(text) => Ok(Part::Text(text.clone())),
            Part::Column(column) => key(column).map(Part::Column),
        });
        parts.collect::<Result<_, E>>().map(Template)
    }

    /// The same template with its keys converted, which cannot fail.
    pub(crate) fn map<L>(&self, mut key: impl FnMut(&K) -> L) -> Template<L> {
        let Ok(template) = self.try_map(|column| Ok::<_, Infallible>(key(column)));
        template
    }

    /// The key of a template that consists of one column, as most do.
    pub(crate) fn column(&self) -> Option<&K> {
        match self.0.as_slice() {
            [Part::Column(key)] => Some(key),
            _ => None,
        }
    }

    /// The text for a row. A single column's text stays borrowed; a joined text is absent if all its columns are empty. A
    /// separator beside an empty column becomes a blank, and blanks at the ends of a value are removed later.
    ///
    /// # Errors
    /// That of the first column whose text cannot be read.
    #[inline]
    pub(crate) fn text<'a, E>(
        &self,
        mut get: impl FnMut(&K) -> Result<Option<Cow<'a, str>>, E>,
    ) -> Result<Option<Cow<'a, str>>, E> {
        if let Some(key) = self.column() {
            return get(key);
        }
        let mut value = |part: &Part<K>| match part {
            Part::Text(_) => Ok(None),
            Part::Column(key) => Ok(get(key)?.filter(|text| !text.trim().is_empty())),
        };
        let values: Vec<_> = self.0.iter().map(&mut value).collect::<Result<_, E>>()?;
        if values.iter().all(Option::is_none) {
            return Ok(None);
        }
        let is_empty = |at: usize| {
            let is_column = matches!(self.0.get(at), Some(Part::Column(_)));
            is_column && matches!(values.get(at), Some(None))
        };
        let mut joined = String::new();
        for (at, (part, value)) in self.0.iter().zip(&values).enumerate() {
            joined.push_str(match part {
                Part::Text(text) if is_separator(text) => {
                    let is_loose = is_empty(at + 1) || at > 0 && is_empty(at - 1);
                    if is_loose { " " } else { text }
                }
                Part::Text(text) => text,
                Part::Column(_) => value.as_deref().unwrap_or_default(),
            });
        }
        Ok(Some(Cow::Owned(joined)))
    }
}

/// Whether a text only separates values. An `@` or a `+` is a part of an email address or a phone number.
fn is_separator(text: &str) -> bool {
    !text.contains(|c: char| c.is_alphanumeric() || c == '@' || c == '+')
}

impl fmt::Display for Template<String> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.column() {
            return write!(f, "`{}`", column(name));
        }
        let parts = self.0.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Column(name) => format!("{{{name}}}"),
        });
        f.write_str(&quoted(&parts.collect::<String>()))
    }
}

/// What `--map`, `--set` and `--phone-region-column` say.
#[derive(Debug, Clone, Default)]
pub struct Assignments {
    sources: PerField<Option<Assigned>>,
    region: Option<String>,
    /// The file may have any of the fields.
    pub(super) is_list: bool,
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
    /// The field was given before.
    pub(crate) fn map(&mut self, field: Field, template: Template<String>) -> RunResult<()> {
        self.assign(field, Assigned::Columns(template))
    }

    /// The same for a list of people, which may have any of the fields: `--map` names columns that it may have.
    pub(crate) fn of_list(mut self) -> Self {
        for field in Field::ALL {
            let source = self.sources.get_mut(field);
            source.take_if(|source| matches!(source, Assigned::Constant(_)));
        }
        self.is_list = true;
        self
    }

    /// Adds one `--set`.
    ///
    /// # Errors
    /// The field was given before, or no row could be sent with this value.
    pub fn set(&mut self, field: Field, value: String) -> RunResult<()> {
        if let Err(wrong) = constant(&value, field) {
            return Err(Error::usage(format!(
                "no row could be sent with `--set {field}=…`: its value {wrong}"
            ))
            .hint(format!(
                "give another value, or use a column with `--map {field}=COLUMN`"
            )));
        }
        self.assign(field, Assigned::Constant(value))
    }

    /// Takes the region of national phone numbers from this column.
    pub(crate) fn set_region_column(&mut self, column: Option<String>) {
        self.region = column;
    }

    /// The column with the region of national phone numbers.
    pub(crate) fn region_column(&self) -> Option<&str> {
        self.region.as_deref()
    }

    fn assign(&mut self, field: Field, assigned: Assigned) -> RunResult<()> {
        let source = self.sources.get_mut(field);
        if source.is_some() {
            let message = format!("`{field}` is given twice in `--map` or `--set`");
            return Err(Error::usage(message));
        }
        *source = Some(assigned);
        Ok(())
    }

    /// What was given for one field.
    pub(crate) fn get(&self, field: Field) -> Option<&Assigned> {
        self.sources.get(field).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::request::clean;

    #[test]
    fn templates_join_columns() {
        let template = Template::parse("{first} {last}").unwrap();
        let text = |first: Option<&'static str>, last: Option<&'static str>| {
            template.text(|name| match name.as_str() {
                "first" => Ok(first.map(Cow::Borrowed)),
                _ => last.map_or(Err(()), |last| Ok(Some(Cow::Borrowed(last)))),
            })
        };
        let joined = text(Some("Jane"), Some("Doe")).unwrap();
        assert_eq!(joined.as_deref(), Some("Jane Doe"));
        assert_eq!(text(Some(""), Some(" ")), Ok(None));
        assert_eq!(text(Some("Jane"), None), Err(()));
        for broken in ["{first", "first}", "{{x}}", ""] {
            assert!(Template::parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn separators_beside_an_empty_column_are_blanks() {
        for (template, values, joined) in [
            ("{a}, {b}", ["Lee", "Ann", ""], "Lee, Ann"),
            ("{a}, {b}", ["Lee", "", ""], "Lee"),
            ("{a}, {b}", [" ", "Ann", ""], "Ann"),
            ("{a} {b}", ["", "Ann", ""], "Ann"),
            ("{a} {b} {c}", ["Ann", "", "Lee"], "Ann Lee"),
            ("{a}, {b} {c}", ["Lee", "", "M."], "Lee M."),
            ("{a}-{b}-{c}", ["", "", "C"], "C"),
            ("{a} \"{b}\" {c}", ["Ann", "", "Lee"], "Ann Lee"),
            ("{a} ({b})", ["Lee", "Ann", ""], "Lee (Ann)"),
            ("{a} ({b})", ["Lee", "", ""], "Lee"),
            ("Dr. {a}, {b}", ["Lee", "", ""], "Dr. Lee"),
            // These belong to the value.
            ("{a}{b}@{c}", ["ann", "", "x.org"], "ann@x.org"),
            ("+{a}{b}", ["", "4930123456", ""], "+4930123456"),
        ] {
            let parsed = Template::parse(template).unwrap();
            let value = |name: &String| {
                let mut named = ["a", "b", "c"].into_iter().zip(values);
                let value = named.find(|(column, _)| column == name);
                Ok::<_, ()>(value.map(|(_, value)| Cow::Borrowed(value)))
            };
            let text = parsed.text(value).unwrap().unwrap();
            let sent = clean(text, Field::Name).unwrap().unwrap();
            assert_eq!(sent, joined, "{template} {values:?}");
        }
    }
}
