//! Evidence: sealed executions and runs, from their bytes to the verdict about them.

mod bundles;
mod crashes;
mod engine;
mod log;
mod lost;
mod seals;
mod verify;
