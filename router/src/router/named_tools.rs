//! Steps that name an offered tool instead of an adapter: resolved before the run begins.
//!
//! The plan that is recorded has the operation itself, as a call over `/v1/tools` does. So a run that resumes
//! calls the same operation, also if the tool means another one by then.

use crate::dispatch::Redacted;
use crate::policy::Law;
use crate::request::{Request, direct_to};

/// Puts the adapter operation in the place of every tool name, if neither step nor request names an adapter.
pub(super) fn resolve(law: &Law, request: &mut Request, redacted: &mut Redacted) {
    let offers_tools = law.offered.as_ref().is_some_and(|offered| !offered.tools.is_empty());
    if !offers_tools || request.dispatch().adapter_id().is_some() {
        return;
    }
    for (index, step) in request.plan_mut().iter_mut().enumerate() {
        if step.dispatch().adapter_id().is_some() {
            continue;
        }
        let Some(tool) = law.offered_tool(step.tool(), step.method()) else { continue };
        let operation = (tool.adapter_id.as_str(), tool.tool.as_str(), tool.method.as_str());
        step.direct_to(operation, tool.timeout);
        if let Some(step) = redacted.plan.as_mut().and_then(|plan| plan.get_mut(index)) {
            direct_to(step, operation, tool.timeout);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::policy::{OfferedOperations, OfferedTool};

    fn law() -> Law {
        let tool = OfferedTool {
            adapter_id: "files".to_owned(),
            tool: "read_file".to_owned(),
            method: "run".to_owned(),
            timeout: Some(Duration::from_millis(70)),
        };
        let tools = BTreeMap::from([("files.read".to_owned(), tool)]);
        let offered = Some(Arc::new(OfferedOperations { tools, ..Default::default() }));
        Law { offered, ..Law::default() }
    }

    fn resolved(request: &str) -> (Option<String>, String, String, Option<Duration>) {
        let mut request = Request::parse(request.as_bytes()).unwrap();
        let plan = request.plan().iter().map(|step| step.raw().clone()).collect();
        let mut redacted = Redacted { plan: Some(plan), ..Redacted::default() };
        resolve(&law(), &mut request, &mut redacted);
        let step = &request.plan()[0];
        assert_eq!(redacted.plan.unwrap()[0], *step.raw(), "the record has the same step");
        let adapter_id = step.dispatch().adapter_id().map(str::to_owned);
        (adapter_id, step.tool().to_owned(), step.method().to_owned(), step.timeout())
    }

    #[test]
    fn offered_tool_names_become_operations() {
        let request = |tool: &str, method: &str, step: &str, whole: &str| {
            format!(
                r#"{{"goal":"g"{whole},"plan_override":[{{"step_id":"s","intent":"i"{step},
                    "call":{{"tool":"{tool}","method":"{method}","args":{{}}}}}}]}}"#
            )
        };
        let given = |adapter: Option<&str>, tool: &str, method: &str, millis: Option<u64>| {
            let timeout = millis.map(Duration::from_millis);
            (adapter.map(str::to_owned), tool.to_owned(), method.to_owned(), timeout)
        };
        let files = given(Some("files"), "read_file", "run", Some(70));
        assert_eq!(resolved(&request("files.read", "call", "", "")), files);
        assert_eq!(resolved(&request("files.read", "run", "", "")), files);
        let capable = r#","dispatch":{"require_capabilities":["apply"]}"#;
        assert_eq!(resolved(&request("files.read", "run", capable, capable)), files);
        let quick = given(Some("files"), "read_file", "run", Some(5));
        assert_eq!(resolved(&request("files.read", "run", r#","timeout_ms":5"#, "")), quick);
        let other = given(None, "files.read", "other", None);
        assert_eq!(resolved(&request("files.read", "other", "", "")), other);
        assert_eq!(resolved(&request("read", "call", "", "")), given(None, "read", "call", None));
        let named = r#","dispatch":{"adapter_id":"a"}"#;
        let kept = given(Some("a"), "files.read", "call", None);
        assert_eq!(resolved(&request("files.read", "call", named, "")), kept);
        let kept = given(None, "files.read", "call", None);
        assert_eq!(resolved(&request("files.read", "call", "", named)), kept);
    }
}
