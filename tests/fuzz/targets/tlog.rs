//! Any text as a checkpoint, a verifier key or a proof: each is read or refused, what is read is written the same again, and
//! nothing is shown of an entry that the log has not.
#![no_main]

use std::sync::LazyLock;

use nexus_router::tlog::{Checkpoint, Proof, Verifier};

static KNOWN: LazyLock<Vec<Verifier>> = LazyLock::new(|| {
    let text = include_str!("../../golden/tlog/vkey");
    vec![text.trim_end().parse().unwrap()]
});
const CHECKPOINT: &str = include_str!("../../golden/tlog/checkpoint");

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Checkpoint::open(text, &KNOWN) {
        // Only the key's owner signs: what is accepted says what the owner said.
        Ok(checkpoint) => {
            assert_eq!(checkpoint.text(), text);
            let said = |note: &str| note.rsplit_once("\n\n").unwrap().0.to_owned();
            assert_eq!(said(text), said(CHECKPOINT));
        }
        Err(error) => drop((error.to_string(), error.hint())),
    }
    match text.parse::<Verifier>() {
        Ok(verifier) => {
            assert_eq!(verifier.to_string(), text);
            drop(Checkpoint::open(CHECKPOINT, &[verifier]));
        }
        Err(error) => drop((error.to_string(), error.hint())),
    }
    match text.parse::<Proof>() {
        Ok(proof) => {
            assert_eq!(proof.to_string(), text);
            assert!(proof.verify(b"no entry", &KNOWN).is_err());
            if proof.verify(format!("entry {}", proof.index).as_bytes(), &KNOWN).is_ok() {
                assert!(proof.index < 600);
            }
        }
        Err(error) => drop((error.to_string(), error.hint())),
    }
});
