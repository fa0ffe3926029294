//! What contracts cost: a call that is held to one beside the same call that is not, and how long it takes to look
//! at a thousand contracts and a thousand tools again.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints, and fails loudly"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_router::interface::{
    ContractTrust, History, Interface, Lock, Revision, Shelf, frozen, frozen_interface, verify,
};
use nexus_router::json::{self, Object, Value};
use nexus_router::mapping::{Known, ToolDocument, gate_4, gate_6};
use nexus_router::policy::{Act, Keeping, Law};
use nexus_router::register::Register;

fn main() {
    // `cargo bench -- --smoke` only shows that everything runs.
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let (rounds, many) = if smoke { (200, 20) } else { (200_000, 1_000) };
    call(rounds);
    let directory = tempfile::tempdir().unwrap();
    contracts(directory.path(), many);
    tools(directory.path(), many);
}

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes(), json::Limits::REQUEST).unwrap()
}

/// What the schemas add to a small call: its arguments and its output are looked at.
fn call(rounds: u32) {
    let interface = frozen_interface("qdrant-vector").unwrap();
    let act = Act { adapter_id: "qdrant-vector", tool: "qdrant-vector", method: "search" };
    let bare = Law::default();
    let mut held = Law::default();
    held.interfaces.insert("qdrant-vector".to_owned(), Arc::new(Keeping::of(interface).unwrap()));
    let args = parse(r#"{"collection":"notes","vector":[0.1,0.2,0.3,0.4],"limit":5}"#);
    let output = parse(
        r#"{"results":[{"id":1,"score":0.9},{"id":2,"score":0.8}],"status":"ok","time":0.002}"#,
    );
    let [args, output] = [args, output].map(|value| value.into_object().unwrap());
    let look = |law: &Law, args: &Object, output: &Object| {
        law.judge(None, act).unwrap();
        law.check_args(act, args).unwrap();
        law.check_output(act, output).unwrap();
    };
    let time = |law: &Law| {
        let begun = Instant::now();
        for _ in 0..rounds {
            look(black_box(law), black_box(&args), black_box(&output));
        }
        begun.elapsed() / rounds
    };
    // In turns, so that a busy machine slows both.
    let mut times: Vec<(Duration, Duration)> = (0..5).map(|_| (time(&bare), time(&held))).collect();
    times.sort();
    let (without, with) = times[2];
    println!(
        "call: without a contract {without:?}, held to one {with:?}: {:.2} us more (goal: 5), {:.0} times as much",
        (with - without).as_secs_f64() * 1e6,
        with.as_secs_f64() / without.as_secs_f64().max(1e-9)
    );
}

/// Verifying many contracts, beside only reading their bytes.
fn contracts(directory: &Path, many: usize) {
    let place = directory.join("interfaces");
    let mut lock = Lock::default();
    std::fs::create_dir_all(&place).unwrap();
    for n in 0..many {
        let mut document = frozen()[n % frozen().len()].document.clone().into_object().unwrap();
        document.insert("adapter_id", format!("adapter-{n}"));
        let contract = Interface::from_document(document.into()).unwrap();
        let text = json::to_pretty(&contract.document);
        std::fs::write(place.join(format!("adapter-{n}.interface.json")), text).unwrap();
        lock.revisions.push(Revision {
            adapter_id: contract.adapter_id.clone(),
            version: contract.version.clone(),
            previous: None,
            contract: Some(contract),
            approvals: Vec::new(),
            tested: None,
        });
    }
    std::fs::write(place.join("interfaces.lock"), lock.to_text()).unwrap();
    let begun = Instant::now();
    let mut bytes = 0;
    for entry in std::fs::read_dir(&place).unwrap() {
        bytes += std::fs::read(entry.unwrap().path()).unwrap().len();
    }
    let reading = begun.elapsed();
    let begun = Instant::now();
    let shelf = Shelf::open(&place).unwrap();
    let verified = verify(&shelf, &ContractTrust::default());
    let took = begun.elapsed();
    assert_eq!(verified.findings.len(), 0, "{:?}", verified.findings.first());
    println!(
        "verify: {many} contracts of {bytes} bytes in {took:?} (goal: 500 ms for 1000), {:.0} times as long as \
         reading them",
        took.as_secs_f64() / reading.as_secs_f64()
    );
}

/// Holding many registered tools to the gates again, beside only reading their files.
fn tools(directory: &Path, many: usize) {
    let place = directory.join("tools");
    drop(Register::seize(&place).unwrap());
    let mut register = Register::open(&place).unwrap();
    let interfaces: BTreeMap<String, Interface> =
        frozen().iter().map(|one| (one.adapter_id.clone(), one.clone())).collect();
    let known = Known::new(&interfaces, &[]);
    let history: History =
        interfaces.iter().map(|(id, one)| (id.clone(), vec![one.digest])).collect();
    let operations: Vec<(&str, &str)> = frozen()
        .iter()
        .flat_map(|one| one.operations.keys().map(|name| (one.adapter_id.as_str(), name.as_str())))
        .collect();
    let mut documents = Vec::new();
    for n in 0..many {
        let (adapter, operation) = operations[n % operations.len()];
        let text = format!(
            r#"{{"tool_id":"tool-{n}","version":"1.0.0","description":"Calls an operation.",
            "input_schema":{{"type":"object"}},"output_schema":{{"type":"object"}},"execution_mode":"remote",
            "credentials_required":[],"side_effects":[],"rollback_strategy":"none","timeout_seconds":5,
            "resource_class":"compute","adapter_id":"{adapter}","adapter_operation":"{operation}",
            "adapter_contract_version":"1.0.0",
            "execution_target":{{"mode":"remote","provider":"x","service":"y"}}}}"#
        );
        let document = ToolDocument::read(text.as_bytes()).unwrap();
        register.keep(&document, interfaces.get(adapter), "2026-01-01T00:00:00.000Z").unwrap();
        documents.push(document);
    }
    register.save().unwrap();
    let begun = Instant::now();
    for document in &documents {
        assert!(gate_4(document, &known).passed() && gate_6(document, &known).passed());
    }
    let gates = begun.elapsed();
    let begun = Instant::now();
    let standings = Register::open(&place).unwrap().judge(&known, &history);
    let took = begun.elapsed();
    assert!(standings.iter().all(|standing| standing.disabled.is_none()));
    println!(
        "tools: {many} re-validated in {took:?} with their files (goal: 100 ms for 1000), {gates:?} at the gates alone, \
         {:.1} times as long",
        took.as_secs_f64() / gates.as_secs_f64().max(1e-9)
    );
}
