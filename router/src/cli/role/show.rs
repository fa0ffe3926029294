//! `nexus-router role show`.

use super::super::output::{Output, columns};
use super::super::{Answer, Error};
use crate::config::Environment;
use crate::json::Value;
use crate::role::{
    CONDITIONS, CONTRACT_SHA256, Need, Role, TABLE_SHA256, VALIDATES, When, contract, export,
    revisions,
};

/// The format of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// For people.
    #[default]
    #[value(alias = "human")]
    Text,
    /// For programs.
    Json,
}

#[derive(clap::Args)]
pub(in crate::cli) struct Arguments {
    /// The format of the answer.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> Result<Answer, Error> {
    let mut output = Output::new(environment);
    if arguments.format == Form::Json {
        let Value::Object(mut document) = export::json() else { return Ok(Answer::No) };
        document.insert("contract", contract().clone());
        output.value(&Value::Object(document))?;
        return Ok(Answer::Yes);
    }
    let mut rows = vec![["ROLE", "ACTION", "NEEDS"].map(str::to_owned).to_vec()];
    for role in Role::ALL {
        let cells = |action: &str, when: When| {
            vec![role.name().to_owned(), action.to_owned(), needs(role, when)]
        };
        let actions = role.actions().into_iter();
        rows.extend(actions.map(|class| cells(class.name(), When::Action(class))));
        rows.push(cells("(network access of its own)", When::Network));
    }
    for line in columns(&rows) {
        output.line(&line)?;
    }
    output.line("")?;
    let revision = revisions(contract()).pop().map(|it| format!(" of {}", it.date));
    output.line(&format!("revision    {VALIDATES}{}", revision.unwrap_or_default()))?;
    output.line(&format!("role table  sha256:{TABLE_SHA256}"))?;
    output.line(&format!("contract    sha256:{CONTRACT_SHA256}"))?;
    Ok(Answer::Yes)
}

fn needs(role: Role, when: When) -> String {
    let condition = CONDITIONS.into_iter().find(|it| it.role == role && it.when == when);
    match condition.map(|condition| condition.need) {
        None => "-",
        Some(Need::PlanAndPolicy) => "a grant of the plan, and the policy",
        Some(Need::Never) => "never",
    }
    .to_owned()
}
