//! `nexus-router mcp`: the Model Context Protocol over standard input and output.

use std::time::Duration;

use tracing::level_filters::LevelFilter;

use super::options::RouterOptions;
use super::serve::{not_loaded, start_telemetry};
use super::{Answer, Error};
use crate::access::{Bearer, Scope};
use crate::app::{App, Named, Paths};
use crate::config::Environment;
use crate::mcp;
use crate::router;
use crate::service::{self, Parts, Service};

const EXAMPLES: &str = "\
Examples:
  nexus-router mcp --config router.toml       what an MCP client starts as its server
  nexus-router mcp --scope admin              also the tools nexus-router.*

A client's configuration names the program and its arguments, such as
  {\"command\": \"nexus-router\", \"args\": [\"mcp\", \"--config\", \"router.toml\"]}
The log goes to standard error. A daemon serves the same at /mcp.";

/// How long a client waits for adapters that are being loaded before it is answered without them.
const FIRST_TOOLS: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    router: RouterOptions,
    /// What the client may do: read, run, apply or admin.
    #[arg(long, value_name = "SCOPE", default_value = "apply", value_parser = scope)]
    scope: Scope,
}

fn scope(text: &str) -> Result<Scope, String> {
    Scope::from_name(text).ok_or_else(|| "is none of read, run, apply, admin".to_owned())
}

pub(super) fn run(
    arguments: &Arguments,
    level: Option<LevelFilter>,
    environment: &Environment,
) -> Result<Answer, Error> {
    let config = arguments.router.config(environment)?;
    // Clients show what a server logs; only what needs somebody's attention is worth it.
    let telemetry = start_telemetry(&config, level.or(Some(LevelFilter::WARN)))?;
    let drain = config.server.drain;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("mcp")
        .enable_all()
        .build()
        .map_err(|error| Error::App(router::Error::Threads(error.to_string()).into()))?;
    let answer = runtime.block_on(async {
        let named = Named {
            paths: Paths::Own,
            discover: true,
            in_background: true,
            ..arguments.router.named()?
        };
        let app = App::new(environment, config, named);
        let parts = Parts { app, environment: environment.clone(), telemetry, tokens: false };
        let starting = tokio::task::spawn_blocking(move || Service::start(parts));
        let service = starting
            .await
            .map_err(|error| Error::App(router::Error::Threads(error.to_string()).into()))??;
        // Clients ask for the tools first, and many ask only once.
        if let Ok(Err(_)) = tokio::time::timeout(FIRST_TOOLS, service.loaded()).await {
            return Err(not_loaded(&service));
        }
        let recovering = service.clone();
        drop(tokio::spawn(async move { recovering.recover().await }));
        drop(tokio::spawn(service::watch(service.clone())));
        let bearer = Bearer::local_with(arguments.scope);
        let mut failure = None;
        let broken = async {
            if service.loaded().await.is_ok() {
                std::future::pending::<()>().await;
            }
        };
        let served = tokio::select! {
            served = mcp::serve_stdio(&service, bearer) => served,
            stopped = stopped() => stopped,
            () = broken => {
                failure = Some(not_loaded(&service));
                Ok(())
            }
        };
        let cancelled = service.drain(drain).await;
        let stopping = service.clone();
        drop(tokio::task::spawn_blocking(move || stopping.stopped(cancelled)).await);
        match failure {
            Some(failure) => Err(failure),
            None => Ok(served.map(|()| Answer::Yes)?),
        }
    });
    // Standard input cannot be waited for without a thread, which nothing ends but the process.
    runtime.shutdown_background();
    answer
}

/// Waits for the signal to stop.
async fn stopped() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
