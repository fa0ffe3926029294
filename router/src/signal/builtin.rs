//! The contracts that are part of this program: the starter of the specification, and five examples.
//!
//! Examples show the form; nobody vouches for adapters that keep them.

use std::sync::{Arc, LazyLock};

use super::contract::{Contract, Source};

/// The texts of the contracts.
const TEXTS: [&str; 6] = [
    include_str!("builtin/starter.adapter_contract.json"),
    include_str!("builtin/ci_gate.adapter_contract.json"),
    include_str!("builtin/code_review.adapter_contract.json"),
    include_str!("builtin/data_quality.adapter_contract.json"),
    include_str!("builtin/deployment.adapter_contract.json"),
    include_str!("builtin/retrieval.adapter_contract.json"),
];

static READ: LazyLock<Vec<Arc<Contract>>> = LazyLock::new(|| {
    let read = |text: &&str| Contract::read(text.as_bytes(), Source::Builtin).ok().map(Arc::new);
    TEXTS.iter().filter_map(read).collect()
});

/// Returns the contracts that are part of this program.
#[must_use]
pub fn builtins() -> &'static [Arc<Contract>] {
    &READ
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::Validator;

    #[test]
    fn starter_is_that_of_the_specification() {
        let starter = &builtins()[0];
        assert_eq!(starter.pointer(), "aigentsy.settlement_native_mcp.starter@1.0.0");
        assert_eq!(
            (starter.contract_hash.as_str(), starter.input_schema_hash.as_str()),
            (
                "b25b162884759e534f2c0041ec7b14924ba75fbb818bce2ebea5ce9b88b6c8a5",
                "d506bb4bd09bed3b41a5c6c0145f1f869d2f74011aee795a0672a43325d42174"
            )
        );
    }

    #[test]
    fn every_builtin_is_sound_and_some_are_typed() {
        for text in TEXTS {
            assert_eq!(Contract::read(text.as_bytes(), Source::Builtin).err(), None, "{text}");
        }
        let typed = builtins().iter().filter(|it| matches!(it.validator, Ok(Validator::Typed(_))));
        assert_eq!((builtins().len(), typed.count()), (6, 3));
        let own = builtins().iter().skip(1);
        assert!(own.into_iter().all(|it| it.adapter_id.starts_with("nexus_router.examples.")));
    }
}
