//! Any bytes as a canonical document: every translator takes or refuses them, and whoever takes them writes
//! canonical text, twice the same.
#![no_main]

use nexus_router::json::{self, Limits};
use nexus_router_sdk::translate::{Setting, Translator, is_canonical, target};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let judged = is_canonical(bytes);
    // Another reader and another writer agree on what is canonical.
    if judged.is_ok() {
        let value = json::parse(bytes, Limits::BUNDLE).expect("canonical text is JSON");
        assert_eq!(json::to_jcs(&value).expect("its integers are exact").as_bytes(), bytes);
    }
    for target in target::ALL {
        let text = |text: &str| Setting::Text(text.to_owned());
        let settings = target.binding.iter().filter(|field| field.required).map(|field| {
            let setting = match field.name {
                "api_version" => text(target.tables[0].api_version),
                "model" => text("m"),
                "max_tokens" => Setting::Number(1),
                _ => Setting::Flag(false),
            };
            (field.name, setting)
        });
        let translator = Translator::new(target, settings).expect("the binding is complete");
        let rendered = translator.render(bytes);
        assert_eq!(rendered, translator.render(bytes));
        match rendered {
            Ok(rendered) => is_canonical(rendered.payload.as_bytes()).expect("payloads are canonical"),
            Err(refusal) => assert!(refusal.pointer.is_empty() || refusal.pointer.starts_with('/')),
        }
    }
});
