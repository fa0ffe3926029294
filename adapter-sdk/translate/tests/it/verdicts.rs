//! Which target takes which document: as the recorded verdicts have it, and by which rule it does not.

use crate::support::{canonical, json, retargeted, translators};

#[test]
fn verdicts_are_those_of_a_strict_reading() {
    let verdicts = json("verdicts.json");
    let (mut taken, mut refused) = (0, 0);
    for (id, text) in canonical() {
        for (target, translator) in translators() {
            let verdict = &verdicts["verdicts"][&id][target.id];
            let codes: Vec<&str> =
                verdict["codes"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
            let rendered = translator.render(retargeted(&text, target.id).as_bytes());
            match (verdict["verdict"].as_str().unwrap(), rendered) {
                ("map", Ok(_)) => taken += 1,
                ("reject", Err(refusal)) => {
                    let code = refusal.rule.code.strip_prefix("X.nexus.").unwrap();
                    assert!(codes.contains(&code), "{id} for {}: {refusal}", target.id);
                    assert!(!refusal.pointer.is_empty(), "{id}");
                    refused += 1;
                }
                (verdict, rendered) => panic!("{id} for {}: {verdict}, {rendered:?}", target.id),
            }
        }
    }
    assert!(taken > 80 && refused > 30, "{taken} {refused}");
}

#[test]
fn document_for_another_target_is_refused() {
    for (target, translator) in translators() {
        for (id, text) in canonical() {
            let own = format!("\"target_provider_id\":\"{}\"", target.id);
            if !text.contains(&own) {
                let refusal = translator.render(text.as_bytes()).unwrap_err();
                assert_eq!(refusal.rule.code, "X.nexus.TARGET_MISMATCH", "{id}: {refusal}");
                assert_eq!(refusal.pointer, "/metadata/target_provider_id");
            }
        }
    }
}
