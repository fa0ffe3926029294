//! Holds up that names are one path segment each, whatever text they are.

use nexus_router_sdk::{code, testing};
use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use serde_json::json;

use crate::adapter;
use crate::canned::{Canned, reply};

const TRICKY: &str = r"[./\\?#%;&=@:+ a2eEfF\r\n\t\u{0}é\u{202e}]{0,8}";

fn is_segment(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_name_is_one_segment(
        tool in prop_oneof![TRICKY, ".{0,40}", Just("..".to_owned())],
        method in prop_oneof![TRICKY, ".{0,40}"],
    ) {
        let server = Canned::replying(reply("200 OK", "", "{}"));
        let adapter = adapter(&format!("{}/api/v1/", server.url()), json!({}));
        let answer = testing::call(&adapter, &tool, &method, json!({}));
        if is_segment(&tool) && is_segment(&method) {
            prop_assert!(answer.is_ok(), "{answer:?}");
            let path = server.last().path;
            let segments: Vec<_> = path.split('/').collect();
            prop_assert_eq!(&segments[..3], &["", "api", "v1"]);
            prop_assert_eq!(segments.len(), 5);
            for (segment, name) in segments[3..].iter().zip([&tool, &method]) {
                let decoded = percent_decode_str(segment).decode_utf8().unwrap();
                prop_assert_eq!(&decoded, name);
                prop_assert!(segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%".contains(&b)));
            }
        } else {
            prop_assert_eq!(answer.unwrap_err().code, code::INVALID_ARGUMENT);
            prop_assert!(server.seen().is_empty());
        }
    }
}
