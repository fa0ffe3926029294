//! Plays what was recorded of the AiGentsy tools to `nexus-router contract`, and compares.
//!
//! What differs on purpose is an exception, listed by the name of its case with the reason. **An exception that no longer
//! differs fails**, so that the list cannot grow stale.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use base64::Engine as _;
use serde_json::Value;

use crate::support::{Run, World, workspace};

/// A case that differs on purpose: its name, and why.
pub type Exception = (&'static str, &'static str);

/// Texts that tell people what to do next. They name the commands of their own program, so each program has its own.
const PROSE: [&str; 6] = ["next", "next_steps", "note", "_note", "_comment", "_layer_boundary"];

/// What is said of a program that panicked.
const PANICKED: &str = "it panicked";

/// Reads golden data of the AiGentsy tools.
pub fn golden(name: &str) -> Value {
    let path = workspace().join("tests/golden/aigentsy").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&text).unwrap()
}

/// Plays every case of a file whose name `wanted` takes, and compares exit code, JSON and files.
pub fn play(name: &str, wanted: impl Fn(&str) -> bool, exceptions: &[Exception]) {
    let recorded = golden(name);
    let cases: Vec<&Value> = recorded["cases"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|case| wanted(case["id"].as_str().unwrap()))
        .collect();
    assert!(!cases.is_empty(), "{name} has no such case");
    let mut wrong = Vec::new();
    let mut known: BTreeMap<&str, &str> = exceptions.iter().copied().collect();
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        match (case_differs(case), known.remove(id)) {
            // Nothing excuses a panic.
            (Some(difference), known) if known.is_none() || difference.contains(PANICKED) => {
                wrong.push(format!("{id}: {difference}"));
            }
            (None, Some(reason)) => {
                wrong.push(format!("{id} is an exception ({reason}), and does not differ"));
            }
            _ => {}
        }
    }
    wrong.extend(known.keys().map(|id| format!("{id} is an exception, and no case of {name}")));
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Says how a case differs from what was recorded.
pub fn case_differs(case: &Value) -> Option<String> {
    let world = World::new();
    let directory = world.path("case");
    fs::create_dir(&directory).unwrap();
    for (file, content) in case["files"].as_object().into_iter().flatten() {
        let path = directory.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes(content)).unwrap();
    }
    for (number, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        let before = files(&directory);
        let arguments = arguments(step);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let run = world.run_with(&arguments, |command| {
            if let Some(clock) = step["clock"].as_str() {
                command.env("SOURCE_DATE_EPOCH", epoch(clock).to_string());
            }
            command.current_dir(&directory)
        });
        let difference = step_differs(step, &run, &directory, &before);
        if let Some(difference) = difference {
            return Some(format!("step {number} {arguments:?}: {difference}"));
        }
    }
    None
}

/// Returns our arguments for those of a step.
fn arguments(step: &Value) -> Vec<String> {
    let mut words: Vec<String> =
        step["argv"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect();
    let mut ours = vec!["contract".to_owned()];
    if step["tool"] == "aigentsy-verify" {
        if words.first().is_some_and(|first| first == "bundle") {
            words.remove(0);
        }
        ours.extend(["bundle".to_owned(), "verify".to_owned()]);
    } else {
        assert_eq!(words.remove(0), "adapter");
    }
    ours.extend(words);
    ours
}

fn step_differs(
    step: &Value,
    run: &Run,
    directory: &Path,
    before: &BTreeMap<String, Vec<u8>>,
) -> Option<String> {
    let (stdout, stderr) = (run.stdout(), run.stderr());
    if run.code() == 101 || stderr.contains("panicked") {
        return Some(format!("{PANICKED}: {stderr}"));
    }
    if step.get("crash").is_some() {
        return (run.code() == 0).then(|| format!("exit 0 where the peer crashed: {stdout}"));
    }
    if step["exit"] != run.code() {
        return Some(format!("exit {} for {}: {stdout}{stderr}", run.code(), step["exit"]));
    }
    let here = fs::canonicalize(directory).unwrap();
    if let Some(expected) = step.get("stdout_json") {
        let Ok(got) =
            serde_json::from_str::<Value>(&stdout.replace(here.to_str().unwrap(), "{CWD}"))
        else {
            return Some(format!("no JSON: {stdout}{stderr}"));
        };
        if let Some(pointer) = value_differs(expected, &got, "") {
            let (expected, got) = (expected.pointer(&pointer), got.pointer(&pointer));
            return Some(format!("{pointer}: {got:?} for {expected:?}"));
        }
    }
    let after = files(directory);
    let mut expected = before.clone();
    for (file, content) in step["files_written"].as_object().into_iter().flatten() {
        if !file.ends_with('/') {
            expected.insert(file.clone(), bytes(content));
        }
    }
    let names: BTreeSet<&String> = expected.keys().chain(after.keys()).collect();
    names.into_iter().find_map(|file| {
        let (wanted, got) = (expected.get(file), after.get(file));
        let same = match (wanted, got) {
            (Some(wanted), Some(got)) => wanted == got || same_but_for_prose(wanted, got),
            _ => false,
        };
        let shown = |it: Option<&Vec<u8>>| it.map(|it| String::from_utf8_lossy(it).into_owned());
        (!same).then(|| format!("{file}: {:?} for {:?}", shown(got), shown(wanted)))
    })
}

/// Says whether two files are the same text but for prose, which stands on lines of its own.
fn same_but_for_prose(one: &[u8], two: &[u8]) -> bool {
    let rest = |bytes: &[u8]| -> Vec<String> {
        let is_prose = |line: &str| {
            PROSE.iter().any(|key| line.trim_start().starts_with(&format!("\"{key}\": \"")))
        };
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.split('\n').filter(|line| !is_prose(line)).map(str::to_owned).collect()
    };
    rest(one) == rest(two)
}

/// Returns where two values differ, but for prose and for the words in which Python tells what is no JSON.
fn value_differs(expected: &Value, got: &Value, pointer: &str) -> Option<String> {
    match (expected, got) {
        (Value::Object(one), Value::Object(two)) => {
            let order =
                |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
            if order(one) != order(two) {
                return Some(pointer.to_owned());
            }
            one.iter().find_map(|(key, expected)| {
                let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                if PROSE.contains(&key.as_str()) {
                    return (expected.is_string() != two[key].is_string()).then_some(pointer);
                }
                value_differs(expected, &two[key], &pointer)
            })
        }
        (Value::Array(one), Value::Array(two)) if one.len() == two.len() => {
            one.iter().zip(two).enumerate().find_map(|(index, (expected, got))| {
                value_differs(expected, got, &format!("{pointer}/{index}"))
            })
        }
        (Value::String(one), Value::String(two)) => {
            let foreign = ["json_parse_failed:", "JSONDecodeError:", "FileNotFoundError:"];
            let alike = foreign
                .iter()
                .any(|it| one.contains(it) && one.split(it).next() == two.split(it).next());
            (one != two && !alike).then(|| pointer.to_owned())
        }
        _ => (expected != got).then(|| pointer.to_owned()),
    }
}

fn bytes(content: &Value) -> Vec<u8> {
    match content.as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => base64::engine::general_purpose::STANDARD
            .decode(content["b64"].as_str().unwrap())
            .unwrap(),
    }
}

/// Reads every file below a directory.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

/// Returns the seconds of a time like `2026-11-15T23:48:16Z`.
fn epoch(clock: &str) -> i64 {
    nexus_router::clock::Timestamp::parse(clock).unwrap().as_millis() / 1000
}
