//! Any bytes as a signal contract, as fields, as an acceptance policy or as what is published: each is read or refused
//! with findings, hashes do not depend on the order of members, and nothing is accepted that was not validated.
#![no_main]

use std::sync::Arc;

use nexus_router::clock::Timestamp;
use nexus_router::json::{self, Object, Value};
use nexus_router::signal::{
    AcceptancePolicy, Action, Compatibility, Contract, Discovery, LIMITS, PublisherPages, Registry,
    Severity, Source, ValidationResult, Wording, builtins, bump, contract_hash, decide, evaluate,
    input_schema_hash, lint, manifest_page, read, rehash, rehash_text, shape,
};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // A byte that no text has stands between a contract, fields and a policy.
    let mut parts = bytes.splitn(3, |byte| *byte == 0xff);
    let (first, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let third = parts.next().unwrap_or_default();
    let now = Timestamp::from_millis(0);
    drop((manifest_page(first.to_vec()), PublisherPages::read(first.to_vec(), true)));
    let policies: Vec<AcceptancePolicy> = [first, second, third]
        .into_iter()
        .filter_map(|text| match AcceptancePolicy::read(text) {
            Ok(policy) => Some(policy),
            Err(findings) => {
                assert!(!findings.is_empty());
                None
            }
        })
        .collect();
    let fields = json::parse(second, LIMITS).unwrap_or(Value::Null);
    for policy in &policies {
        builtins().iter().for_each(|contract| drop(policy.findings_for(contract)));
    }
    if let Ok(declaration) = read(first) {
        author(first, &declaration);
    }
    let registry = match Contract::read(first, Source::Builtin) {
        Ok(contract) => {
            let (id, version) = (contract.adapter_id.clone(), contract.adapter_version.clone());
            let registry = Registry::of_contract(contract);
            evaluated(&registry, (&id, Some(&version)), &fields, &policies, now);
            let discovery = Discovery::new(Arc::new(registry.clone()), None, None);
            json::parse(&discovery.listing().body, json::Limits::BUNDLE).unwrap();
            let page = discovery.contract(&id, Some(&version)).unwrap();
            json::parse(&page.body, json::Limits::BUNDLE).unwrap();
            registry
        }
        Err(findings) => {
            assert!(!findings.is_empty());
            Registry::open(None)
        }
    };
    for contract in builtins() {
        evaluated(&registry, (&contract.adapter_id, None), &fields, &policies, now);
    }
});

/// Does what authors do with a contract.
fn author(text: &[u8], declaration: &Object) {
    let findings = lint(declaration);
    let is_sound = findings.iter().all(|it| it.severity == Severity::Warning);
    assert!(!is_sound || shape(declaration, Wording::Verifier).is_empty());
    let hashes = |it: &Object| (contract_hash(it), input_schema_hash(it));
    let mut members: Vec<(String, Value)> = declaration.clone().into_iter().collect();
    members.reverse();
    assert_eq!(hashes(&members.into_iter().collect()), hashes(declaration));
    let mut hashed = declaration.clone();
    if rehash(&mut hashed).is_ok() {
        let told = lint(&hashed).into_iter().map(|it| it.message);
        assert!(!told.into_iter().any(|message| message.contains(" mismatch: declared ")));
    } else {
        assert_eq!(hashed, *declaration);
    }
    if let Ok(text) = std::str::from_utf8(text)
        && let Ok(Some((text, wanted))) = rehash_text(text, declaration)
    {
        assert_eq!(read(text.as_bytes()).unwrap(), wanted);
    }
    drop(bump(&mut declaration.clone(), "99999.0.0", true));
    assert!(Compatibility::of(declaration, declaration).changes.is_empty());
    for contract in builtins() {
        drop(Compatibility::of(&contract.declaration, declaration));
    }
}

/// Holds fields to a contract, and lets policies decide.
fn evaluated(
    registry: &Registry,
    (id, version): (&str, Option<&str>),
    fields: &Value,
    policies: &[AcceptancePolicy],
    now: Timestamp,
) {
    let evaluation = evaluate(registry, id, version, fields, now);
    let passed = evaluation.validation_result == ValidationResult::Passed;
    let none = [ValidationResult::Rejected, ValidationResult::UnknownAdapter];
    if none.contains(&evaluation.validation_result) {
        assert!(evaluation.normalized_policy_inputs.is_empty());
    }
    assert_ne!(decide(None, &evaluation).action, Action::AutoAccept);
    for policy in policies {
        let decision = decide(Some(policy), &evaluation);
        assert!(passed || decision.action != Action::AutoAccept);
        drop((decision.to_explained_json(), evaluation.to_json(), evaluation.why()));
    }
}
