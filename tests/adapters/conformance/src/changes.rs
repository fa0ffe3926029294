//! Things that change, and the tools that change them.

use std::sync::atomic::{AtomicU64, Ordering};

use nexus_router_sdk::{Object, Tool};
use serde_json::json;

use crate::content::said;
use crate::fixture::{Answer, Call, Fixture};
use crate::resources;

/// A definition that changes says in its `_meta` how often it did.
const REVISION: &str = "example.com/revision";

/// How often each thing changed.
#[derive(Default)]
pub(crate) struct Changes {
    tools: AtomicU64,
    prompts: AtomicU64,
    watched: AtomicU64,
}

impl Changes {
    /// Shows in the definition of the tool that changes tools how often it did.
    pub(crate) fn show_in_tools(&self, tools: &mut [Tool]) {
        for tool in tools.iter_mut().filter(|tool| tool.name() == CHANGE_TOOLS) {
            show(&mut tool.definition, &self.tools);
        }
    }

    /// Shows in the definition of a prompt how often prompts changed.
    pub(crate) fn show_in_prompt(&self, prompt: &mut Object) {
        show(prompt, &self.prompts);
    }

    /// Returns how often the resource changed that clients watch.
    pub(crate) fn of_watched(&self) -> u64 {
        self.watched.load(Ordering::Acquire)
    }
}

fn show(definition: &mut Object, count: &AtomicU64) {
    let count = count.load(Ordering::Acquire);
    definition.insert("_meta".to_owned(), json!({ REVISION: count }));
}

const CHANGE_TOOLS: &str = "test_trigger_tool_change";

pub(crate) fn fixtures() -> Vec<Fixture> {
    vec![
        Fixture::new(CHANGE_TOOLS, "Changes the definition of a tool", |call| {
            change(call, &call.changes.tools, |call| call.context.host().catalog_changed())
        }),
        Fixture::new("test_trigger_prompt_change", "Changes the definition of a prompt", |call| {
            change(call, &call.changes.prompts, |call| call.context.host().catalog_changed())
        }),
        Fixture::new("test_trigger_resource_update", "Changes a resource", |call| {
            change(call, &call.changes.watched, |call| {
                call.context.host().resource_updated(resources::WATCHED);
            })
        }),
    ]
}

/// Counts a change, and only then tells of it: whoever is told may ask at once.
fn change(call: &Call<'_>, count: &AtomicU64, tell: fn(&Call<'_>)) -> Answer {
    if call.context.dry_run() {
        return Ok(said("Nothing was changed"));
    }
    count.fetch_add(1, Ordering::AcqRel);
    tell(call);
    Ok(said("Changed"))
}

#[cfg(test)]
mod tests {
    use nexus_router_sdk::testing::Recorder;
    use nexus_router_sdk::{Adapter as _, CallContext};
    use serde_json::Value;

    use super::*;
    use crate::fixture::METHOD;
    use crate::tests::adapter;

    #[test]
    fn a_change_is_in_the_catalogue_and_is_told() {
        let (adapter, recorder) = (adapter(), Recorder::default());
        let catalog = || adapter.catalog(&recorder.context()).unwrap();
        let call = |context: CallContext, tool| {
            adapter.call(&context, tool, METHOD, Object::new()).unwrap()
        };
        let first = catalog();
        assert_eq!(first, catalog());

        call(recorder.dry_run_context(), CHANGE_TOOLS);
        assert_eq!((catalog(), recorder.notices().len()), (first.clone(), 0));

        call(recorder.context(), CHANGE_TOOLS);
        let second = catalog();
        assert!(second.tools != first.tools && second.prompts == first.prompts);

        call(recorder.context(), "test_trigger_prompt_change");
        let third = catalog();
        assert!(third.tools == second.tools && third.prompts != second.prompts);

        call(recorder.context(), "test_trigger_resource_update");
        assert_eq!(catalog(), third);
        let told: Vec<Value> = recorder.notices();
        assert_eq!(
            told,
            [
                json!({ "type": "catalog_changed" }),
                json!({ "type": "catalog_changed" }),
                json!({ "type": "resource_updated", "uri": resources::WATCHED }),
            ]
        );
    }
}
