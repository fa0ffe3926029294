//! Parses the text of a condition on a thread with a large stack: the parser recurses.

use std::thread;

use cel::parser::Parser;

use super::node::Node;
use super::{ConditionError, check};

/// The stack of the parser. A text of the greatest length needs less.
const STACK: usize = 64 * 1024 * 1024;
/// The most parts inside of each other. Evaluation recurses, too.
const MAX_DEPTH: usize = 100;

/// Parses and checks a text.
pub(super) fn parse(text: &str) -> Result<Node, ConditionError> {
    let build = || thread::Builder::new().name("condition".to_owned()).stack_size(STACK);
    let run = || {
        thread::scope(|scope| {
            let worker = build().spawn_scoped(scope, || parse_here(text)).ok()?;
            // A panic of the parser is an error of the text.
            Some(
                worker
                    .join()
                    .unwrap_or_else(|_| Err(error(None, "is not a CEL expression", SYNTAX))),
            )
        })
    };
    run().unwrap_or_else(|| {
        Err(error(
            None,
            "cannot be parsed: cannot start a thread",
            "raise the process's thread or memory limit, then retry",
        ))
    })
}

const SYNTAX: &str = "write an expression of the Common Expression Language, see cel.dev";

fn parse_here(text: &str) -> Result<Node, ConditionError> {
    let (expression, info) = match Parser::new().parse_with_source_info(text) {
        Ok(parsed) => parsed,
        Err(errors) => {
            let first = errors.errors.into_iter().next();
            let position = first.as_ref().and_then(|first| {
                let (line, column) = first.pos;
                Some((usize::try_from(line).ok()?, usize::try_from(column).ok()?))
            });
            let position = position.filter(|(line, _)| *line > 0);
            return Err(error(position, "is not a CEL expression", SYNTAX));
        }
    };
    let position = |id: u64| {
        let (start, _) = info.offset_for(id)?;
        let before = text.get(..usize::try_from(start).ok()?)?;
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|one| *one != '\n').count() + 1;
        Some((line, column))
    };
    let node = match check::check(&expression) {
        Ok(node) => node,
        Err(check::Problem { id, message, hint }) => {
            return Err(ConditionError { position: position(id), problem: message, hint });
        }
    };
    if node.depth() > MAX_DEPTH {
        let problem = format!("has more than {MAX_DEPTH} parts inside of each other");
        return Err(error(None, &problem, "split the condition into several rules"));
    }
    Ok(node)
}

fn error(position: Option<(usize, usize)>, problem: &str, hint: &str) -> ConditionError {
    ConditionError { position, problem: problem.to_owned(), hint: hint.to_owned() }
}
