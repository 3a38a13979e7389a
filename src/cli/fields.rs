//! The arguments that say which columns are which fields. Every command that reads users has them.

use clap::Args;

use super::choices::PhoneArg;
use super::values::{self, Map, Set};
use crate::base::error::Result;
use crate::fields::{Assignments, PhoneRegion, PhoneRules};

/// Their heading in the help.
pub(super) const FIELDS: &str = "Fields and decisions";

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these comments are the help's text")]
pub(super) struct FieldArgs {
    /// Take a field (name, email, phone, ip, user_agent) from this column (repeatable)
    ///
    /// Several columns make one field as in `name={first} {last}`. In JSONL, a JSON pointer reaches nested members, as
    /// in `ip=/device/ip`.
    #[arg(long, value_name = "FIELD=COLUMN", value_delimiter = '\n', value_parser = values::map, help_heading = FIELDS)]
    map: Vec<Map>,
    /// Send the same value for a field in every row (repeatable)
    #[arg(long, value_name = "FIELD=VALUE", value_delimiter = '\n', value_parser = values::set, help_heading = FIELDS)]
    set: Vec<Set>,
    /// Read national phone numbers as dialled in this region, such as `DE`
    ///
    /// A region is a country's code of two letters (ISO 3166). A number that is not valid there is not sent. International
    /// numbers do not depend on it.
    #[arg(long, value_name = "CODE", value_parser = values::phone_region, help_heading = FIELDS)]
    phone_region: Option<PhoneRegion>,
    /// Take the region of national phone numbers from this column of each row; where it is empty, from `--phone-region`
    #[arg(long, value_name = "COLUMN", value_parser = values::column_name, help_heading = FIELDS)]
    phone_region_column: Option<String>,
    /// What to do with a phone number that is not international
    #[arg(long, value_name = "ACTION", value_enum, default_value = "reject", help_heading = FIELDS)]
    invalid_phone: PhoneArg,
}

impl FieldArgs {
    /// What `--map`, `--set` and `--phone-region-column` say.
    ///
    /// # Errors
    /// A field that is given twice.
    pub(super) fn assignments(&self) -> Result<Assignments> {
        let mut assignments = Assignments::default();
        for Map(field, template) in self.map.clone() {
            assignments.map(field, template)?;
        }
        for Set(field, value) in self.set.clone() {
            assignments.set(field, value)?;
        }
        assignments.set_region_column(self.phone_region_column.clone());
        Ok(assignments)
    }

    /// What `--phone-region` and `--invalid-phone` say.
    pub(super) fn phones(&self) -> PhoneRules {
        PhoneRules {
            region: self.phone_region,
            invalid: self.invalid_phone.into(),
        }
    }
}
