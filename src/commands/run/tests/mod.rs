//! Every write of a run and every look-up fails, the first, the second, the third …, once or for ever: no row gets the
//! verdict of another, no answer that was kept is paid for again, and the next run gives the bytes of a run where nothing
//! failed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod course;
mod reads;
mod writes;
