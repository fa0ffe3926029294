//! Helpers for an adapter's own tests.

pub mod passive;

use nexus_router_abi::HostV1;
use nexus_router_abi::abi_stable::std_types::RStr;
use nexus_router_abi::abi_stable::type_level::downcasting::TD_Opaque;
use nexus_router_abi::{Answer, HostV1_TO};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cancellation::Cancellation;
use crate::{
    Adapter, AdapterError, CallContext, Host, Interaction, Manifest, Object, code, metadata,
};

/// Calls an adapter in this process, without a library.
///
/// # Errors
/// The adapter's.
///
/// # Panics
/// When `args` is not a JSON object.
pub fn call(
    adapter: &impl Adapter,
    tool: &str,
    method: &str,
    args: Value,
) -> Result<Object, AdapterError> {
    let Value::Object(args) = args else { panic!("args must be a JSON object") };
    adapter.call(&Recorder::default().context(), tool, method, args)
}

/// Returns a manifest as the router reads it, for tests that compare it with the adapter.
///
/// ```
/// use nexus_router_sdk::{Capability, Manifest, testing};
/// const MANIFEST: Manifest = Manifest::new("greeter", &[Capability::Apply]);
/// assert_eq!(testing::manifest(&MANIFEST)["capabilities"], serde_json::json!(["apply"]));
/// ```
///
/// # Panics
/// Never: a manifest is always JSON.
#[must_use]
pub fn manifest(manifest: &Manifest) -> Value {
    serde_json::from_slice(&metadata::manifest_json(manifest)).expect("a manifest is JSON")
}

/// Answers what an adapter asks.
type Answers = Arc<dyn Fn(&Value) -> Result<Value, AdapterError> + Send + Sync>;

/// A host that keeps what an adapter tells it.
#[derive(Clone, Default)]
pub struct Recorder {
    notices: Arc<Mutex<Vec<Value>>>,
    answers: Option<Answers>,
}

impl Recorder {
    /// Answers what calls [`ask`](CallContext::ask). Without this, a recorder answers nothing.
    #[must_use]
    pub fn answering(
        mut self,
        answer: impl Fn(&Value) -> Result<Value, AdapterError> + Send + Sync + 'static,
    ) -> Self {
        self.answers = Some(Arc::new(answer));
        self
    }

    /// Returns a context whose host is this recorder, without a deadline.
    #[must_use]
    pub fn context(&self) -> CallContext {
        CallContext::new(None, None, false, Cancellation::never(), self.host())
    }

    /// Returns a context of a call that must end within `time`.
    #[must_use]
    pub fn context_with_time(&self, time: Duration) -> CallContext {
        let deadline = Instant::now().checked_add(time);
        CallContext::new(None, deadline, false, Cancellation::never(), self.host())
    }

    /// Returns a context of a call whose caller said more than its arguments.
    #[must_use]
    pub fn context_with(&self, interaction: Interaction) -> CallContext {
        self.context().with_interaction(Some(interaction))
    }

    /// Returns a context of a call that must only pretend.
    #[must_use]
    pub fn dry_run_context(&self) -> CallContext {
        CallContext::new(None, None, true, Cancellation::never(), self.host())
    }

    /// Returns a context, and what cancels its call. That panics when something registered with
    /// [`CallContext::on_cancel`] does.
    pub fn cancellable_context(&self) -> (CallContext, impl Fn() + Send + Sync + use<>) {
        let cancellation = Cancellation::possible();
        let context = CallContext::new(None, None, false, cancellation.clone(), self.host());
        (context, move || {
            if let Some(error) = cancellation.cancel().first() {
                panic!("{error}");
            }
        })
    }

    /// Returns this recorder as a host.
    #[must_use]
    pub fn host(&self) -> Host {
        Host::new(HostV1_TO::from_value(self.clone(), TD_Opaque))
    }

    /// Returns all notices so far.
    #[must_use]
    pub fn notices(&self) -> Vec<Value> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the text of all output so far.
    #[must_use]
    pub fn output(&self) -> String {
        let notices = self.notices();
        notices
            .iter()
            .filter(|n| n["type"] == "output")
            .filter_map(|n| n["text"].as_str())
            .collect()
    }
}

impl HostV1 for Recorder {
    fn notify(&self, notice: RStr<'_>) {
        let notice = serde_json::from_str(notice.as_str()).unwrap_or(Value::Null);
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
    }

    fn ask(&self, request: RStr<'_>) -> Answer {
        let request = serde_json::from_str(request.as_str()).unwrap_or(Value::Null);
        let answer = match &self.answers {
            Some(answer) => answer(&request),
            None => {
                Err(AdapterError::operational(code::UNSUPPORTED, "this host answers no requests"))
            }
        };
        match answer {
            Ok(answer) => Answer::ROk(answer.to_string().into()),
            Err(error) => Answer::RErr(crate::completion::error_text(&error).into()),
        }
    }
}

/// A built adapter library, and the `nexus-router` binary that judges it.
///
/// ```no_run
/// # use nexus_router_sdk::testing::Library;
/// let library = Library::built("nexus-router-adapter-greeter");
/// library.validate(&serde_json::json!({ "greeting": "Ahoy" })).assert_ok();
/// ```
#[derive(Clone, Debug)]
pub struct Library {
    path: PathBuf,
    factory: String,
    router: PathBuf,
}

impl Library {
    /// Finds the library of a package beside the running test, where cargo puts it.
    ///
    /// # Panics
    /// When the library or the binary is not there; the text says what to do.
    #[must_use]
    pub fn built(package: &str) -> Self {
        let test = std::env::current_exe().expect("a test knows its own path");
        let directories: Vec<&Path> = test.ancestors().skip(1).take(2).collect();
        let name = format!(
            "{}{}{}",
            std::env::consts::DLL_PREFIX,
            package.replace('-', "_"),
            std::env::consts::DLL_SUFFIX
        );
        let path = directories.iter().map(|directory| directory.join(&name)).find(|p| p.is_file());
        let path = path.unwrap_or_else(|| {
            panic!(
                "{name} is not in {directories:?}\nhint: crate-type must be [\"cdylib\", \"rlib\"], \
                 and the test must be in tests/, so that cargo builds the library for it"
            )
        });
        Self { path, factory: "create_adapter".to_owned(), router: find_router(&directories) }
    }

    /// Chooses another factory than `create_adapter`.
    #[must_use]
    pub fn factory(mut self, function: &str) -> Self {
        function.clone_into(&mut self.factory);
        self
    }

    /// Returns the factory ref of the library: its path, a colon, the function.
    #[must_use]
    pub fn factory_ref(&self) -> String {
        format!("{}:{}", self.path.display(), self.factory)
    }

    /// Runs the gate: `nexus-router adapter validate`, strict.
    ///
    /// # Panics
    /// When the binary cannot be run or does not answer.
    pub fn validate(&self, config: &Value) -> Validation {
        let config = config.to_string();
        let report = self.run(&["validate", &self.factory_ref(), "--config", &config]);
        Validation { report }
    }

    /// Makes one call in the router's confined child, which has no network and writes no files.
    ///
    /// # Errors
    /// The adapter's error, or a bug error that tells how the child ended.
    ///
    /// # Panics
    /// When the binary cannot be run or does not answer.
    pub fn try_call(
        &self,
        config: &Value,
        tool: &str,
        method: &str,
        args: &Value,
    ) -> Result<Object, AdapterError> {
        let (config, args) = (config.to_string(), args.to_string());
        let report = self.run(&[
            "try",
            &self.factory_ref(),
            tool,
            method,
            "--config",
            &config,
            "--args",
            &args,
        ]);
        match report {
            Value::Object(mut members) if members.contains_key("output") => {
                match members.remove("output") {
                    Some(Value::Object(output)) => Ok(output),
                    other => Err(AdapterError::bug(format!("output is not an object: {other:?}"))),
                }
            }
            report => Err(serde_json::from_value(report["error"].clone())
                .unwrap_or_else(|_| AdapterError::bug(report.to_string()))),
        }
    }

    fn run(&self, verb_and_args: &[&str]) -> Value {
        let output = Command::new(&self.router)
            .arg("adapter")
            .args(verb_and_args)
            .args(["--format", "json"])
            .output()
            .unwrap_or_else(|error| panic!("cannot run {}: {error}", self.router.display()));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
            panic!(
                "{} adapter {verb_and_args:?} gave no answer ({}):\n{}",
                self.router.display(),
                output.status,
                String::from_utf8_lossy(&output.stderr)
            )
        })
    }
}

/// What `nexus-router adapter validate` found.
#[derive(Clone, Debug)]
#[must_use = "assert on the validation"]
pub struct Validation {
    /// The whole report, as the binary printed it.
    pub report: Value,
}

impl Validation {
    /// Says whether no check failed.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.report["ok"] == true
    }

    /// Returns the status of a check: `pass`, `fail`, `warn` or `skip`.
    #[must_use]
    pub fn status(&self, check_id: &str) -> Option<&str> {
        let checks = self.report["checks"].as_array()?;
        checks.iter().find(|check| check["id"] == check_id)?["status"].as_str()
    }

    /// Panics with the failed checks unless there are none.
    ///
    /// # Panics
    /// When a check failed.
    pub fn assert_ok(&self) {
        assert!(self.ok(), "adapter does not validate: {:#}", self.report["errors"]);
    }
}

fn find_router(directories: &[&Path]) -> PathBuf {
    if let Some(named) = std::env::var_os("NEXUS_ROUTER_BIN") {
        return named.into();
    }
    let name = format!("nexus-router{}", std::env::consts::EXE_SUFFIX);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path);
    // An SDK that is used from a checkout has the binary beside it, once it is built.
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target");
    let in_checkout = ["release", "debug"].map(|profile| checkout.join(profile));
    let beside = directories.iter().map(|directory| directory.to_path_buf());
    let candidates = beside.chain(on_path).chain(in_checkout);
    candidates.map(|directory| directory.join(&name)).find(|candidate| candidate.is_file()).unwrap_or_else(|| {
        panic!(
            "the nexus-router binary is neither in {directories:?} nor on PATH\nhint: build it with \
             `cargo build -p nexus-router`, install it, or name it in NEXUS_ROUTER_BIN"
        )
    })
}
