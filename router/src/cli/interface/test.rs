//! `nexus-router interface test ID`: makes the calls of the examples, and records that they passed.

use super::super::options::RouterOptions;
use super::super::output::{Output, tell};
use super::super::{Answer, Error};
use super::{Place, lock, revision};
use crate::app::{App, Named};
use crate::clock::Clock;
use crate::config::Environment;
use crate::interface::{Interface, Operation, Tested};
use crate::json::{Object, Value};
use crate::loader::{Adapter, Call};
use crate::policy::Keeping;
use crate::python_text::visible;

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The contract, for its newest revision, or ID@VERSION.
    id: String,
    /// The directory of contracts [default: that of router.toml, or interfaces in the data directory].
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,
    #[command(flatten)]
    router: RouterOptions,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let Arguments { id, dir, router } = arguments;
    let config_file = router.config_file().map(ToOwned::to_owned);
    let place = Place { dir: dir.clone(), data_dir: router.data_dir().cloned(), config_file };
    let (shelf, _, alone) = place.open_alone(environment)?;
    let mut lock = lock(&shelf)?.clone();
    let Some(revision) = revision(&mut lock, id) else { return Ok(Answer::No) };
    let Some(contract) = revision.contract.clone() else {
        tell(&format!("{id} is removed: there is nothing to test"));
        return Ok(Answer::No);
    };
    // What is tested may be what keeps the contracts from holding.
    let named = Named { without_contracts: true, ..router.named()? };
    let app = App::new(environment, router.config(environment)?, named);
    let adapter = app.adapter_of(&contract.adapter_id)?;
    let Some(library) = adapter.digest() else {
        return Err(Error::usage(
            "the built-in adapter has no contract",
            "name one with --adapter",
        ));
    };
    let mut output = Output::new(environment);
    let mut failed = 0;
    for (name, operation) in &contract.operations {
        for problem in problems(&adapter, &contract, name, operation) {
            failed += 1;
            output.line(&visible(&format!("✗ {name}: {problem}")))?;
        }
    }
    if failed > 0 {
        output.line(&format!("not ok: {failed} examples did not pass; nothing is recorded"))?;
        return Ok(Answer::No);
    }
    let operations = contract.operations.keys().cloned().collect();
    let tested = Tested { operations, library, at: Clock::System.now().to_string() };
    // Approvals say on what the tests passed.
    revision.approvals.clear();
    revision.tested = Some(tested);
    let (id, version, count) =
        (&contract.adapter_id, revision.version.clone(), contract.operations.len());
    shelf.write_lock(&lock)?;
    drop(alone);
    output.line(&format!("ok: {id} {version}, the examples of {count} operations passed"))?;
    Ok(Answer::Yes)
}

/// Makes the calls of an operation's examples, and tells what did not come out as it should.
fn problems(
    adapter: &Adapter,
    contract: &Interface,
    name: &str,
    operation: &Operation,
) -> Vec<String> {
    if operation.examples.is_empty() {
        return vec!["it has no example, so nothing shows that it keeps its contract".to_owned()];
    }
    let keeping = match Keeping::of(contract) {
        Ok(keeping) => keeping,
        Err(problem) => return vec![problem],
    };
    let Some(kept) = keeping.operation(&operation.tool, &operation.method) else {
        return vec![format!("{name} is no operation")];
    };
    let mut problems = Vec::new();
    for (index, example) in operation.examples.iter().enumerate() {
        let args = example.input.to_serde();
        let call = Call {
            time: Some(operation.timeout),
            ..Call::new(&operation.tool, &operation.method, &args)
        };
        let came = adapter.call(&call).map(|output| Object::from(&output));
        let problem = match (&came, &example.comes) {
            (Ok(output), Ok(expected)) => kept
                .contract
                .check_output(output)
                .map_err(|misfit| format!("the output does not fit output_schema: {misfit}"))
                .and_then(|()| same(output, expected, &operation.volatile))
                .err(),
            (Err(error), Err(code)) if error.code == *code => None,
            (Err(error), _) => Some(format!("it failed with {}: {}", error.code, error.message)),
            (Ok(_), Err(code)) => Some(format!("it did not fail with {code}")),
        };
        problems.extend(problem.map(|problem| format!("example {index}: {problem}")));
    }
    problems
}

/// Compares an output with the one of the example, but for what differs between equal calls.
fn same(output: &Object, expected: &Value, volatile: &[String]) -> Result<(), String> {
    let blank =
        |value: Value| volatile.iter().fold(value, |value, pointer| without(value, pointer));
    let (output, expected) = (blank(output.clone().into()), blank(expected.clone()));
    let canonical = |value: &Value| crate::json::to_jcs(value);
    if canonical(&output) == canonical(&expected) {
        return Ok(());
    }
    Err(format!(
        "the output is {}, and not {}",
        crate::json::to_compact(&output),
        crate::json::to_compact(&expected)
    ))
}

/// Puts null where a pointer leads, if it leads anywhere.
fn without(mut value: Value, pointer: &str) -> Value {
    let Some((parent, last)) = pointer.rsplit_once('/') else { return value };
    let name = last.replace("~1", "/").replace("~0", "~");
    let mut at = Some(&mut value);
    for token in parent.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        at = match at {
            Some(Value::Object(object)) => object.get_mut(&token),
            Some(Value::Array(items)) => {
                token.parse::<usize>().ok().and_then(|index| items.get_mut(index))
            }
            _ => None,
        };
    }
    if let Some(Value::Object(object)) = at
        && object.contains_key(&name)
    {
        object.insert(name, Value::Null);
    }
    value
}
