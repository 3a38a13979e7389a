//! Headers are asked how long to wait and how much is left.

#![no_main]

#[path = "../../tests/fuzz_invariants/mod.rs"]
mod fuzz_invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_invariants::headers::holds(input));
