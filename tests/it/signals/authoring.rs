//! Writing contracts: scaffold, lint, rehash, bump, diff.

mod changing;
mod many;
mod recorded;

use std::fs;
use std::path::PathBuf;

use nexus_router::json::{self, Limits, Object, Value};
use nexus_router::signal;

use crate::support::World;

/// Makes a contract whose members are changed, and whose hashes are right.
fn contract(id: &str, version: &str, members: &str) -> Object {
    let mut contract = signal::scaffold(id, version, "a,b").unwrap();
    let members = json::parse(members.as_bytes(), Limits::REQUEST).unwrap();
    contract.extend(members.into_object().unwrap());
    signal::rehash(&mut contract).unwrap();
    contract
}

fn text(contract: &Object) -> String {
    json::to_indented(&Value::Object(contract.clone())) + "\n"
}

impl World {
    /// Writes a file, and the directories that it is in.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}
