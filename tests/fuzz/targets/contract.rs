//! Any bytes as a contract, a lock or a tool spec: each is read or refused with findings, and what was read keeps its
//! digest when it is written and read again.
#![no_main]

use nexus_router::interface::{Interface, Lock, compare};
use nexus_router::json;
use nexus_router::mapping::{Fragment, Known, ToolDocument, gate_4, gate_6};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    match Interface::read(bytes) {
        Ok(interface) => {
            let text = json::to_pretty(&interface.document);
            let again = Interface::read(text.as_bytes()).unwrap();
            assert_eq!(again.digest, interface.digest);
            assert!(compare(&interface, &again).is_empty());
            for frozen in nexus_router::interface::frozen() {
                drop((compare(frozen, &interface), compare(&interface, frozen)));
            }
        }
        Err(findings) => assert!(!findings.is_empty()),
    }
    if let Ok(lock) = Lock::read(bytes) {
        let again = Lock::read(lock.to_text().as_bytes()).unwrap();
        assert_eq!(again.revisions.len(), lock.revisions.len());
    }
    drop(Fragment::read(bytes));
    if let Ok(document) = ToolDocument::read(bytes) {
        let interfaces = nexus_router::interface::frozen().iter();
        let interfaces = interfaces.map(|one| (one.adapter_id.clone(), one.clone())).collect();
        let known = Known::new(&interfaces, &["nexus-router.adapters"]);
        drop((gate_4(&document, &known), gate_6(&document, &known)));
    }
});
