//! What a translation costs: documents of several sizes through the core, and through a translator inline, each
//! beside only copying the bytes.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints, and fails loudly"
)]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nexus_router::config::Environment;
use nexus_router::grant::Isolation;
use nexus_router::{Adapter, Call, LoadRequest, Loader};
use nexus_router_sdk::Object;
use nexus_router_sdk::translate::{Setting, Translator, target};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nexus-router");

fn main() {
    // `cargo bench -- --smoke` only shows that everything runs.
    let smoke = std::env::args().any(|argument| argument == "--smoke");
    let rounds = if smoke { 1 } else { 40 };
    let directory = tempfile::tempdir().unwrap();
    let inline = inline(directory.path());
    for bytes in [4 * 1024, 64 * 1024, 1024 * 1024] {
        let document = document(bytes);
        let calls = if smoke { 1 } else { (8 * 1024 * 1024 / document.len()).clamp(4, 1000) };
        measure(&document, rounds, calls, &inline);
    }
}

/// A document of about so many bytes: words of several scripts, escapes, and a tool per two kilobytes.
fn document(bytes: usize) -> String {
    let text = "Précis: \\\"quoted\\\" \\n 天気は? The weather in Minsk is mild, and so it goes on for a while. ";
    let message = format!("{{\"content\":\"{}\",\"role\":\"user\"}}", text.repeat(8));
    let tool = |n: usize| {
        format!(
            "{{\"function\":{{\"description\":\"Function: f{n}\",\"name\":\"f{n}\",\"parameters\":{{\"properties\":\
             {{\"city\":{{\"enum\":[\"Minsk\",null,1.5],\"type\":\"string\"}},\"days\":{{\"type\":\"integer\"}}}},\
             \"required\":[\"city\",\"days\"],\"type\":\"object\"}}}},\"type\":\"function\"}}"
        )
    };
    let tools: Vec<String> = (0..(bytes / 2048).clamp(1, 100)).map(tool).collect();
    let tools = tools.join(",");
    let count = (bytes.saturating_sub(tools.len() + 400) / message.len()).max(1);
    let messages = vec![message; count].join(",");
    format!(
        "{{\"messages\":[{messages}],\"metadata\":{{\"budget_units\":4096,\"document_hash\":\"sha256:00\",\
         \"facet_version\":\"2.1.3\",\"host_profile_id\":\"local.default.v1\",\"mode\":\"pure\",\"policy_hash\":null,\
         \"policy_version\":\"1\",\"profile\":\"hypervisor\",\"target_provider_id\":\"anthropic\"}},\"tools\":[{tools}]}}"
    )
}

fn binding() -> Value {
    json!({ "api_version": "2026-10-21", "model": "claude-sonnet-5", "max_tokens": 1024 })
}

fn inline(directory: &Path) -> Adapter {
    let mut loader = Loader::from_environment(&Environment {
        adapter_path: vec![built_directory()],
        cache_dir: directory.join("cache"),
        helper: Some(PROGRAM.into()),
        ..Environment::default()
    });
    loader.placement.isolation = Isolation::Inline;
    let factory_ref = "nexus_router_adapter_anthropic:create_adapter";
    let request = LoadRequest { factory_ref, adapter_id: None, config: &binding(), pin: None };
    loader.load(&request).unwrap()
}

fn built_directory() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn measure(document: &str, rounds: usize, calls: usize, inline: &Adapter) {
    let settings = [
        ("api_version", Setting::Text("2026-10-21".into())),
        ("model", Setting::Text("claude-sonnet-5".into())),
        ("max_tokens", Setting::Number(1024)),
    ];
    let translator = Translator::new(target::ANTHROPIC, settings).unwrap();
    let args = Object::from_iter([("document".to_owned(), document.into())]);
    let call = Call::new("translate", "render", &args);
    let payload = translator.render(document.as_bytes()).unwrap().payload;
    assert_eq!(inline.call(&call).unwrap()["payload"], payload.as_str());

    let time = |work: &dyn Fn()| {
        let begun = Instant::now();
        (0..calls).for_each(|_| work());
        begun.elapsed() / u32::try_from(calls).unwrap()
    };
    let copy = || drop(black_box(black_box(document).to_owned()));
    let core = || drop(black_box(translator.render(black_box(document.as_bytes()))));
    let whole = || drop(black_box(inline.call(black_box(&call))));
    // In turns, so that a busy machine slows all of them.
    let mut times: [Vec<Duration>; 3] = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        times[0].push(time(&copy));
        times[1].push(time(&core));
        times[2].push(time(&whole));
    }
    let [copied, core, whole] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    let speed = |took: Duration| document.len() as f64 / took.as_secs_f64() / 1e6;
    println!(
        "{} bytes: core {core:?} ({:.0} MB/s), inline {whole:?} ({:.0} MB/s; goals: 100 MB/s, 4 kB in 30 us), {:.0} \
         and {:.0} times as long as copying them",
        document.len(),
        speed(core),
        speed(whole),
        core.as_secs_f64() / copied.as_secs_f64(),
        whole.as_secs_f64() / copied.as_secs_f64()
    );
}
