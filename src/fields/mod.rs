//! Columns to a sanitised, valid request.
//!
//! `input` passes in what it found for each field. The result is a [`UserRequest`] that the service's interface allows,
//! or the reason why there is none. This module knows neither files nor HTTP.

mod mapping;
mod names;
mod phone;
mod quality;
mod request;
mod template;

pub(crate) use mapping::{ColumnSource, Mapping, MemberSample, NoColumn, find_column, name_rank};
pub(crate) use mapping::{columns_line, nearest, without_user};
pub use names::Field;
pub(crate) use names::{PerField, rank};
pub(crate) use phone::PhoneRegion;
pub(crate) use quality::{Finding, Quality};
pub use request::{FieldRules, Invalid, UserRequest};
pub(crate) use request::{Noticed, text};
pub use template::Assignments;
pub(crate) use template::{Assigned, Part, Template};
