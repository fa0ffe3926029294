//! What the ABI and the loader cost, each beside a baseline that is measured in the same run.
//!
//! Cases are interleaved in rounds, so that a busy machine slows both sides. The tenth percentile is the
//! undisturbed cost; ratios are between medians.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails loudly"
)]

use std::borrow::Cow;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nexus_router::config::Environment;
use nexus_router::loader::{CHILD_ARGUMENT, LoadRequest, library_name};
use nexus_router::{Adapter, Call, Loader};
use nexus_router_abi::abi_stable::std_types::ROption;
use nexus_router_abi::abi_stable::type_level::downcasting::TD_Opaque;
use nexus_router_abi::{Answer, FactoryV1Ref, HostV1, HostV1_TO};
use nexus_router_adapter_echo::Echo;
use nexus_router_sdk::exported::{Export, LibHeader, header};
use nexus_router_sdk::testing::Recorder;
use nexus_router_sdk::{Adapter as _, AdapterError, CallContext, Capability, Host, Object};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nexus-router");
const ECHO: &str = "nexus_router_adapter_echo:create_adapter";

fn main() {
    // `cargo bench -- --smoke` only shows that everything runs.
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let rounds = if smoke { 2 } else { 60 };
    let directory = tempfile::tempdir().unwrap();
    let loader = loader(directory.path());
    crossing(rounds);
    json_call(rounds, &loader);
    load(rounds, &loader);
    dry_run(rounds, &loader);
    validate(rounds, directory.path());
}

fn loader(directory: &Path) -> Loader {
    Loader::from_environment(&Environment {
        adapter_path: vec![built_directory()],
        cache_dir: directory.join("cache"),
        helper: Some(PROGRAM.into()),
        ..Environment::default()
    })
}

fn built_directory() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn request(config: &Value) -> LoadRequest<'_> {
    LoadRequest { factory_ref: ECHO, adapter_id: None, config, pin: None }
}

/// The guarded crossing alone: a method that does nothing, through the ABI and directly.
fn crossing(rounds: usize) {
    static HEADER: LibHeader = header::<Exported>();
    let factory = HEADER.init_root_module::<FactoryV1Ref>().unwrap();
    let host = HostV1_TO::from_value(Deaf, TD_Opaque);
    let through = (factory.create())(ROption::RNone, "{}".into(), host).unwrap();
    let direct: Box<dyn Callable> = Box::new(Idle);
    let [direct, through] = compare(
        rounds,
        20_000,
        [&mut || black_box(&direct).shutdown(), &mut || black_box(&through).shutdown()],
    );
    report("guarded ABI crossing", "direct call", direct, through, "goal: at most 25 ns more");
}

trait Callable {
    fn shutdown(&self);
}

impl Callable for Idle {
    fn shutdown(&self) {
        nexus_router_sdk::Adapter::shutdown(self);
    }
}

struct Idle;

impl nexus_router_sdk::Adapter for Idle {
    fn adapter_id(&self) -> &str {
        "idle"
    }

    fn adapter_kind(&self) -> &str {
        "idle"
    }

    fn capabilities(&self) -> &[Capability] {
        &[Capability::Apply]
    }

    fn call(
        &self,
        _: &CallContext,
        _: &str,
        _: &str,
        args: Object,
    ) -> Result<Object, AdapterError> {
        Ok(args)
    }
}

struct Exported;

impl Export for Exported {
    const NAME: &'static str = "idle";

    fn create(
        _: Option<&str>,
        _: &str,
        _: Host,
    ) -> Result<impl nexus_router_sdk::Adapter, AdapterError> {
        Ok(Idle)
    }
}

struct Deaf;

impl HostV1 for Deaf {
    fn notify(&self, _: nexus_router_abi::abi_stable::std_types::RStr<'_>) {}

    fn ask(&self, _: nexus_router_abi::abi_stable::std_types::RStr<'_>) -> Answer {
        Answer::RErr("".into())
    }
}

/// A whole call with JSON written and parsed on both sides, through the library and directly.
fn json_call(rounds: usize, loader: &Loader) {
    let config = json!({});
    let adapter: Adapter = loader.load(&request(&config)).unwrap();
    let Value::Object(args) = json!({
        "path": "/srv/data/report-2026.csv", "encoding": "utf-8", "limit": 100, "offset": 0,
        "filters": [{"column": "region", "equals": "north"}, {"column": "year", "equals": 2026}],
        "options": {"header": true, "delimiter": ";", "quote": null},
    }) else {
        unreachable!()
    };
    let call = Call::new("files", "read", &args);
    let linked = Direct::new();
    assert_eq!(linked.call(&call), adapter.call(&call).unwrap());
    let [direct, through] = compare(
        rounds,
        400,
        [&mut || drop(black_box(linked.call(&call))), &mut || drop(black_box(adapter.call(&call)))],
    );
    report(
        "call through the ABI, JSON on both sides",
        "same call, linked",
        direct,
        through,
        "goal: at most 1.08",
    );
}

/// The same adapter without the ABI: the request is still written, parsed, answered and parsed again.
struct Direct {
    adapter: Echo,
    context: CallContext,
}

impl Direct {
    fn new() -> Self {
        let adapter = nexus_router_adapter_echo::create_adapter(
            None,
            serde_json::from_value(json!({"responses": [], "delay_ms": 0})).unwrap(),
        )
        .unwrap();
        Self { adapter, context: Recorder::default().context() }
    }

    fn call(&self, call: &Call<'_>) -> Object {
        #[derive(Deserialize)]
        struct Request<'a> {
            #[serde(borrow)]
            tool: Cow<'a, str>,
            #[serde(borrow)]
            method: Cow<'a, str>,
            args: Object,
        }
        #[derive(Serialize)]
        struct Output {
            output: Object,
        }
        #[derive(Deserialize)]
        struct Answer {
            output: Value,
        }
        let request = serde_json::to_string(call).unwrap();
        let request: Request<'_> = serde_json::from_str(&request).unwrap();
        let context = self.context.clone();
        let output =
            self.adapter.call(&context, &request.tool, &request.method, request.args).unwrap();
        let answer = serde_json::to_string(&Output { output }).unwrap();
        match serde_json::from_str::<Answer>(&answer).unwrap().output {
            Value::Object(output) => output,
            _ => unreachable!(),
        }
    }
}

/// Loading a library whose dry run is known to go well, against the system's bare open and look-up.
fn load(rounds: usize, loader: &Loader) {
    let config = json!({});
    loader.load(&request(&config)).unwrap();
    let file = built_directory().join(library_name("nexus_router_adapter_echo"));
    let size = std::fs::metadata(&file).unwrap().len() / 1024;
    let [read, known] = compare(
        rounds,
        10,
        [&mut || drop(black_box(std::fs::read(&file).unwrap())), &mut || {
            drop(black_box(loader.load(&request(&config)).unwrap()));
        }],
    );
    let what = format!("load of a known-good library ({size} KiB)");
    report(&what, "reading its file", read, known, "goal: at most 0.5 ms");
}

/// The child's dry run, against a child that starts and ends at once.
fn dry_run(rounds: usize, loader: &Loader) {
    let config = json!({});
    let args = Object::new();
    let [spawn, tried] = compare(
        rounds,
        4,
        [
            &mut || {
                let mut child = Command::new(PROGRAM);
                child.arg(CHILD_ARGUMENT).env_clear().stdin(Stdio::null());
                black_box(child.status().unwrap());
            },
            &mut || {
                black_box(loader.try_call(&request(&config), &Call::new("t", "m", &args)).unwrap());
            },
        ],
    );
    report(
        "dry run in the confined child, with a call",
        "an empty child",
        spawn,
        tried,
        "goal: at most 5 ms",
    );
}

/// The whole command `adapter validate`, against the command that only prints its version.
fn validate(rounds: usize, directory: &Path) {
    let command = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command
            .args(arguments)
            .env_clear()
            .env("NEXUS_ROUTER_CACHE_DIR", directory.join("cache"))
            .env("NEXUS_ROUTER_ADAPTER_PATH", built_directory())
            .stdout(Stdio::null());
        assert!(command.status().unwrap().success());
    };
    let [version, validate] = compare(
        rounds,
        2,
        [&mut || command(&["--version"]), &mut || command(&["adapter", "validate", ECHO])],
    );
    report("adapter validate", "--version", version, validate, "goal: at most 15 ms");
}

/// Times each case in turn, `rounds` times, and returns the times of one repetition each.
fn compare<const N: usize>(
    rounds: usize,
    repetitions: u32,
    mut cases: [&mut dyn FnMut(); N],
) -> [Vec<Duration>; N] {
    let mut times = [const { Vec::new() }; N];
    for _ in 0..rounds {
        for (case, times) in cases.iter_mut().zip(&mut times) {
            let start = Instant::now();
            for _ in 0..repetitions {
                case();
            }
            times.push(start.elapsed() / repetitions);
        }
    }
    times
}

fn report(what: &str, against: &str, baseline: Vec<Duration>, measured: Vec<Duration>, goal: &str) {
    let at = |mut times: Vec<Duration>, percent: usize| {
        times.sort();
        times[(times.len() - 1) * percent / 100]
    };
    let (base, time) = (at(baseline.clone(), 50), at(measured.clone(), 50));
    let ratio = time.as_secs_f64() / base.as_secs_f64().max(1e-12);
    println!("{what}");
    println!("  {against:<28} p10 {:>10.2?}  p50 {base:>10.2?}", at(baseline, 10));
    println!("  {:<28} p10 {:>10.2?}  p50 {time:>10.2?}", "this", at(measured, 10));
    println!("  {ratio:.3} times, {:?} more; {goal}", time.saturating_sub(base));
}
