//! What a server offers: listed whole, again when it changes, and followed where it can be.

use nexus_router_sdk::{Adapter as _, code};
use serde_json::{Value, json};

use crate::stage::{ERAS, Stage, until};

#[test]
fn the_catalogue_has_everything_as_the_server_lists_it() {
    for era in ERAS {
        let stage = Stage::program(era);
        let catalog = stage.catalog();
        let names: Vec<_> = catalog.tools.iter().map(|tool| tool.name().to_owned()).collect();
        assert!(names.len() == 15 && names[0] == "echo" && names[14] == "sulk", "{names:?}");
        let echo = &catalog.tools[0];
        assert_eq!((echo.tool.as_str(), echo.method.as_str()), ("echo", "call"));
        assert!(echo.content && echo.interactive == (era == "modern"));
        assert_eq!(echo.definition["x-own"], json!({ "a": 1 }));
        assert_eq!(echo.definition["icons"], json!([{ "src": "i" }]));
        assert_eq!(catalog.resources[0]["x-own"], 1);
        assert_eq!(catalog.resource_templates[0]["uriTemplate"], "test://{name}");
        assert_eq!(catalog.prompts[0]["name"], "greet");
        assert!(catalog.completes && catalog.subscribes);
    }
}

#[test]
fn a_list_that_changes_is_told_and_read_again() {
    for era in ERAS {
        let stage = Stage::program(era);
        let before = stage.catalog();
        // In the new era changes are told to who listens, and that takes a moment to begin.
        until("a change that is told", || {
            stage.call("grow", json!({})).unwrap();
            (!stage.notices("catalog_changed").is_empty()).then_some(())
        });
        let after = stage.catalog();
        assert_eq!(after.tools.len(), before.tools.len() + 1);
        assert!(stage.call("grown", json!({})).is_ok());
    }
}

#[test]
fn a_server_that_comes_back_with_another_list_is_noticed() {
    for era in ERAS {
        let stage = Stage::program(era);
        stage.catalog();
        until("a change that is told", || {
            stage.call("grow", json!({})).unwrap();
            (!stage.notices("catalog_changed").is_empty()).then_some(())
        });
        assert_eq!(stage.catalog().tools.len(), 16);
        let told = stage.notices("catalog_changed").len();
        assert_eq!(stage.call("crash", json!({})).unwrap_err().code, code::CONNECTION_FAILED);
        // It has forgotten that it had grown.
        assert_eq!(stage.call("grown", json!({})).unwrap_err().code, code::NOT_FOUND);
        until("a change that is told", || {
            (stage.notices("catalog_changed").len() > told).then_some(())
        });
        assert_eq!(stage.catalog().tools.len(), 15);
    }
}

#[test]
fn resources_prompts_and_completions_have_their_operations() {
    for era in ERAS {
        let stage = Stage::program(era);
        let read = stage.operation("resources", "read", json!({ "uri": "test://a" })).unwrap();
        assert_eq!(
            Value::Object(read),
            json!({ "contents": [{ "uri": "test://a", "text": "A" }] })
        );
        let error = stage.operation("resources", "read", json!({ "uri": "test://b" })).unwrap_err();
        assert_eq!(error.code, code::NOT_FOUND);
        let args = json!({ "name": "greet", "arguments": { "who": "Ada" } });
        let prompt = Value::Object(stage.operation("prompts", "get", args).unwrap());
        assert_eq!(prompt["messages"][0]["content"]["text"], json!({ "who": "Ada" }));
        let error = stage.operation("prompts", "get", json!({ "name": "x" })).unwrap_err();
        assert_eq!(error.code, code::NOT_FOUND);
        let args = json!({
            "ref": { "type": "ref/prompt", "name": "greet" }, "argument": { "name": "who", "value": "a" },
        });
        let completion = Value::Object(stage.operation("completion", "complete", args).unwrap());
        assert_eq!(completion, json!({ "values": ["ada"], "total": 1, "hasMore": false }));
    }
}

#[test]
fn a_followed_resource_tells_of_its_changes_also_after_the_server_was_lost() {
    for era in ERAS {
        let stage = Stage::program(era);
        let updates = || stage.notices("resource_updated").len();
        stage.operation("resources", "subscribe", json!({ "uri": "test://a" })).unwrap();
        until("an update", || (updates() > 0).then_some(()));
        assert_eq!(stage.notices("resource_updated")[0]["uri"], "test://a");
        let before = updates();
        assert_eq!(stage.call("crash", json!({})).unwrap_err().code, code::CONNECTION_FAILED);
        // The server tells of one whenever it is asked to follow; nobody calls it here.
        until("another update", || (updates() > before).then_some(()));
        stage.operation("resources", "unsubscribe", json!({ "uri": "test://a" })).unwrap();
    }
}

#[test]
fn a_catalogue_that_cannot_be_had_is_told_of_when_it_can() {
    let directory = std::env::temp_dir().join(format!("mcp-client-{}", std::process::id()));
    let program = directory.join("server");
    let mut config = crate::stage::program("legacy");
    let words: Vec<String> = serde_json::from_value(config["command"].take()).unwrap();
    config["command"] = json!([program]);
    let stage = Stage::new(config);
    let error = stage.adapter.catalog(&stage.recorder.context()).unwrap_err();
    assert_eq!(error.code, code::CONNECTION_FAILED);
    std::fs::create_dir_all(&directory).unwrap();
    let script =
        format!("#!/bin/sh\nexec '{}' --exact serve --nocapture --test-threads=1\n", words[0]);
    let unfinished = directory.join("unfinished");
    std::fs::write(&unfinished, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&unfinished, mode).unwrap();
    std::fs::rename(&unfinished, &program).unwrap();
    stage.told("the catalogue", |notice| notice["type"] == "catalog_changed");
    assert_eq!(stage.catalog().tools.len(), 15);
    std::fs::remove_dir_all(&directory).unwrap();
}
