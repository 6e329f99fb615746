#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcvi_fuzz::run("stan", data));
