//! The frozen roles: their exports, and how they may change.

mod commands;
mod frozen;
mod golden;
mod process;
mod updates;
