//! Columns to a sanitised, valid request.
//!
//! `input` passes in what it found for each field. The result is a [`UserRequest`] that the service's interface allows,
//! or the reason why there is none. This module knows neither files nor HTTP.

mod aliases;
mod assignments;
mod field;
mod header;
mod mapping;
mod missing;
mod names;
mod phone;
mod region;
mod request;
mod sanitise;
mod template;

pub(crate) use assignments::Assigned;
pub use assignments::Assignments;
pub use field::Field;
pub(crate) use field::PerField;
pub(crate) use header::{columns_line, without_user};
pub(crate) use mapping::{ColumnSource, Mapping, MemberSample, NoColumn, find_column};
pub(crate) use missing::nearest;
pub(crate) use names::rank;
pub use region::PhoneRegion;
pub use request::{FieldRules, Invalid, UserRequest};
pub(crate) use sanitise::text;
pub(crate) use template::{Part, Template};
