//! How answers are written: formats, colours, columns, and JSON that no terminal takes for commands.

use std::io::{IsTerminal as _, Write};

use serde_json::Value;

use crate::check::Status;
use crate::config::Environment;
use crate::json;
use crate::python_text::json_escaped;

/// The widest cell, in characters.
const MAX_CELL: usize = 80;

/// The format of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people.
    #[default]
    Human,
    /// For programs.
    Json,
    /// For GitHub workflows: annotations.
    Github,
}

/// The format of an answer about runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Form {
    /// For people.
    #[default]
    Human,
    /// For programs.
    Json,
}

/// A writer to standard output that knows whether colours are welcome.
pub(super) struct Output {
    colors: bool,
    out: std::io::StdoutLock<'static>,
}

impl Output {
    pub(super) fn new(environment: &Environment) -> Self {
        let stdout = std::io::stdout();
        let colors = stdout.is_terminal() && !environment.no_color;
        Self { colors, out: stdout.lock() }
    }

    pub(super) fn line(&mut self, text: &str) -> std::io::Result<()> {
        self.text(&format!("{text}\n"))
    }

    /// Writes text. A reader that has seen enough and gone does not change the answer.
    pub(super) fn text(&mut self, text: &str) -> std::io::Result<()> {
        match self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }

    /// Writes JSON; what a terminal might obey is written as an escape, which means the same.
    pub(super) fn json(&mut self, value: &Value) -> std::io::Result<()> {
        self.line(&json_escaped(&serde_json::to_string_pretty(value)?))
    }

    /// Writes a value as JSON, like [`json`](Self::json).
    pub(super) fn value(&mut self, value: &json::Value) -> std::io::Result<()> {
        self.line(&json::to_pretty(value))
    }

    /// Returns the sign of a status, coloured if colours are welcome.
    pub(super) fn sign(&self, status: Status) -> String {
        let sign = status.sign();
        let color = match status {
            Status::Pass => 32,
            Status::Fail => 31,
            Status::Warn => 33,
            Status::Skip => 90,
        };
        if self.colors { format!("\x1b[{color}m{sign}\x1b[0m") } else { sign.to_string() }
    }
}

/// Tells people something that is no data. A full or closed standard error is no reason to stop.
pub(super) fn tell(text: &str) {
    drop(writeln!(std::io::stderr().lock(), "{text}"));
}

/// Lays out rows as columns, two blanks apart.
pub(super) fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    rows.iter()
        .map(|row| {
            // By hand: the width in a format string has 16 bits, and panics beyond them.
            let padded = |(cell, width): (&String, &usize)| {
                cell.clone() + &" ".repeat(width - cell.chars().count())
            };
            let cells: Vec<String> = row.iter().zip(&widths).map(padded).collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect()
}

/// Cuts a cell that would push every other one off the screen.
pub(super) fn shortened(cell: &str) -> String {
    match cell.char_indices().nth(MAX_CELL) {
        Some((end, _)) => format!("{}…", &cell[..end]),
        None => cell.to_owned(),
    }
}
