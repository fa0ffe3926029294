//! `nexus-router adapter list`.

use serde_json::{Value, json};

use super::super::output::{Format, Output, columns, shortened};
use super::super::{Answer, Error};
use super::Search;
use super::running::Running;
use crate::check::{Listed, list};
use crate::config::Environment;
use crate::python_text::visible;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    search: Search,
    #[command(flatten)]
    running: Running,
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    if arguments.running.is_wanted() {
        let config_file = arguments.search.config_file.as_deref();
        return arguments.running.list(config_file, arguments.format, environment);
    }
    let loader = arguments.search.loader(environment)?;
    let listed = list(&loader);
    let mut output = Output::new(environment);
    if arguments.format == Format::Json {
        output.json(&Value::Array(listed.iter().map(as_json).collect()))?;
        return Ok(Answer::Yes);
    }
    let mut rows =
        vec![["FACTORY", "KIND", "CAPABILITIES", "VERSION", "STATE"].map(str::to_owned).to_vec()];
    rows.extend(listed.iter().map(|entry| {
        let (kind, capabilities) = match &entry.manifest {
            Some(manifest) => {
                let mut capabilities = manifest.capabilities.clone();
                capabilities.sort();
                (manifest.kind.clone(), capabilities.join(","))
            }
            None => ("-".to_owned(), "-".to_owned()),
        };
        let version = entry.version.clone().unwrap_or_else(|| "-".to_owned());
        let cells = [entry.factory_ref.clone(), kind, capabilities, version, entry.state()];
        cells.iter().map(|cell| shortened(&visible(cell))).collect()
    }));
    for line in columns(&rows) {
        output.line(&line)?;
    }
    Ok(Answer::Yes)
}

pub(super) fn as_json(entry: &Listed) -> Value {
    let manifest = entry.manifest.as_ref();
    json!({
        "factory_ref": entry.factory_ref,
        "path": entry.path.as_ref().map(|path| path.display().to_string()),
        "kind": manifest.map(|manifest| &manifest.kind),
        "capabilities": manifest.map(|manifest| &manifest.capabilities),
        "package": entry.package,
        "version": entry.version,
        "state": entry.state(),
        "problem": entry.problem.as_ref().map(|error| json!({
            "reason": error.reason().code(),
            "message": error.to_string(),
            "hint": error.hint(),
        })),
    })
}
