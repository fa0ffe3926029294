//! What people see when the daemon is up: where it is, what it has, and what to try.

use super::super::Error;
use super::super::output::{Output, columns};
use super::super::timeline::{self, Bars};
use crate::app::Timeline;
use crate::config::Environment;
use crate::python_text::visible;
use crate::request::Request;
use crate::service::{FIRST_TOKEN, Service};
use crate::store::{Filter, Log};

/// Tells where the daemon is and what it has. One that nobody configured and that has done nothing yet
/// shows a first run.
pub(super) async fn greet(
    environment: &Environment,
    service: &Service,
    urls: &[(String, bool)],
) -> Result<(), Error> {
    let first = first_run(service).await;
    let (environment, service, urls) = (environment.clone(), service.clone(), urls.to_vec());
    // Standard output may be slow.
    let told = tokio::task::spawn_blocking(move || tell(&environment, &service, &urls, first));
    match told.await {
        Ok(told) => told,
        Err(error) => Err(Error::Output(std::io::Error::other(error))),
    }
}

/// Dispatches a first run, if there is something to greet and nothing was done before.
async fn first_run(service: &Service) -> Option<Log> {
    let store = service.store().clone();
    let nobody_configured = service.config_file().is_none();
    let greeter = service.router().registry().get("echo").is_ok();
    let filter = Filter { limit: 1, ..Filter::default() };
    let empty = {
        let store = store.clone();
        let listed = tokio::task::spawn_blocking(move || store.list(&filter)).await;
        listed.is_ok_and(|listed| listed.is_ok_and(|listed| listed.runs.is_empty()))
    };
    if !(nobody_configured && greeter && empty) {
        return None;
    }
    let request = Request::parse(FIRST.as_bytes()).ok()?;
    let outcome = service.router().run(request).await.ok()?;
    tokio::task::spawn_blocking(move || store.log(&outcome.run_id)).await.ok()?.ok()?
}

const FIRST: &str = r#"{
    "goal": "say hello", "mode": "apply", "policy": {"allow_apply": true},
    "dispatch": {"adapter_id": "echo"},
    "plan_override": [{"step_id": "hello", "intent": "greet whoever started the daemon",
        "call": {"tool": "greeter", "method": "hello", "args": {"name": "operator"}}}]
}"#;

/// Returns the name of an adapter as people call it: without what all of ours have in common.
fn short(factory_ref: &str) -> String {
    let module = factory_ref.strip_suffix(":create_adapter").unwrap_or(factory_ref);
    visible(module.strip_prefix("nexus_router_adapter_").unwrap_or(module))
}

fn tell(
    environment: &Environment,
    service: &Service,
    urls: &[(String, bool)],
    first: Option<Log>,
) -> Result<(), Error> {
    let mut output = Output::new(environment);
    let version = env!("CARGO_PKG_VERSION");
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    for (url, needs_token) in urls {
        let note = if *needs_token { "" } else { "  (no token is asked for)" };
        row("listens", format!("{url}{note}"));
    }
    if let Some((url, _)) = urls.first() {
        row("mcp", format!("{url}/mcp"));
    }
    let registry = service.router().registry();
    let ids: Vec<String> = registry.adapters().map(|one| visible(one.adapter_id())).collect();
    let none = "  (none configured; see [[adapters]] and discover in router.toml)";
    let note = if ids == ["null"] { none } else { "" };
    row("adapters", format!("{}{note}", ids.join(", ")));
    let unready = service.app().unready_adapters()?.into_iter();
    let (unconfigured, failed): (Vec<_>, Vec<_>) = unready.partition(|one| one.needs_config());
    if !unconfigured.is_empty() {
        let names: Vec<String> = unconfigured.iter().map(|one| short(&one.factory_ref)).collect();
        row("", format!("with a configuration also {}", names.join(", ")));
    }
    for one in &failed {
        let Some(failure) = &one.failure else { continue };
        row(
            "",
            format!("not {}: {}", visible(&one.adapter_id), visible(&failure.error.to_string())),
        );
    }
    row("store", service.app().db()?.display().to_string());
    if let Some(file) = service.config_file() {
        row("config", file.display().to_string());
    }
    output.line(&format!("nexus-router {version} is up"))?;
    for line in columns(&rows) {
        output.line(&format!("  {line}"))?;
    }
    if let Some(log) = first {
        let timeline = Timeline::of(&log);
        output.line("\nA first run, by the adapter echo:")?;
        for line in timeline::steps(&output, &timeline, Bars::Left) {
            output.line(&format!("  {line}"))?;
        }
        output.line(&format!("  {}", timeline::summary(&timeline)))?;
    }
    let Some((url, needs_token)) = urls.first() else { return Ok(()) };
    output.line("\nTry:")?;
    let header = if *needs_token {
        let file = service.app().data_dir()?.join(FIRST_TOKEN);
        // It may be from a token that was revoked since.
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if service.accepts(text.trim_end()) {
            output.line(&format!(
                "  TOKEN=$(cat {})",
                crate::shell::quoted(&file.display().to_string())
            ))?;
        } else {
            output.line("  TOKEN=$(nexus-router token new me --scope apply)")?;
        }
        "-H \"Authorization: Bearer $TOKEN\" "
    } else {
        ""
    };
    output.line(&format!("  curl {header}{url}/v1/runs"))?;
    output.line(&format!("  curl {header}{url}/v1/runs -d '{{\"goal\": \"look around\"}}'"))?;
    Ok(())
}
