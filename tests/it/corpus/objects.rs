//! Libraries that are well-formed files and do harm when they are opened.

use nexus_router::Loader;
use nexus_router::loader::{LoadRequest, Reason};
use serde_json::json;

use super::Corpus;
use super::compile::{
    assert_compiled, c_adapter, compile_c, compile_rust, compile_with_sdk, rust_adapter,
};

/// A case: its name, the C source after the record and the header, the reason, and what the error says.
type Case = (&'static str, &'static str, Reason, &'static str);

const OPENED: &str = "while it was opened";

const SOURCES: &[Case] = &[
    (
        "constructor_aborts",
        "#include <stdlib.h>\n__attribute__((constructor)) static void c(void) { abort(); }",
        Reason::LibraryCrashed,
        OPENED,
    ),
    (
        "constructor_exits_0",
        "#include <stdlib.h>\n__attribute__((constructor)) static void c(void) { exit(0); }",
        Reason::LibraryExited,
        "exit code 0",
    ),
    (
        "constructor_exits_5",
        "#include <unistd.h>\n__attribute__((constructor)) static void c(void) { _exit(5); }",
        Reason::LibraryExited,
        "exit code 5",
    ),
    (
        "constructor_segfaults",
        "__attribute__((constructor)) static void c(void) { *(volatile int *)8 = 1; }",
        Reason::LibraryCrashed,
        "SIGSEGV",
    ),
    (
        "constructor_divides_by_zero",
        "#include <signal.h>\n__attribute__((constructor)) static void c(void) { raise(SIGFPE); }",
        Reason::LibraryCrashed,
        "SIGFPE",
    ),
    (
        "constructor_kills_itself",
        "#include <signal.h>\n__attribute__((constructor)) static void c(void) { raise(SIGKILL); }",
        Reason::LibraryCrashed,
        "SIGKILL",
    ),
    (
        "constructor_says_why",
        "#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void c(void) \
         { fputs(\"no licence found\\n\", stderr); abort(); }",
        Reason::LibraryCrashed,
        "it printed: no licence found",
    ),
    (
        "constructor_talks_to_the_host",
        "#include <unistd.h>\n__attribute__((constructor)) static void c(void) \
         { for (int i = 3; i < 64; i++) if (write(i, \"\\x7f nonsense\\n{\\\"done\\\":7}\\n\", 24)) {} \
         _exit(0); }",
        Reason::LibraryCrashed,
        "broke the rules of its wire",
    ),
    (
        "undefined_symbol",
        "extern int nobody_defines_this(void); int f(void) { return nobody_defines_this(); }",
        Reason::UnresolvedSymbol,
        "nobody_defines_this",
    ),
    ("header_forged_in_c", "/* the header is a number and zeroes */", Reason::AbiMismatch, ""),
];

fn assert_refused(corpus: &Corpus, loader: &Loader, (name, source, reason, says): &Case) {
    compile_c(&c_adapter(source), &corpus.file(name), &["-shared"]);
    let factory_ref = format!("{name}:create_adapter");
    corpus.assert_refused(loader, &factory_ref, &json!({}), *reason, says);
}

#[test]
fn harm_while_opening_is_caught_in_the_child() {
    let corpus = Corpus::new();
    for case in SOURCES {
        assert_refused(&corpus, &corpus.loader, case);
    }
}

/// Constructors that never come back.
const ENDLESS: &[(&str, &str)] = &[
    (
        "constructor_loops",
        "__attribute__((constructor)) static void c(void) { for (;;) __asm__ volatile(\"\"); }",
    ),
    (
        "constructor_prints_without_end",
        "#include <unistd.h>\nstatic char b[65536];\n__attribute__((constructor)) static void c(void) \
         { for (;;) if (write(1, b, sizeof b)) {} }",
    ),
    (
        "constructor_talks_without_end",
        "#include <unistd.h>\nstatic char b[65536];\n__attribute__((constructor)) static void c(void) \
         { for (int i = 0; i < 65536; i += 2) b[i] = '\\n'; \
         for (;;) for (int i = 3; i < 8; i++) if (write(i, b, sizeof b)) {} }",
    ),
];

#[test]
fn constructors_that_never_come_back_are_ended() {
    let corpus = Corpus::new();
    let loader = corpus.impatient();
    std::thread::scope(|scope| {
        for (name, source) in ENDLESS {
            let (corpus, loader) = (&corpus, &loader);
            let case = (*name, *source, Reason::LibraryTimedOut, "did not answer within 3s");
            scope.spawn(move || assert_refused(corpus, loader, &case));
        }
    });
}

#[test]
fn constructor_that_closes_the_wire_is_caught_in_the_child() {
    let corpus = Corpus::new();
    let source = "#include <unistd.h>\n__attribute__((constructor)) static void c(void) \
                  { for (int i = 0; i < 64; i++) close(i); }";
    compile_c(&c_adapter(source), &corpus.file("closing"), &["-shared"]);
    let (factory_ref, config) = ("closing:create_adapter", json!({}));
    let request = LoadRequest { factory_ref, adapter_id: None, config: &config, pin: None };
    // With debug assertions the child's own descriptors abort it; without, it cannot speak and ends.
    let reason = corpus.loader.load(&request).unwrap_err().reason();
    assert!([Reason::LibraryCrashed, Reason::LibraryExited].contains(&reason), "{reason:?}");
    corpus.assert_host_goes_on(factory_ref);
}

#[test]
fn missing_dependency_is_named() {
    let corpus = Corpus::new();
    let dependency = corpus.world.path("libnot_installed.so");
    compile_c("int f(void) { return 1; }", &dependency, &["-shared"]);
    let source = c_adapter("int f(void); int g(void) { return f(); }");
    let directory = corpus.world.directory.path().to_str().unwrap();
    let arguments = ["-shared", "-L", directory, "-lnot_installed"];
    compile_c(&source, &corpus.file("dependent"), &arguments);
    std::fs::remove_file(&dependency).unwrap();
    let reason = Reason::MissingDependency;
    let factory_ref = "dependent:create_adapter";
    corpus.assert_refused(&corpus.loader, factory_ref, &json!({}), reason, "libnot_installed.so");
}

#[test]
fn constructor_that_panics_is_caught_in_the_child() {
    let corpus = Corpus::new();
    let source = rust_adapter(
        "#[used]\n#[unsafe(link_section = \".init_array\")]\n\
         static CONSTRUCTOR: extern \"C\" fn() = constructor;\n\
         extern \"C\" fn constructor() { panic!(\"not like this\"); }",
    );
    let file = corpus.file("constructor_panics");
    compile_rust(&source, &["-o".as_ref(), file.as_os_str()]);
    let reason = Reason::LibraryCrashed;
    corpus.assert_refused(
        &corpus.loader,
        "constructor_panics:create_adapter",
        &json!({}),
        reason,
        OPENED,
    );
}

/// An adapter whose factory panics; what exports it is put behind.
const PANICKING: &str = r#"
use nexus_router_sdk::{Adapter, AdapterError, CallContext, Capability, Object};
struct Panicking;
impl Adapter for Panicking {
    fn adapter_id(&self) -> &str { "p" }
    fn adapter_kind(&self) -> &str { "p" }
    fn capabilities(&self) -> &[Capability] { &[] }
    fn call(&self, _: &CallContext, _: &str, _: &str, args: Object) -> Result<Object, AdapterError> {
        Ok(args)
    }
}
fn make(_: Option<&str>, _: Object) -> Result<Panicking, AdapterError> { panic!("no guard helps") }
"#;

/// What `export_adapter!` expands to, without its refusal of `panic = "abort"`.
const FORGED_EXPORT: &str = r#"
use nexus_router_sdk::{Host, exported, metadata};
const ORIGIN: metadata::Origin =
    metadata::Origin { package: "p", version: "0", factory: "create_adapter" };
#[used]
#[unsafe(link_section = ".nexus_adapter")]
static RECORD: [u8; metadata::record_len(&ORIGIN, None)] = metadata::record(&ORIGIN, None);
struct Exported;
impl exported::Export for Exported {
    const NAME: &'static str = "create_adapter";
    fn create(id: Option<&str>, config: &str, host: Host) -> Result<impl Adapter, AdapterError> {
        exported::create(&make, id, config, host)
    }
}
#[unsafe(no_mangle)]
pub static create_adapter: exported::LibHeader = exported::header::<Exported>();
"#;

#[test]
fn adapter_that_aborts_on_panic_does_not_compile() {
    let corpus = Corpus::new();
    let source = format!("{PANICKING}\nnexus_router_sdk::export_adapter!(make);\n");
    let metadata = corpus.world.path("compiled.rmeta").into_os_string();
    let compile = |panic: &str| {
        let emit = ["--emit".as_ref(), "metadata".as_ref(), "-o".as_ref(), metadata.as_os_str()];
        let strategy = [std::ffi::OsStr::new("-C"), panic.as_ref()];
        compile_with_sdk(&source, &[&emit[..], &strategy[..]].concat())
    };
    assert_compiled(&compile("panic=unwind"));
    let refused = compile("panic=abort");
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "it compiled");
    assert!(text.contains("nexus-router adapters need panic = \"unwind\""), "{text}");
}

#[test]
fn adapter_that_aborts_on_panic_anyway_is_caught_in_the_child() {
    let corpus = Corpus::new();
    let file = corpus.file("aborting");
    let arguments = ["-C".as_ref(), "panic=abort".as_ref(), "-o".as_ref(), file.as_os_str()];
    assert_compiled(&compile_with_sdk(&format!("{PANICKING}{FORGED_EXPORT}"), &arguments));
    let factory_ref = "aborting:create_adapter";
    let reason = Reason::LibraryCrashed;
    corpus.assert_refused(&corpus.loader, factory_ref, &json!({}), reason, "in its factory");
}
