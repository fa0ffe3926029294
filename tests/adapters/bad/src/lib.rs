//! One library with many factories, each broken in one way. The tests of the loader say what comes of each.
#![expect(
    unsafe_code,
    clippy::exit,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "what an adapter must not do is what these do"
)]

mod calls;
mod descriptions;
mod effects;
mod escapes;
mod factories;
mod harm;
mod manifests;
mod raw;
mod stub;
