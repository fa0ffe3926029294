//! The exports and every decision, as they were recorded.

use nexus_router::role::{self, ActionClass, Request, Role, decide};

use super::frozen::frozen;
use super::process::frozen_text;
use crate::support::{World, workspace};

/// Compares a text with a recorded one; what differs is written beside the build, to be looked at.
fn compare(name: &str, text: &str) {
    let recorded = workspace().join("tests/golden/roles").join(role::VALIDATES).join(name);
    let stored = std::fs::read_to_string(&recorded).unwrap_or_default();
    if stored != text {
        let now = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&now, text).unwrap();
        panic!(
            "{} is not what there is now: {}; a frozen thing changes only with a revision of the contract",
            recorded.display(),
            now.display()
        );
    }
}

#[test]
fn exports_are_the_recorded_ones() {
    let world = World::new();
    for (format, name) in [
        ("json", "roles.json"),
        ("cedar", "policy.cedar"),
        ("cedar-schema", "policy.cedarschema"),
        ("rego", "policy.rego"),
    ] {
        let run = world.run(&["role", "export", "--format", format]);
        assert_eq!(run.code(), 0, "{}", run.stderr());
        compare(name, &run.stdout());
    }
}

#[test]
fn what_is_frozen_is_what_was_recorded() {
    compare("frozen.json", &frozen_text(&frozen()));
}

/// Decides as the specification says it, word for word, without any table of the program.
fn expected(role: &str, action: &str, [plan, policy, network]: [bool; 3]) -> bool {
    let scout =
        "web_search doc_retrieval data_lookup summarize_sources extract_entities transform_text";
    let envoy = "repo_ops test_exec build_exec file_write artifact_pack";
    let among = |list: &str| list.split(' ').any(|known| known == action);
    match role {
        "scout" => among(scout) && !network,
        "envoy" if action == "shell_exec" => plan && policy,
        "envoy" => among(envoy) && (!network || plan && policy),
        _ => false,
    }
}

#[test]
fn revision_1_0_0_decides_every_request_as_recorded() {
    let roles = Role::ALL.map(Role::name).into_iter().chain(["morpheus"]);
    let mut text =
        String::from("# role action plan_authorized policy_gate network_requested: decision\n");
    let mut count = 0;
    for role in roles {
        let actions = ActionClass::ALL.map(ActionClass::name).into_iter();
        for action in actions.chain(["scout_actions", "Web_Search"]) {
            for bits in 0..8 {
                let flags = [bits & 4 != 0, bits & 2 != 0, bits & 1 != 0];
                let [plan_authorized, policy_gate, network_requested] = flags;
                let decision = decide(Request {
                    role,
                    action,
                    plan_authorized,
                    policy_gate,
                    network_requested,
                });
                assert_eq!(
                    decision.allow,
                    expected(role, action, flags),
                    "{role} {action} {flags:?}"
                );
                let [plan, policy, network] = flags.map(u8::from);
                let reason = decision.reason.code();
                text.push_str(&format!("{role} {action} {plan} {policy} {network}: {reason}\n"));
                count += 1;
            }
        }
    }
    assert_eq!(count, 336);
    compare("decisions.txt", &text);
}
