//! Interface contracts and registered tools, as authors, operators and callers meet them.

mod bad_input;
mod calls;
mod circuits;
mod closed;
mod defaults;
mod drafts;
mod frozen;
mod history;
mod kills;
mod repeating;
mod retries;
mod revisions;
mod tools;

use serde_json::{Value, json};

use crate::support::{Run, World};

/// The factory of the adapter whose contract the tests write.
pub const ECHO: &str = "nexus_router_adapter_echo:create_adapter";

/// Returns the operation `hello` of a contract of the echo adapter.
fn hello() -> Value {
    json!({
        "description": "Greets somebody.",
        "tool": "greeter",
        "method": "hello",
        "input_schema": {
            "type": "object",
            "properties": { "name": { "type": "string", "minLength": 1 } },
            "required": ["name"],
            "additionalProperties": false,
        },
        "output_schema": {
            "type": "object",
            "properties": { "args": { "type": "object" } },
            "required": ["args"],
        },
        "timeout_ms": 5000,
        "idempotent": true,
        "read_only": true,
        "failure_modes": [{ "code": "TIMEOUT", "severity": "error", "halts": true }],
        "examples": [{
            "input": { "name": "Ada" },
            "output": { "echo": true, "tool": "greeter", "method": "hello", "args": { "name": "Ada" } },
        }],
    })
}

/// Returns a contract of the echo adapter.
pub fn contract(version: &str) -> Value {
    json!({
        "format": "nexus-router.interface/1",
        "adapter_id": "echo",
        "version": version,
        "description": "Gives back what it is given.",
        "operations": { "hello": hello() },
    })
}

/// Returns a tool spec of the echo adapter's operation.
pub fn greet() -> Value {
    json!({
        "tool_id": "greet",
        "version": "1.0.0",
        "description": "Greets somebody by name.",
        "input_schema": { "type": "object" },
        "output_schema": { "type": "object" },
        "execution_mode": "remote",
        "credentials_required": [],
        "side_effects": [],
        "rollback_strategy": "none",
        "timeout_seconds": 5,
        "resource_class": "compute",
        "adapter_id": "echo",
        "adapter_operation": "hello",
        "adapter_contract_version": "1.0.0",
        "execution_target": { "mode": "remote", "provider": "nexus", "service": "echo" },
        "metadata": { "action_class": "data_lookup" },
    })
}

/// A directory of contracts, and what is done with it on the command line.
pub struct Desk {
    pub world: World,
}

impl Desk {
    pub fn new() -> Self {
        Self { world: World::new() }
    }

    pub fn write(&self, name: &str, value: &Value) {
        let path = self.world.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, serde_json::to_string_pretty(value).unwrap()).unwrap();
    }

    /// Writes the contract of the echo adapter.
    pub fn contract(&self, value: &Value) {
        self.write("data/interfaces/echo.interface.json", value);
    }

    /// Runs a verb with the data directory of this desk.
    pub fn run(&self, line: &str) -> Run {
        let words: Vec<&str> = line.split(' ').collect();
        self.world.run_with(&words, |command| {
            command.env("NEXUS_ROUTER_DATA_DIR", self.world.path("data"))
        })
    }

    /// Runs a verb that must answer yes.
    pub fn yes(&self, line: &str) -> String {
        let run = self.run(line);
        assert_eq!(run.code(), 0, "{line}: {}{}", run.stdout(), run.stderr());
        run.stdout()
    }

    /// Runs a verb that must answer no, and returns everything that it says.
    pub fn no(&self, line: &str) -> String {
        let run = self.run(line);
        let said = run.stdout() + &run.stderr();
        assert_eq!(run.code(), 1, "{line}: {said}");
        said
    }

    /// Locks the contract of the echo adapter as it is.
    pub fn freeze(&self) -> Run {
        self.run("interface freeze data/interfaces/echo.interface.json")
    }

    /// Writes and locks a contract.
    pub fn frozen(&self, value: &Value) {
        self.contract(value);
        let run = self.freeze();
        assert_eq!(run.code(), 0, "{}", run.stderr());
    }

    /// Lets two people approve breaking revisions from now on, and returns nothing: their keys are `a.pem` and
    /// `b.pem`.
    pub fn two_people(&self) {
        let keys = ["a.pem", "b.pem"].map(|name| self.yes(&format!("interface keygen {name}")));
        let [a, b] = keys.map(|key| key.trim().to_owned());
        let config = format!("[contracts]\nauthors = [{a:?}]\nreviewers = [{b:?}]\n");
        std::fs::write(self.world.path("router.toml"), config).unwrap();
    }
}
