//! Any bytes as a library file: the static look at them never panics, hangs or exhausts memory.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    drop(nexus_router::loader::factories_in(bytes));
});
