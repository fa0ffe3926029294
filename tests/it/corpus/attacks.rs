//! Libraries and surroundings that attack the host: what was once possible, and must not be again.

use std::process::Command;
use std::time::{Duration, Instant};

use nexus_router::loader::{LoadRequest, Reason};
use serde_json::json;

use super::Corpus;
use super::compile::{c_adapter, compile_c};
use crate::support::PROGRAM;

/// Time for a library that ends by itself, on whatever machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Tries to get away from the host, its limits and its terminal; prints what worked, and ends.
const GET_AWAY: &str = r#"
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void worked(const char *what) { fprintf(stderr, "%s, ", what); }

__attribute__((constructor)) static void c(void) {
    char path[64], line[256];
    long flags;
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_code = SI_QUEUE;
    pid_t parent = getppid();
    if (setpgid(0, getpgid(parent)) == 0) worked("setpgid");
    if (setsid() != -1) worked("setsid");
    if (prctl(PR_SET_PDEATHSIG, 0) == 0) worked("death signal");
    if (open("/dev/tty", O_RDWR) >= 0) worked("terminal");
    if (kill(parent, 0) == 0) worked("kill");
    if (syscall(SYS_tgkill, parent, parent, 0) == 0) worked("tgkill");
    if (syscall(SYS_tkill, parent, 0) == 0) worked("tkill");
    if (syscall(SYS_rt_sigqueueinfo, parent, 0, &info) == 0) worked("queued signal");
    struct rlimit limit;
    if (syscall(SYS_prlimit64, parent, RLIMIT_CPU, 0, &limit) == 0) worked("prlimit");
    int file = open("/", O_RDONLY);
    if (ioctl(file, FS_IOC_GETFLAGS, &flags) == 0) worked("file attributes");
    snprintf(path, sizeof path, "/proc/%d/environ", parent);
    if (open(path, O_RDONLY) >= 0) worked("parent's environment");
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "CapEff:", 7) && strtoull(line + 7, 0, 16)) worked("capabilities");
    fprintf(stderr, "nothing more worked\n");
    _exit(7);
}
"#;

/// Waits for ever, after it tried to leave the group by which it could be killed.
const HIDE_AND_WAIT: &str = r"
#include <signal.h>
#include <unistd.h>
__attribute__((constructor)) static void c(void) {
    for (int s = 1; s < 65; s++) signal(s, SIG_IGN);
    setpgid(0, getpgid(getppid()));
    for (;;) pause();
}
";

/// Speaks as a child does: a kind, an id, and a text, in pieces if it is long.
const SPEAK: &str = r"
#include <stdint.h>
#include <string.h>
#include <unistd.h>
static void frame(const char *text, uint32_t total, uint32_t offset, uint32_t length) {
    static char message[1 << 16];
    memset(message, 0, 18);
    message[0] = 9;
    message[9] = 5;
    memcpy(message + 10, &total, 4);
    memcpy(message + 14, &offset, 4);
    memcpy(message + 18, text + offset, length);
    if (write(3, message, 18 + length)) {}
}
static void speak(const char *text) {
    uint32_t total = strlen(text);
    for (uint32_t at = 0; at < total; at += 60000)
        frame(text, total, at, total - at < 60000 ? total - at : 60000);
}
";

fn says(text: &str) -> String {
    let bytes: Vec<String> = text.bytes().chain([0]).map(|byte| byte.to_string()).collect();
    format!(
        "{SPEAK}\nstatic const char text[] = {{ {} }};\n\
         __attribute__((constructor)) static void c(void) {{ speak(text); _exit(0); }}",
        bytes.join(",")
    )
}

/// Loads what must be refused. Only a library that never ends needs a short time; for the others, a busy
/// machine may need a long one.
fn refused(
    corpus: &Corpus,
    name: &str,
    source: &str,
    time: Duration,
) -> nexus_router::AdapterLoadError {
    compile_c(&c_adapter(source), &corpus.file(name), &["-shared"]);
    let factory_ref = format!("{name}:create_adapter");
    let config = json!({});
    let request =
        LoadRequest { factory_ref: &factory_ref, adapter_id: None, config: &config, pin: None };
    let mut loader = corpus.loader.clone();
    loader.limits.time = time;
    let error = loader.load(&request).unwrap_err();
    corpus.assert_host_goes_on(name);
    error
}

#[test]
fn library_cannot_get_away() {
    let error = refused(&Corpus::new(), "get_away", GET_AWAY, PATIENCE);
    assert_eq!(error.reason(), Reason::LibraryExited);
    let told = error.to_string();
    let (printed, denied) = told.split_once("; the sandbox denied ").unwrap();
    assert!(printed.ends_with("it printed: nothing more worked"), "{error}");
    for attempt in ["setsid", "setpgid", "process setting: 1 of prctl", "write: /dev/tty"] {
        assert!(denied.contains(attempt), "{attempt} is not in {denied}");
    }
}

#[test]
fn library_that_hides_and_waits_is_ended() {
    let start = Instant::now();
    let error = refused(&Corpus::new(), "hide_and_wait", HIDE_AND_WAIT, Duration::from_secs(3));
    assert_eq!(error.reason(), Reason::LibraryTimedOut);
    assert!(start.elapsed() < Duration::from_secs(60), "the host waited for it");
}

#[test]
fn child_does_not_outlive_a_host_that_is_killed() {
    let corpus = Corpus::new();
    compile_c(&c_adapter(HIDE_AND_WAIT), &corpus.file("left_behind"), &["-shared"]);
    let mut host = Command::new(PROGRAM)
        .args(["adapter", "validate", "left_behind:create_adapter", "--time-limit", "600"])
        .env_clear()
        .env("NEXUS_ROUTER_ADAPTER_PATH", corpus.world.directory.path())
        .env("NEXUS_ROUTER_CACHE_DIR", corpus.world.path("cache"))
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", host.id());
    let child = eventually("the child starts", || {
        let children = std::fs::read_to_string(&children).unwrap_or_default();
        let child = children.split_whitespace().next().map(|pid| format!("/proc/{pid}/status"))?;
        // It has confined itself, so it is about to wait in the library, or does so.
        std::fs::read_to_string(&child).ok()?.contains("Seccomp:\t2").then_some(child)
    });
    host.kill().unwrap();
    host.wait().unwrap();
    eventually("the child ends", || {
        // Whoever inherits it may leave it unburied for a while.
        let status = std::fs::read_to_string(&child).unwrap_or_default();
        (status.is_empty() || status.contains("State:\tZ")).then_some(())
    });
}

/// Waits for something that must come, for as long as a very slow machine may need.
fn eventually<T>(what: &str, check: impl Fn() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn text_of_a_length_that_nobody_has_is_refused() {
    let source = format!(
        "{SPEAK}\n__attribute__((constructor)) static void c(void) \
         {{ frame(\"{{\", 0xffffffff, 0, 1); for (;;) pause(); }}"
    );
    let error = refused(&Corpus::new(), "endless_text", &source, PATIENCE);
    assert_eq!(error.reason(), Reason::LibraryCrashed);
    assert!(error.to_string().contains("a longer text than there may be"), "{error}");
}

#[test]
fn large_message_that_is_no_answer_is_not_read() {
    // Short enough to be taken as a text, and long enough to be worth a hundred times its length.
    let source = format!(
        r#"{SPEAK}
        static char block[3 << 20];
        __attribute__((constructor)) static void c(void) {{
            strcpy(block, "{{\"done\":{{\"description\":\"[");
            for (unsigned i = strlen(block); i + 200 < sizeof block; i += 3) memcpy(block + i, "{{}},", 3);
            strcat(block, "0]\",\"side_effects\":[],\"second_instance\":null}}}}");
            speak(block);
            _exit(0);
        }}"#
    );
    let error = refused(&Corpus::new(), "large_message", &source, PATIENCE);
    assert_eq!(error.reason(), Reason::LibraryExited);
}

#[test]
fn child_can_only_say_what_opening_can_end_with() {
    let refusal = json!({"refused": {"reason": "CACHE_UNUSABLE", "text": "x"}});
    let error = refused(&Corpus::new(), "forged_reason", &says(&refusal.to_string()), PATIENCE);
    assert_eq!(error.reason(), Reason::OpenFailed);
}

#[test]
fn library_writes_no_lines_of_its_own_to_the_terminal() {
    let corpus = Corpus::new();
    let failure = json!({"kind": "operational", "code": "X", "details": {},
        "message": "a\n::error::forged\nhint: run this \u{1b}[31m"});
    let message = json!({"factory_failed": {"error": failure.to_string()}});
    compile_c(&c_adapter(&says(&message.to_string())), &corpus.file("lines"), &["-shared"]);
    for arguments in
        [&["try", "lines:create_adapter", "t", "m"][..], &["validate", "lines:create_adapter"]]
    {
        let path = corpus.world.directory.path().to_str().unwrap();
        let run = corpus.world.run(&[&["adapter"], arguments, &["--adapter-path", path]].concat());
        let shown = run.stdout() + &run.stderr();
        assert!(shown.contains("forged"), "{shown}");
        assert!(!shown.lines().any(|line| line.starts_with("::error")), "{shown}");
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }
}

#[test]
fn surroundings_do_not_change_the_answer() {
    let corpus = Corpus::new();
    let shell = |script: &str| {
        let status = Command::new("sh")
            .args(["-c", script])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("ROUTER", PROGRAM)
            .env("NEXUS_ROUTER_ADAPTER_PATH", crate::support::built_directory())
            .env("NEXUS_ROUTER_CACHE_DIR", corpus.world.path("cache"))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status();
        status.unwrap().code()
    };
    let echo = "nexus_router_adapter_echo:create_adapter";
    // A host whose children leave no status; standard error and output that take nothing; no reader.
    // Not by a trap: there are shells that do not leave this one ignored.
    let ignoring = "exec env --ignore-signal=CHLD \"$ROUTER\"";
    assert_eq!(shell(&format!("{ignoring} adapter validate {echo}")), Some(0));
    assert_eq!(shell("exec \"$ROUTER\" adapter try nope:f t m 2>/dev/full"), Some(2));
    assert_eq!(shell(&format!("exec \"$ROUTER\" adapter validate {echo} >/dev/full")), Some(2));
    let piped = "{ \"$ROUTER\" adapter validate nope:f; echo $? >&3; } 3>\"$NEXUS_ROUTER_CACHE_DIR.code\" | true";
    assert_eq!(shell(piped), Some(0));
    let code = std::fs::read_to_string(corpus.world.path("cache.code")).unwrap();
    assert_eq!(code.trim(), "1", "a reader that has gone does not change the answer");
}

#[test]
fn library_cannot_choose_any_file_to_be_opened_with_it() {
    let corpus = Corpus::new();
    let other = corpus.world.path("libother.so");
    compile_c("int other(void) { return 1; }", &other, &["-shared"]);
    let source = c_adapter("extern int other(void); int f(void) { return other(); }");
    let directory = corpus.world.directory.path().to_str().unwrap();
    let asks = [
        ("by_path", vec!["-x", "none", other.to_str().unwrap()], "by its path"),
        ("beside_it", vec!["-L", directory, "-lother", "-Wl,-rpath,$ORIGIN"], "not absolute"),
        ("audited", vec!["-Wl,-z,lazy", "-Wl,--audit=/tmp/x.so"], "stand in"),
    ];
    for (name, arguments, says) in asks {
        let arguments = [&["-shared", "-Wl,--no-as-needed"][..], &arguments].concat();
        let source = if name == "audited" { c_adapter("") } else { source.clone() };
        compile_c(&source, &corpus.file(name), &arguments);
        let (factory_ref, config) = (format!("{name}:create_adapter"), json!({}));
        corpus.assert_refused(
            &corpus.loader,
            &factory_ref,
            &config,
            Reason::UnsafeDependency,
            says,
        );
    }
}

#[test]
fn pipe_in_the_cache_is_replaced() {
    let corpus = Corpus::new();
    let (factory_ref, config) = ("good:create_adapter", json!({}));
    let request = LoadRequest { factory_ref, adapter_id: None, config: &config, pin: None };
    let digest = corpus.loader.load(&request).unwrap().digest().unwrap();
    let copy = corpus.loader.cache_dir.join(format!("libraries/{digest}.so"));
    std::fs::remove_file(&copy).unwrap();
    assert!(Command::new("mkfifo").arg(&copy).status().unwrap().success());
    assert_eq!(corpus.loader.load(&request).unwrap().digest(), Some(digest));
    assert!(copy.symlink_metadata().unwrap().is_file());
}

#[test]
fn library_cannot_say_how_its_process_ended() {
    let source = "#include <unistd.h>\n__attribute__((constructor)) static void c(void) {\n\
         static const char ended[] = \"\\x0a\\0\\0\\0\\0\\0\\0\\0\\0code 0\";\n\
         if (write(3, ended, sizeof ended - 1)) {}\n_exit(7); }";
    let error = refused(&Corpus::new(), "own_epitaph", source, PATIENCE);
    assert_eq!(error.reason(), Reason::LibraryExited);
    assert!(error.to_string().contains("exit code 7"), "{error}");
}
