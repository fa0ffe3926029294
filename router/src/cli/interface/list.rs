//! `nexus-router interface list`.

use super::super::output::{Form, Output, columns};
use super::super::{Answer, Error};
use super::Place;
use crate::config::Environment;
use crate::interface::{Interface, Lock, Shelf, Verified, frozen, verify};
use crate::json::{Object, Value};

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

/// A contract, and how it stands to the lock.
struct Row<'a> {
    interface: &'a Interface,
    state: &'static str,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let (shelf, trust) = arguments.place.open(environment)?;
    let verified = verify(&shelf, &trust);
    let rows = rows(&shelf);
    let mut output = Output::new(environment);
    match arguments.format {
        Form::Json => {
            let list: Vec<Value> = rows.iter().map(|row| as_json(row, &verified)).collect();
            output.value(&list.into())?;
        }
        Form::Human => {
            let mut table = vec![
                ["ADAPTER", "VERSION", "STATE", "OPERATIONS", "SHA256"].map(str::to_owned).to_vec(),
            ];
            table.extend(rows.iter().map(|row| {
                let operations: Vec<&str> =
                    row.interface.operations.keys().map(String::as_str).collect();
                vec![
                    row.interface.adapter_id.clone(),
                    row.interface.version.to_string(),
                    row.state.to_owned(),
                    operations.join(","),
                    row.interface.digest.to_string()[..12].to_owned(),
                ]
            }));
            for line in columns(&table) {
                output.line(&line)?;
            }
        }
    }
    if !verified.findings.is_empty() {
        let count = verified.findings.len();
        super::tell(&format!("hint: {count} findings; nexus-router interface verify tells them"));
    }
    Ok(Answer::Yes)
}

fn rows(shelf: &Shelf) -> Vec<Row<'_>> {
    let empty = Lock::default();
    let lock = shelf.lock.as_ref().unwrap_or(&empty);
    let mut rows: Vec<Row<'_>> = Vec::new();
    for interface in shelf.files.values().flatten() {
        let latest = lock.latest(&interface.adapter_id);
        let locked = latest.and_then(|latest| latest.contract.as_ref());
        let state = match locked {
            Some(locked) if locked.digest == interface.digest => "locked",
            Some(locked) if locked.version == interface.version => "changed",
            _ => "not locked",
        };
        rows.push(Row { interface, state });
    }
    for interface in frozen() {
        let shadowed = rows.iter().any(|row| row.interface.adapter_id == interface.adapter_id);
        if !shadowed && lock.latest(&interface.adapter_id).is_none() {
            rows.push(Row { interface, state: "frozen" });
        }
    }
    rows.sort_by(|one, other| one.interface.adapter_id.cmp(&other.interface.adapter_id));
    rows
}

fn as_json(row: &Row<'_>, verified: &Verified) -> Value {
    let mut object = Object::with_capacity(7);
    object.insert("adapter_id", row.interface.adapter_id.as_str());
    object.insert("version", row.interface.version.to_string());
    object.insert("state", row.state);
    object.insert("sha256", row.interface.digest.to_string());
    let anchoring = verified.anchoring.get(&row.interface.adapter_id);
    object.insert("history", anchoring.map(|it| it.newest.digest.to_string()));
    let anchored = anchoring.and_then(|it| it.anchored.as_ref());
    object.insert("anchored", anchored.map(ToString::to_string));
    let operations: Vec<Value> =
        row.interface.operations.keys().map(|name| name.as_str().into()).collect();
    object.insert("operations", operations);
    object.into()
}
