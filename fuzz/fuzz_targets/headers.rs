//! Headers are asked how long to wait and how much is left.

#![no_main]

#[path = "../../tests/fuzz_laws/mod.rs"]
mod fuzz_laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_laws::headers::law(input));
