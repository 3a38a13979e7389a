//! Delimited text is read and written back.

#![no_main]

#[path = "../../tests/fuzz_invariants/mod.rs"]
mod fuzz_invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_invariants::files::csv(input));
