//! Where it all happens: a directory with a configuration of many adapters and tools.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::dice::Dice;

pub const ADAPTERS: u64 = 100;
pub const TOOLS: u64 = 1000;
/// Threads that adapters have of their own, from their first call on: one of each that needs none per call.
pub const THREADS: usize = 25;

/// The program under siege: the release build, if the environment names one.
pub fn program() -> PathBuf {
    let named = std::env::var_os("NEXUS_ROUTER_BIN_RELEASE");
    named.map_or_else(|| env!("CARGO_BIN_EXE_nexus-router").into(), PathBuf::from)
}

/// Writes `router.toml`.
pub fn write(directory: &Path) {
    let mut text = String::from(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n\
         [server]\nrequests_per_second = 0\nheader_timeout_ms = 60000\n\
         [log]\nlevel = \"warn\"\n",
    );
    for index in 0..ADAPTERS {
        text.push_str(&format!("[[adapters]]\nid = \"a{index}\"\n{}", kind(index)));
    }
    for index in 0..TOOLS {
        let (adapter, method) = (index % ADAPTERS, ["quick", "slow"][usize::from(index % 7 == 0)]);
        text.push_str(&format!(
            "[[tools]]\nname = \"tool-{index}\"\ndescription = \"Tool {index}.\"\n\
             adapter = \"a{adapter}\"\ntool = \"t\"\nmethod = \"{method}\"\n"
        ));
    }
    std::fs::write(directory.join("router.toml"), text).unwrap();
}

/// Adapters of four kinds: one that answers, one that takes its time, one with effects, one without threads.
fn kind(index: u64) -> String {
    let slow = "{ tool = \"t\", method = \"slow\", behaviour = { sleep_ms = 20 } }";
    let bad = "{ tool = \"t\", method = \"bad\", behaviour = { operational_error = \
               { error_code = \"TOOL_ERROR\", message = \"as was asked for\" } } }";
    let fake = format!("ref = \"probe_adapters:fake\"\nconfig.responses = [{slow}, {bad}]\n");
    match index % 4 {
        0 => "ref = \"nexus_router_adapter_echo:create_adapter\"\n".to_owned(),
        1 => fake,
        2 => format!("{fake}config.capabilities = [\"apply\", \"external\"]\n"),
        _ => "ref = \"probe_adapters:many_calls\"\n".to_owned(),
    }
}

/// A request for a run of any kind.
pub fn request(goal: &str, dice: &mut Dice) -> Value {
    let adapter = dice.below(ADAPTERS);
    let steps = dice.below(3) + 1;
    let plan: Vec<Value> = (0..steps).map(|index| step(index, dice)).collect();
    let mut request = json!({
        "goal": goal, "mode": "apply", "policy": { "allow_apply": true },
        "dispatch": { "adapter_id": format!("a{adapter}") }, "plan_override": plan,
    });
    if dice.below(4) == 0 {
        request["policy"]["on_error"] = json!("continue");
    }
    // Only half of the adapters can do it; a run of the others ends before its first call.
    if dice.below(5) == 0 {
        request["mode"] = json!("dry_run");
    }
    request
}

fn step(index: u64, dice: &mut Dice) -> Value {
    let method = match dice.below(16) {
        0 => "bad",
        1..=4 => "slow",
        _ => "quick",
    };
    let args = json!({ "number": dice.next(), "delay_ms": dice.below(20) });
    let mut step = json!({ "step_id": format!("s{index}"), "intent": "do",
        "call": { "tool": "t", "method": method, "args": args } });
    if dice.below(8) == 0 {
        step["dispatch"] = json!({ "adapter_id": format!("a{}", dice.below(ADAPTERS)) });
    }
    step
}
