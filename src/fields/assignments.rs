//! What `--map`, `--set` and `--phone-region-column` say: the sources of fields, by column name.

use super::field::{Field, PerField};
use super::sanitise;
use super::template::Template;
use crate::base::error::{Error, Result};

/// What `--map`, `--set` and `--phone-region-column` say.
#[derive(Debug, Clone, Default)]
pub struct Assignments {
    sources: PerField<Option<Assigned>>,
    region: Option<String>,
}

/// One `--map` or `--set`.
#[derive(Debug, Clone)]
pub(crate) enum Assigned {
    /// `--map`: from these columns.
    Columns(Template<String>),
    /// `--set`: the same value in every row.
    Constant(String),
}

impl Assigned {
    /// The option that says it.
    const fn option(&self) -> &'static str {
        match self {
            Self::Columns(_) => "--map",
            Self::Constant(_) => "--set",
        }
    }
}

impl Assignments {
    /// Adds one `--map`.
    ///
    /// # Errors
    /// The field was given before.
    pub(crate) fn map(&mut self, field: Field, template: Template<String>) -> Result<()> {
        self.assign(field, Assigned::Columns(template))
    }

    /// Adds one `--set`.
    ///
    /// # Errors
    /// The field was given before, or no row could be sent with this value.
    pub fn set(&mut self, field: Field, value: String) -> Result<()> {
        if let Some(wrong) = sanitise::wrong_constant(&value, field) {
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
    #[must_use]
    pub(crate) fn region_column(&self) -> Option<&str> {
        self.region.as_deref()
    }

    fn assign(&mut self, field: Field, assigned: Assigned) -> Result<()> {
        let slot = self.sources.get_mut(field);
        if let Some(before) = slot {
            let twice = match (before.option(), assigned.option()) {
                (before, again) if before == again => format!("twice in `{again}`"),
                _ => "in both `--map` and `--set`".to_owned(),
            };
            return Err(Error::usage(format!("`{field}` is given {twice}")));
        }
        *slot = Some(assigned);
        Ok(())
    }

    /// What was given for one field.
    #[must_use]
    pub(crate) fn get(&self, field: Field) -> Option<&Assigned> {
        self.sources.get(field).as_ref()
    }
}
