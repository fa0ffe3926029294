//! The tools that list, validate, inspect and document adapters.

use super::super::{App, Error, Paths};
use super::{Members, Switch};
use crate::check::{self, Strictness, doc_entries};
use crate::json::{Object, Value};
use crate::loader::{Adapter, FactoryRef, LoadRequest};

pub(super) fn list(app: &App, request: Value) -> Result<Value, Error> {
    let request = Members::read(request, &["capability"])?;
    let wanted = request.text("capability")?;
    let registry = app.registry()?;
    let names = |adapter: &Adapter| {
        let mut names: Vec<&str> = adapter.capabilities().iter().map(|one| one.name()).collect();
        names.sort_unstable();
        names
    };
    let mut listed: Vec<Value> = registry
        .adapters()
        .map(|adapter| (adapter, names(adapter)))
        .filter(|(_, names)| wanted.is_none_or(|wanted| names.contains(&wanted)))
        .map(|(adapter, names)| {
            let mut object = Object::new();
            object.insert("adapter_id", adapter.adapter_id());
            object.insert("adapter_kind", adapter.adapter_kind());
            object.insert("capabilities", names.into_iter().map(Value::from).collect::<Vec<_>>());
            app.add_state(&mut object, adapter);
            Value::Object(object)
        })
        .collect();
    if wanted.is_none() {
        let unready = app.unready_adapters()?.into_iter().filter(|one| !one.needs_config());
        listed.extend(unready.map(|one| Value::Object(one.to_json(true))));
    }
    let mut response = Object::new();
    response.insert("total", listed.len());
    response.insert("adapters", listed);
    response.insert("default_adapter_id", registry.default_adapter_id());
    Ok(response.into())
}

pub(super) fn validate(app: &App, request: Value) -> Result<Value, Error> {
    let request = Members::read(request, &["factory_ref", "config", "strict"])?;
    let (factory_ref, config, strictness) = examination(app, &request)?;
    let request = LoadRequest { factory_ref, adapter_id: None, config: &config, pin: None };
    let validation = check::validate(&app.setup().loader, &request, strictness)?;
    Ok(Value::from(&validation.to_json()))
}

pub(super) fn inspect(app: &App, request: Value) -> Result<Value, Error> {
    let request = Members::read(request, &["factory_ref", "config", "strict", "render"])?;
    let (factory_ref, config, strictness) = examination(app, &request)?;
    let rendered = request.switch("render", Switch::Off)?;
    let request = LoadRequest { factory_ref, adapter_id: None, config: &config, pin: None };
    let inspection = check::inspect(&app.setup().loader, &request, strictness)?;
    let mut response = Value::from(&inspection.to_json());
    if let (Switch::On, Value::Object(members)) = (rendered, &mut response) {
        members.insert("rendered", inspection.render());
    }
    Ok(response)
}

/// Returns what the tools that examine a library are asked.
fn examination<'a>(
    app: &App,
    request: &'a Members,
) -> Result<(&'a str, serde_json::Value, Strictness), Error> {
    let factory_ref = request.text("factory_ref")?;
    let factory_ref = factory_ref.ok_or_else(|| request.wrong("factory_ref", "is missing"))?;
    if app.named.paths == Paths::Own
        && FactoryRef::parse(factory_ref).is_ok_and(|parsed| parsed.file().is_some())
    {
        return Err(request.wrong("factory_ref", "must be a module on the adapter path"));
    }
    let config = request.object("config")?.map(Object::to_serde).unwrap_or_default();
    let strictness = match request.switch("strict", Switch::On)? {
        Switch::On => Strictness::Strict,
        Switch::Off => Strictness::Lenient,
    };
    Ok((factory_ref, config.into(), strictness))
}

pub(super) fn docs(app: &App, request: Value) -> Result<Value, Error> {
    let request = Members::read(request, &["title", "include_header", "include_footer"])?;
    let title = request.text("title")?.unwrap_or("Adapters");
    let header = request.switch("include_header", Switch::On)?;
    // The document has no footer; who leaves it out gets the same.
    request.switch("include_footer", Switch::On)?;
    let entries = doc_entries(&app.setup().loader);
    let text = check::docs::markdown(&entries, title);
    let markdown = match header {
        Switch::On => text,
        Switch::Off => {
            let without = text.split_once("\n\n").filter(|(first, _)| first.starts_with("<!--"));
            without.map_or_else(|| text.clone(), |(_, rest)| rest.to_owned())
        }
    };
    let failed = |entry: &&check::docs::DocEntry| entry.problem.is_some();
    let errors = entries.iter().filter(failed).map(|entry| {
        let problem = entry.problem.as_deref().unwrap_or_default();
        Value::from(format!("{}: {problem}", entry.factory_ref))
    });
    let errors: Vec<Value> = errors.collect();
    let mut response = Object::new();
    response.insert("markdown", markdown);
    response.insert("adapters_ok", entries.len() - errors.len());
    response.insert("adapters_failed", errors.len());
    response.insert("errors", errors);
    Ok(response.into())
}
