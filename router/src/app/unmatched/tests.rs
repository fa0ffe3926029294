//! Tests of settings that match nothing in the file.

use super::*;
use crate::config::Environment;

fn config(text: &str) -> ConfigFile {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("router.toml");
    std::fs::write(&file, text).unwrap();
    ConfigFile::find(Some(&file), &Environment::default()).unwrap()
}

fn unmatched(text: &str) -> Vec<String> {
    let config = config(text);
    let tokens = BTreeSet::from(["ci".to_owned(), "local".to_owned()]);
    let found = KnownNames::of_file(&config, Some(tokens), true).unmatched();
    found.into_iter().map(|one| one.message).collect()
}

const SHOP: &str = "[[adapters]]\nref = 'm:f'\nid = 'shop'\noffer.tools = ['*']\n";

#[test]
fn names_rules_that_match_nothing_in_the_file() {
    let rule = |keys: &str| format!("{SHOP}[[policy.rules]]\neffect = 'approve'\n{keys}\n");
    for fits in [
        "",
        "adapter = 'SHOP'",
        "tool = 'any'",
        "token = 'c*'",
        "adapter = 'null'\ntool = 'x'",
        "annotation = 'destructive'",
    ] {
        assert_eq!(unmatched(&rule(fits)), Vec::<String>::new(), "{fits}");
    }
    for (keys, expected) in [
        ("adapter = 'nosuch'", "policy.rules[0].adapter matches no adapter: \"nosuch\""),
        ("token = 'CI'", "policy.rules[0].token matches no token: \"CI\""),
        (
            "action_class = 'file_write'",
            "policy.rules[0].action_class matches no operation: \"file_write\"",
        ),
    ] {
        assert_eq!(unmatched(&rule(keys)), [expected], "{keys}");
    }
    let classed = "[[tools]]\nname = 'w'\ndescription = 'd'\nadapter = 'shop'\nmethod = 'm'\n\
                   action_class = 'file_write'\n";
    let text = rule("action_class = 'file_write'") + classed;
    assert_eq!(unmatched(&text), Vec::<String>::new());
    let elsewhere = rule("adapter = 'null'\naction_class = 'file_write'") + classed;
    assert_eq!(unmatched(&elsewhere), ["policy.rules[0] fits no operation that is known"]);
}

#[test]
fn names_tools_and_adapters_that_nobody_can_use() {
    let tool = "[[tools]]\nname = 't'\ndescription = 'd'\nmethod = 'm'\nadapter = ";
    assert_eq!(
        unmatched(&format!("{SHOP}{tool}'nosuch'\n")),
        ["tools[0].adapter matches no adapter: \"nosuch\""]
    );
    let bare = SHOP.replace("offer.tools = ['*']\n", "");
    assert_eq!(unmatched(&bare), ["adapters[0]: adapter 'shop' is offered to nobody"]);
    assert_eq!(unmatched(&format!("{bare}{tool}'shop'\n")), Vec::<String>::new());
    let scout = "[[adapters]]\nref = 'm:f'\nid = 'scout'\nrole = 'scout'\noffer.tools = ['*']\n\
                 [[adapters.sources]]\nname = 's'\nadapter = 'shop'\ntool = 't'\nmethod = 'm'\n\
                 action_class = 'doc_retrieval'\n";
    assert_eq!(unmatched(&format!("{bare}{scout}")), Vec::<String>::new(), "it is a source");
}

#[test]
fn names_bindings_of_secrets_that_match_nothing() {
    let binding = |keys: &str| format!("{SHOP}[secrets.KEY]\nfrom = 'env:KEY'\n{keys}\n");
    for (keys, expected) in [
        ("adapters = ['nosuch']", "secrets.KEY.adapters[0] matches no adapter: \"nosuch\""),
        (
            "adapters = ['SHOP']\ntokens = ['local', 'nobody']",
            "secrets.KEY.tokens[1] matches no token: \"nobody\"",
        ),
    ] {
        assert_eq!(unmatched(&binding(keys)), [expected], "{keys}");
    }
    assert_eq!(unmatched(&binding("adapters = ['sh*']\ntools = ['any']")), Vec::<String>::new());
}

#[test]
fn refuses_bindings_to_adapters_that_cannot_exist() {
    let refused = |adapters: &str, binding: &str| {
        let text = format!("{adapters}[secrets.KEY]\nfrom = 'env:KEY'\nadapters = ['{binding}']\n");
        let config = config(&text);
        let found = KnownNames::of_file(&config, None, false).unmatched();
        found.iter().any(|one| one.is_refused)
    };
    assert!(refused(SHOP, "nobody"), "registered tools add no adapters");
    assert!(refused("", "nobody"));
    for binding in ["shop", "SHOP", "null", "no*", "nobod?"] {
        assert!(!refused(SHOP, binding), "{binding}");
    }
    assert!(!refused("[[adapters]]\nref = 'm:f'\n", "nobody"), "the id is known when it is loaded");
    assert!(!refused("discover = true\n", "nobody"));
    assert!(refused(&format!("discover = true\n{SHOP}"), "nobody"), "nothing is discovered");
}

#[test]
fn names_nothing_that_may_still_match() {
    let nameless = "[[adapters]]\nref = 'm:f'\n[[policy.rules]]\neffect = 'deny'\n\
                    adapter = 'nosuch'\naction_class = 'file_write'\n";
    assert_eq!(unmatched(nameless), Vec::<String>::new());
    let discovers = "discover = true\n[[policy.rules]]\neffect = 'deny'\nadapter = 'nosuch'\n";
    assert_eq!(unmatched(discovers), Vec::<String>::new());
}
