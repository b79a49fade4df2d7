#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tidelog_fuzz::tool(input));
