//! `nexus-router contract`: signal contracts, with the arguments of the `adapter` verbs of AiGentsy.

mod attest;
mod bump;
mod bundle;
mod diff;
mod evaluate;
mod fetch;
mod keygen;
mod lint;
mod list;
mod manifest;
mod pin;
mod pins;
mod rehash;
mod report;
mod scaffold;
mod sign;

use clap::Subcommand;

use super::{Answer, Error};
use crate::config::Environment;

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Write a new contract with its hashes.
    Scaffold(scaffold::Arguments),
    /// Tell everything that is wrong with contracts: files, directories, or - for standard input.
    Lint(lint::Arguments),
    /// Compute the hashes of a contract anew, after it was edited.
    Rehash(rehash::Arguments),
    /// Give a contract a higher version, and compute its hashes anew.
    Bump(bump::Arguments),
    /// Tell what differs between two contracts, and which version that needs.
    Diff(diff::Arguments),
    /// List the contracts of a manifest.
    List(list::Arguments),
    /// Write down which contract was reviewed, and what its manifest says of it.
    Pin(pin::Arguments),
    /// Hold contracts to the pin file.
    #[command(subcommand)]
    Pins(pins::Verb),
    /// Write the manifest entry of a contract.
    Attest(attest::Arguments),
    /// Make a key to sign with, and print its public part.
    Keygen(keygen::Arguments),
    /// Sign the entries of contracts.
    Sign(sign::Arguments),
    /// Build and verify manifests.
    #[command(subcommand)]
    Manifest(manifest::Verb),
    /// Hold what an adapter gave to its contract, and decide by a policy.
    Evaluate(evaluate::Arguments),
    /// Export and verify proof bundles.
    #[command(subcommand)]
    Bundle(bundle::Verb),
}

pub(super) fn run(verb: Verb, environment: &Environment) -> Result<Answer, Error> {
    match verb {
        Verb::Scaffold(arguments) => scaffold::run(&arguments, environment),
        Verb::Lint(arguments) => lint::run(&arguments, environment),
        Verb::Rehash(arguments) => rehash::run(&arguments, environment),
        Verb::Bump(arguments) => bump::run(&arguments, environment),
        Verb::Diff(arguments) => diff::run(&arguments, environment),
        Verb::List(arguments) => list::run(&arguments, environment),
        Verb::Pin(arguments) => pin::run(&arguments, environment),
        Verb::Pins(verb) => pins::run(verb, environment),
        Verb::Attest(arguments) => attest::run(&arguments, environment),
        Verb::Keygen(arguments) => keygen::run(&arguments, environment),
        Verb::Sign(arguments) => sign::run(&arguments, environment),
        Verb::Manifest(verb) => manifest::run(verb, environment),
        Verb::Evaluate(arguments) => evaluate::run(&arguments, environment),
        Verb::Bundle(verb) => bundle::run(verb, environment),
    }
}
