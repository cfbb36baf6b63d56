//! Any bytes at every decoder of the wire: none panics, and what is read survives writing.
//!
//! `cargo +nightly fuzz run wire`; the property tests of `core/wire` run the same checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sangam_wire::check::all(bytes));
