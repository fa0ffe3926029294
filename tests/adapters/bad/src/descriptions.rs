//! Instances whose description breaks the protocol.

use nexus_router_sdk::Capability;

use crate::raw::{Raw, raw_adapter};
use crate::stub::stub;

stub!(describe_panics { describe: || panic!("nothing to say") });
stub!(describe_panics_with_a_bomb { describe: || std::panic::panic_any(crate::harm::Bomb) });
stub!(describe_segfaults { describe: crate::harm::segfault });
stub!(id_is_empty { adapter_id: String::new() });
stub!(id_has_control_characters { adapter_id: "bad\u{1b}[31m\n".to_owned() });
stub!(id_is_long { adapter_id: "x".repeat(10_000) });
stub!(capabilities_twice { capabilities: &[Capability::Apply, Capability::Apply] });

/// Exports a factory whose instance describes itself by a text.
macro_rules! described {
    ($name:ident, $description:expr) => {
        raw_adapter!($name, Ok(Raw { description: $description.to_owned(), ..Raw::default() }));
    };
}

described!(description_is_not_json, "bad");
described!(description_is_empty, "");
described!(description_is_an_array, r#"["bad"]"#);
described!(description_is_deep, "[".repeat(1_000_000));
described!(description_is_large, format!("\"{}\"", "x".repeat(100 * 1024 * 1024)));
described!(kind_is_missing, r#"{"adapter_id":"bad","capabilities":[]}"#);
described!(id_is_a_number, r#"{"adapter_id":7,"adapter_kind":"bad","capabilities":[]}"#);
described!(capabilities_missing, r#"{"adapter_id":"bad","adapter_kind":"bad"}"#);
described!(capabilities_null, r#"{"adapter_id":"bad","adapter_kind":"bad","capabilities":null}"#);
described!(
    capabilities_string,
    r#"{"adapter_id":"bad","adapter_kind":"bad","capabilities":"apply"}"#
);
described!(
    capabilities_mixed,
    r#"{"adapter_id":"bad","adapter_kind":"bad","capabilities":["apply",1,null]}"#
);
described!(
    capabilities_unknown,
    r#"{"adapter_id":"bad","adapter_kind":"bad","capabilities":["apply","fly"]}"#
);
