//! `nexus-router interface test ID`: makes the calls of the examples, and records that they passed.
//!
//! A frozen contract is part of the program and needs no approval, so that nothing is recorded for it.

use super::super::options::RouterOptions;
use super::super::output::{Output, tell};
use super::super::{Answer, Error};
use super::{Place, lock, revision};
use crate::app::{App, Named};
use crate::clock::Clock;
use crate::config::Environment;
use crate::digest::Digest;
use crate::interface::{Interface, Lock, Operation, Tested, compare_output, frozen_interface};
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
    let (shelf, _) = place.open(environment)?;
    let mut output = Output::new(environment);
    if let Some(contract) = frozen(lock(&shelf)?, id) {
        let passed = test(router, environment, contract, &mut output)?.is_some();
        if passed {
            output
                .line(&format!("{}; nothing is recorded: it is frozen", passed_line(contract)))?;
        }
        return Ok(if passed { Answer::Yes } else { Answer::No });
    }
    let (shelf, _, alone) = place.open_alone(environment)?;
    let mut lock = lock(&shelf)?.clone();
    let Some(revision) = revision(&mut lock, id) else { return Ok(Answer::No) };
    let Some(contract) = revision.contract.clone() else {
        tell(&format!("{id} is removed: there is nothing to test"));
        return Ok(Answer::No);
    };
    let Some(library) = test(router, environment, &contract, &mut output)? else {
        return Ok(Answer::No);
    };
    let operations = contract.operations.keys().cloned().collect();
    let tested = Tested { operations, library, at: Clock::System.now().to_string() };
    // Approvals say on what the tests passed.
    revision.approvals.clear();
    revision.tested = Some(tested);
    shelf.write_lock(&lock)?;
    drop(alone);
    output.line(&passed_line(&contract))?;
    Ok(Answer::Yes)
}

/// Returns the contract of this program that is meant, if the lock has no revision that is.
fn frozen(lock: &Lock, named: &str) -> Option<&'static Interface> {
    let (id, version) = match named.split_once('@') {
        Some((id, version)) => (id, Some(version)),
        None => (named, None),
    };
    let contract = frozen_interface(id)?;
    let is_meant = match version {
        Some(version) => contract.version.to_string() == version,
        None => lock.latest(id).is_none(),
    };
    is_meant.then_some(contract)
}

fn passed_line(contract: &Interface) -> String {
    let Interface { adapter_id, version, operations, .. } = contract;
    format!("ok: {adapter_id} {version}, the examples of {} operations passed", operations.len())
}

/// Makes the calls of all examples in the order of the document, and prints what does not pass. Returns the digest of
/// the adapter's library if everything passed.
fn test(
    router: &RouterOptions,
    environment: &Environment,
    contract: &Interface,
    output: &mut Output,
) -> Result<Option<Digest>, Error> {
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
    // An example may rely on what those before it did.
    let listed = contract.document.get("operations").and_then(Value::as_object);
    let listed = listed.into_iter().flat_map(Object::keys);
    let operations =
        listed.filter_map(|name| contract.operations.get(name).map(|operation| (name, operation)));
    let mut failed = 0;
    for (name, operation) in operations {
        for problem in problems(&adapter, contract, name, operation) {
            failed += 1;
            output.line(&visible(&format!("✗ {name}: {problem}")))?;
        }
    }
    if failed > 0 {
        output.line(&format!("not ok: {failed} examples did not pass; nothing is recorded"))?;
        return Ok(None);
    }
    Ok(Some(library))
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
                .and_then(|()| compare_output(output, expected, &operation.volatile))
                .err(),
            (Err(error), Err(code)) if error.code == *code => None,
            (Err(error), _) => Some(format!("it failed with {}: {}", error.code, error.message)),
            (Ok(_), Err(code)) => Some(format!("it did not fail with {code}")),
        };
        problems.extend(problem.map(|problem| format!("example {index}: {problem}")));
    }
    problems
}
