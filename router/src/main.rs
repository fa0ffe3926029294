//! The `nexus-router` binary: a child of a dry run, or the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    // Before anything else: the child must be small and quick, and confine itself first.
    if arguments.nth(1).is_some_and(|first| first == nexus_router::loader::CHILD_ARGUMENT) {
        return nexus_router::loader::run_child();
    }
    nexus_router::cli::run(std::env::args_os())
}
