//! Kernels that lack a part of what confinement needs: told of, and refused unless that is accepted.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::Command;

use nexus_router::Call;
use nexus_router::Strictness;
use nexus_router::check::validate;
use nexus_router::grant::{Feature, Grants};
use nexus_router_sdk::Object;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use serde_json::json;

use crate::support::{Run, World, built_directory};

use super::{EACCES, Stage, nothing, program, request};

const ENOSYS: u32 = 38;
const EOPNOTSUPP: u32 = 95;

/// Makes the kernel answer a call with an error to `work` and to whatever it starts, if a condition holds.
fn on_kernel_without<T: Send>(
    number: i64,
    condition: Option<SeccompCondition>,
    errno: u32,
    work: impl FnOnce() -> T + Send,
) -> T {
    let rules = condition.map(|condition| SeccompRule::new(vec![condition]).unwrap());
    let rules = BTreeMap::from([(number, rules.into_iter().collect())]);
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let filter: BpfProgram = filter.unwrap().try_into().unwrap();
    std::thread::scope(|scope| {
        // A filter is in force for the thread that asks for it, and for the processes that it starts.
        let thread = scope.spawn(|| {
            seccompiler::apply_filter(&filter).unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

pub(crate) fn without_landlock<T: Send>(errno: u32, work: impl FnOnce() -> T + Send) -> T {
    on_kernel_without(libc_number("landlock_create_ruleset"), None, errno, work)
}

pub(crate) fn without_seccomp<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    on_kernel_without(libc_number("seccomp"), None, ENOSYS, work)
}

/// Without notices, but with filters.
pub(crate) fn without_notices<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    const NEW_LISTENER: u64 = 8;
    let listener = SeccompCmpOp::MaskedEq(NEW_LISTENER);
    let condition = SeccompCondition::new(1, SeccompCmpArgLen::Dword, listener, NEW_LISTENER);
    on_kernel_without(libc_number("seccomp"), Some(condition.unwrap()), ENOSYS, work)
}

/// With Landlock, which does not tell what was mended in it, as before Linux 6.15.
pub(crate) fn without_errata<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    const EINVAL: u32 = 22;
    const ERRATA: u64 = 1 << 1;
    let asked = SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, ERRATA);
    let number = libc_number("landlock_create_ruleset");
    on_kernel_without(number, Some(asked.unwrap()), EINVAL, work)
}

/// Asserts that the facts of a sandbox say what was mended in Landlock, if this kernel does.
pub(crate) fn assert_errata(sandbox: &serde_json::Value) {
    let told = sandbox.get("landlock_errata").unwrap_or_else(|| panic!("{sandbox}"));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = kernel.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) >= (Some(6), Some(15)) {
        assert!(told.is_u64(), "{sandbox}");
    } else {
        assert!(told.is_u64() || told.is_null(), "{sandbox}");
    }
}

/// Returns the number of a system call on this machine.
fn libc_number(name: &str) -> i64 {
    match (name, std::env::consts::ARCH) {
        ("landlock_create_ruleset", _) => 444,
        ("seccomp", "x86_64") => 317,
        ("seccomp", _) => 277,
        _ => panic!("no number of {name} is known"),
    }
}

/// Returns why an attempt was not even begun.
fn refusal(stage: &Stage) -> String {
    let (request, args) = (request("escapes"), Object::new());
    let tried = stage.loader.try_call(&request.load(), &Call::new("escape", "fork", &args));
    tried.map(|trial| format!("{trial:?}")).unwrap_err().to_string()
}

/// Returns what validation says of the confinement.
fn told(stage: &Stage) -> String {
    let validation = validate(&stage.loader, &request("escapes").load(), Strictness::Strict);
    let checks = validation.unwrap().checks;
    checks.into_iter().find(|check| check.id == "TRIED_CONFINED").unwrap().message
}

#[test]
fn without_landlock_nothing_is_tried_unless_that_is_accepted() {
    let mut stage = Stage::new(nothing);
    for errno in [ENOSYS, EOPNOTSUPP] {
        let refused = without_landlock(errno, || refusal(&stage));
        assert!(refused.contains("lacks landlock"), "{refused}");
    }
    stage.loader.placement.accept_missing = vec![Feature::Landlock];
    let told = without_landlock(ENOSYS, || told(&stage));
    assert_eq!(told, "Landlock none, seccomp full; missing: landlock");
    let answer = without_landlock(ENOSYS, || stage.dry_attempt("fork", &json!({})));
    assert_eq!(answer["errno"], 1);
}

#[test]
fn without_seccomp_nothing_is_tried_unless_that_is_accepted() {
    let mut stage = Stage::new(nothing);
    let refused = without_seccomp(|| refusal(&stage));
    assert!(refused.contains("lacks seccomp"), "{refused}");
    stage.loader.placement.accept_missing = vec![Feature::Seccomp];
    let told = without_seccomp(|| told(&stage));
    let expected = "Landlock full, seccomp none; missing: seccomp; side effects that it denied were not observed";
    assert_eq!(told, expected);
}

#[test]
fn programs_need_the_scope_of_landlock_too() {
    let stage = Stage::new(|_| Grants {
        run: vec![std::fs::canonicalize("/bin/sh").unwrap()],
        ..Grants::default()
    });
    let refused = without_landlock(ENOSYS, || refusal(&stage));
    assert!(refused.contains("lacks landlock, landlock-scope"), "{refused}");
}

#[test]
fn without_notices_a_grant_holds_for_its_port_if_that_is_accepted() {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [granted, other] = listeners.each_ref().map(|one| one.local_addr().unwrap().port());
    let mut stage = Stage::new(|_| Grants {
        connect: vec![format!("127.0.0.1:{granted}").parse().unwrap()],
        ..Grants::default()
    });
    let refused = without_notices(|| refusal(&stage));
    assert!(refused.contains("lacks seccomp-notify"), "{refused}");
    stage.loader.placement.accept_missing = vec![Feature::SeccompNotify];
    let connect = |stage: &Stage, port: u16| {
        let args = json!({ "port": port });
        without_notices(|| stage.dry_attempt("tcp_connect", &args)["errno"].as_i64().unwrap())
    };
    assert_eq!(connect(&stage, granted), 0);
    assert_eq!(connect(&stage, other), EACCES);
    let any = Grants { connect: vec!["*:*".parse().unwrap()], ..Grants::default() };
    stage.loader.placement.grants = any;
    assert_eq!(connect(&stage, other), 0);
}

#[test]
fn configured_adapter_fails_where_the_kernel_cannot_confine_it() {
    let world = World::new();
    let run = |more: &str| {
        let config = format!("[[adapters]]\nref = 'escape_adapters:escapes'\n{more}");
        std::fs::write(world.path("router.toml"), config).unwrap();
        let call = json!({ "tool": "escape", "method": "fork", "args": {} });
        let request = json!({ "goal": "x", "mode": "apply", "policy": { "allow_apply": true },
            "plan_override": [{ "step_id": "s", "intent": "i", "call": call }] });
        std::fs::write(world.path("request.json"), request.to_string()).unwrap();
        let mut command = Command::new(program());
        command
            .args(["run", "request.json", "--db", "runs.db", "--format", "json"])
            .current_dir(world.directory.path())
            .env_clear()
            .env("NEXUS_ROUTER_CACHE_DIR", world.path("cache"))
            .env("NEXUS_ROUTER_ADAPTER_PATH", built_directory());
        Run(without_landlock(ENOSYS, || command.output().unwrap()))
    };
    let refused = run("");
    assert_eq!(refused.code(), 1, "{}", refused.stderr());
    let error = refused.json()["error"].clone();
    assert_eq!(error["code"], "ADAPTER_UNAVAILABLE", "{error}");
    assert!(error["message"].as_str().unwrap().contains("SANDBOX_UNAVAILABLE"), "{error}");
    assert!(refused.stderr().contains("the kernel lacks landlock"), "{}", refused.stderr());
    let accepted = run("[workers]\naccept_missing = ['landlock']\n");
    assert_eq!(accepted.code(), 0, "{}", accepted.stderr());
    let inline = run("isolation = 'inline'\n");
    assert_eq!(inline.code(), 0, "{}", inline.stderr());
}
