//! The adapter: a call is one request to the server, made on a runtime of the adapter's own.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nexus_router_sdk::{
    Adapter, AdapterError, CallContext, Capability, Catalog, Completion, Host, Object, wait,
};
use serde_json::Value;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::config::Settings;
use crate::connection::{Connection, Question};
use crate::ending::Ending;
use crate::failure::{self, Failure};
use crate::listing::{Room, is_answer};
use crate::operation::Operation;
use crate::upstream::Upstream;
use crate::wire::lock;

/// What the adapter can do.
pub(crate) const CAPABILITIES: &[Capability] =
    &[Capability::Apply, Capability::Timeout, Capability::External];

/// How long the server may take to go.
const FAREWELL: Duration = Duration::from_secs(4);

/// Threads for lookups of names.
const LOOKUPS: usize = 4;

/// A configured MCP server.
pub struct McpAdapter {
    adapter_id: String,
    upstream: Arc<Upstream>,
    /// Made by the first call: loading an adapter makes no threads.
    engine: Mutex<Engine>,
}

enum Engine {
    None,
    Running(Runtime),
    Over,
}

impl McpAdapter {
    /// Makes an adapter; nothing is started or connected before the first call.
    pub(crate) fn new(adapter_id: Option<&str>, settings: Settings, host: &Host) -> Self {
        let adapter_id = adapter_id
            .filter(|id| !id.is_empty())
            .map_or_else(|| format!("mcp:{}", settings.name()), ToOwned::to_owned);
        let upstream = Upstream::new(Arc::new(settings), host);
        Self { adapter_id, upstream, engine: Mutex::new(Engine::None) }
    }

    /// Returns the runtime, which is made if there is none.
    fn engine(&self) -> Result<Handle, AdapterError> {
        let mut engine = lock(&self.engine);
        match &*engine {
            Engine::Running(runtime) => Ok(runtime.handle().clone()),
            Engine::Over => Err(failure::shut_down()),
            Engine::None => {
                let runtime = Builder::new_multi_thread()
                    .worker_threads(1)
                    .max_blocking_threads(LOOKUPS)
                    .thread_name("mcp")
                    .enable_all()
                    .build()
                    .map_err(|error| {
                        Failure::unreached(&format!("no thread for it: {error}")).into_error()
                    })?;
                let handle = runtime.handle().clone();
                handle.spawn(Arc::clone(&self.upstream).spread_news());
                *engine = Engine::Running(runtime);
                Ok(handle)
            }
        }
    }
}

impl Adapter for McpAdapter {
    fn adapter_id(&self) -> &str {
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        "mcp"
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn call(
        &self,
        context: &CallContext,
        tool: &str,
        method: &str,
        args: Object,
    ) -> Result<Object, AdapterError> {
        wait(context, |done| {
            self.start(context.clone(), tool.to_owned(), method.to_owned(), args, done);
        })
    }

    fn start(
        &self,
        context: CallContext,
        tool: String,
        method: String,
        args: Object,
        done: Completion,
    ) {
        let engine = match self.engine() {
            Ok(engine) => engine,
            Err(error) => return done.complete(Err(error)),
        };
        let upstream = Arc::clone(&self.upstream);
        engine.spawn(async move {
            done.complete(run(&upstream, &context, &tool, &method, args).await);
        });
    }

    fn starts_at_once(&self) -> bool {
        true
    }

    fn has_catalog(&self) -> bool {
        true
    }

    fn catalog(&self, context: &CallContext) -> Result<Catalog, AdapterError> {
        context.check()?;
        let engine = self.engine()?;
        let upstream = Arc::clone(&self.upstream);
        let ending = Ending::of_call(context, upstream.closing());
        let (tell, told) = mpsc::channel();
        engine.spawn(async move {
            let listed = tokio::select! {
                error = ending.reached() => Err(error),
                listed = upstream.catalog(&ending) => listed,
            };
            drop(tell.send(listed));
        });
        told.recv().unwrap_or_else(|_| Err(failure::shut_down()))
    }

    fn shutdown(&self) {
        let engine = std::mem::replace(&mut *lock(&self.engine), Engine::Over);
        let Engine::Running(runtime) = engine else { return };
        let upstream = Arc::clone(&self.upstream);
        let (tell, told) = mpsc::channel::<()>();
        runtime.spawn(async move {
            upstream.close().await;
            drop(tell);
        });
        // It ends when the other side is gone, too.
        let _: Result<(), mpsc::RecvTimeoutError> = told.recv_timeout(FAREWELL);
        runtime.shutdown_background();
    }
}

impl Drop for McpAdapter {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Carries out a call: over another connection, if the server certainly never saw it on the first.
async fn run(
    upstream: &Arc<Upstream>,
    context: &CallContext,
    tool: &str,
    method: &str,
    args: Object,
) -> Result<Object, AdapterError> {
    context.check()?;
    if context.dry_run() {
        // Not declared, so not to be expected; a request could not be taken back.
        return Err(failure::invalid("the mcp adapter cannot simulate a call"));
    }
    let operation = Operation::of(tool, method)?;
    let params = operation.params(args, context)?;
    let call =
        Call { upstream, context, operation, ending: Ending::of_call(context, upstream.closing()) };
    let mut again = true;
    loop {
        let answer = match upstream.connection(&call.ending).await {
            Ok(live) => call.make(&live, params.clone()).await,
            Err(failure) => return Err(failure.into_error()),
        };
        match answer {
            Err(failure) if again && failure.renew && !failure.sent => again = false,
            answer => return answer.map_err(Failure::into_error),
        }
    }
}

/// One call.
struct Call<'a> {
    upstream: &'a Arc<Upstream>,
    context: &'a CallContext,
    operation: Operation,
    ending: Ending,
}

impl Call<'_> {
    async fn make(&self, live: &Arc<Connection>, params: Object) -> Result<Object, Failure> {
        match &self.operation {
            Operation::Tool(name) => {
                self.look_for(name, live).await?;
                self.ask(live, params).await
            }
            Operation::Subscribe | Operation::Unsubscribe => self.follow(live, params).await,
            _ => self.ask(live, params).await,
        }
    }

    async fn ask(&self, live: &Connection, params: Object) -> Result<Object, Failure> {
        let question = Question {
            method: self.operation.method(),
            params,
            context: Some(self.context),
            kind: self.operation.kind(),
        };
        self.operation.output(live.request(question, &self.ending).await?)
    }

    /// Fails if the server lists no such tool. One that cannot list is believed to have it.
    async fn look_for(&self, name: &str, live: &Arc<Connection>) -> Result<(), Failure> {
        let mut room = Room::default();
        let tools = tokio::select! {
            error = self.ending.reached() => Err(Failure { error, sent: false, renew: false }),
            tools = self.upstream.tools(live, &self.ending, &mut room) => tools,
        };
        match tools {
            Ok(tools) if tools.iter().any(|tool| tool.tool == name) => Ok(()),
            Ok(_) => Err(Failure::answered(failure::not_found("tool", name))),
            Err(failure) if is_answer(&failure) => Ok(()),
            Err(failure) => Err(Failure { sent: false, ..failure }),
        }
    }

    async fn follow(&self, live: &Connection, params: Object) -> Result<Object, Failure> {
        let offered = live.offers().resources.as_ref().is_some_and(|it| it.subscribe == Some(true));
        if !offered {
            let error = failure::invalid("the MCP server does not tell of changes of resources");
            return Err(Failure::answered(error));
        }
        let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default().to_owned();
        let follows = self.operation == Operation::Subscribe;
        // First, so that the server is not asked for what nobody remembers.
        let new = match follows {
            true => self.upstream.follow(&uri).map_err(Failure::answered)?,
            false => false,
        };
        // In the new way this is a part of one long request, which whoever keeps it makes anew.
        let answer = match live.is_modern() {
            true => Ok(Object::new()),
            false => self.ask(live, params).await,
        };
        if (new && answer.is_err()) || (!follows && answer.is_ok()) {
            self.upstream.leave(&uri);
        }
        answer
    }
}
