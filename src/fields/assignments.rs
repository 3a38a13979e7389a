//! What `--map` and `--set` say: the sources of fields, by column name.

use super::field::{Field, PerField};
use super::sanitise;
use super::template::Template;
use crate::base::error::{Error, Result};

/// What `--map` and `--set` say.
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

    fn assign(&mut self, field: Field, assigned: Assigned) -> Result<()> {
        let slot = self.sources.get_mut(field);
        if slot.is_some() {
            return Err(Error::usage(format!(
                "`{field}` is given twice in `--map` and `--set`"
            )));
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
