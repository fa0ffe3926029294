//! A publisher with a key and contracts, for tests.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nexus_router::json::{self, Limits, Object};
use nexus_router::key::SigningKey;
use nexus_router::signal::{contract_hash, input_schema_hash};
use serde_json::{Value, json};

use crate::support::{Run, World};

/// A publisher, in a directory of its own.
pub struct Shop {
    pub world: World,
}

impl Shop {
    /// Opens a shop: a key, `key.pem`, and a document, `publishers/acme.json`.
    pub fn new() -> Self {
        let shop = Self { world: World::new() };
        fs::create_dir(shop.path("publishers")).unwrap();
        shop.keygen("key.pem", "acme", "publishers/acme.json");
        shop
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.world.path(name)
    }

    /// Makes a key and its document.
    pub fn keygen(&self, file: &str, publisher: &str, document: &str) -> Value {
        let words =
            ["keygen", file, "--publisher-id", publisher, "--publisher-key-id", "k1", "--document"];
        let made = self.run(&[&words[..], &[document]].concat());
        assert_eq!(made.code(), 0, "{}", made.stderr());
        made.json()
    }

    /// Runs a verb of `contract` in the directory of the shop, at a fixed time.
    pub fn run(&self, words: &[&str]) -> Run {
        self.run_at("1800000000", words)
    }

    /// The same, at another time, in seconds since 1970.
    pub fn run_at(&self, epoch: &str, words: &[&str]) -> Run {
        let words: Vec<&str> = [&["contract"], words].concat();
        let directory = self.path("");
        self.world.run_with(&words, |command| {
            command.current_dir(&directory).env("SOURCE_DATE_EPOCH", epoch)
        })
    }

    /// Runs a verb that must say yes, and returns what it prints.
    pub fn yes(&self, words: &[&str]) -> String {
        let run = self.run(words);
        assert_eq!(run.code(), 0, "{words:?}: {}{}", run.stdout(), run.stderr());
        run.stdout()
    }

    /// Verifies a manifest in the form for programs, and returns what it says with the exit code.
    pub fn verify(&self, manifest: &str, words: &[&str]) -> (i32, Value) {
        let run = self.run(&[&["manifest", "verify", manifest], words].concat());
        (run.code(), run.json())
    }

    /// Runs a verb that must say no, and returns everything that it says.
    pub fn no(&self, words: &[&str]) -> String {
        let run = self.run(words);
        assert_eq!(run.code(), 1, "{words:?}: {}{}", run.stdout(), run.stderr());
        run.stdout() + &run.stderr()
    }

    /// Builds a manifest of files, and returns it.
    pub fn build(&self, out: &str, words: &[&str]) -> Value {
        let fixed = ["manifest", "build", "--key", "key.pem", "--publisher-id", "acme"];
        let more = ["--publisher-key-id", "k1", "--out", out];
        self.yes(&[&fixed[..], &more[..], words].concat());
        self.read(out)
    }

    pub fn read(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path(name)).unwrap()).unwrap()
    }

    pub fn write(&self, name: &str, value: &Value) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), value.to_string()).unwrap();
    }

    /// Writes a contract, and returns it.
    pub fn contract(&self, name: &str, id: &str, version: &str, more: &Value) -> Value {
        let contract = contract(id, version, more);
        self.write(name, &contract);
        contract
    }

    pub fn key(&self) -> String {
        self.read("publishers/acme.json")["public_key_base64"].as_str().unwrap().to_owned()
    }
}

/// Returns a contract with its hashes.
pub fn contract(id: &str, version: &str, more: &Value) -> Value {
    let mut contract = json!({
        "adapter_contract_version": "1.0.0",
        "adapter_id": id,
        "adapter_version": version,
        "input_schema_version": "1.0.0",
        "output_fields": ["tests_passed", "reviewed"],
        "allowed_policy_fields": ["tests_passed"],
        "validator_name": "starter_boolean_validator",
        "validator_version": "1.0.0",
    });
    for (key, value) in more.as_object().unwrap() {
        contract[key] = value.clone();
    }
    let object = object(&contract);
    contract["input_schema_hash"] = input_schema_hash(&object).unwrap().into();
    contract["contract_hash"] = contract_hash(&object).unwrap().into();
    contract
}

pub fn object(value: &Value) -> Object {
    json::parse(value.to_string().as_bytes(), Limits::default()).unwrap().into_object().unwrap()
}

pub fn member<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).unwrap().as_str().unwrap()
}

/// Reads a key that has these 32 bytes.
pub fn key_of_seed(world: &World, seed: &str) -> SigningKey {
    let seed = (0..64).step_by(2).map(|at| u8::from_str_radix(&seed[at..at + 2], 16).unwrap());
    let head = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    let bytes: Vec<u8> = head.into_iter().chain(seed).collect();
    let path = world.path("seed.pem");
    write_key(&path, &bytes);
    SigningKey::read(&path).unwrap()
}

fn write_key(path: &Path, bytes: &[u8]) {
    let text = STANDARD.encode(bytes);
    let text = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}
