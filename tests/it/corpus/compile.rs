//! Compiling small bad libraries with what a Rust toolchain brings along: `rustc`, and the C linker driver.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::forge::{record, record_text};

/// Compiles a C source.
pub fn compile_c(source: &str, output: &Path, arguments: &[&str]) {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-fPIC", "-x", "c", "-", "-o"]).arg(output).args(arguments);
    assert_compiled(&feed(command, source));
}

/// Compiles a Rust source that uses the SDK as it was built for these tests.
///
/// Cargo keeps old builds; the newest one whose dependencies are still there is taken.
pub fn compile_with_sdk<A: AsRef<OsStr>>(source: &str, arguments: &[A]) -> Output {
    let deps = crate::support::built_directory();
    let mut built: Vec<PathBuf> = std::fs::read_dir(&deps)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("libnexus_router_sdk-") && name.ends_with(".rlib")
        })
        .collect();
    built.sort_by_key(|path| std::fs::metadata(path).unwrap().modified().unwrap());
    let mut last = None;
    for sdk in built.iter().rev() {
        let mut command = rustc();
        command.arg("--extern").arg(extern_of(sdk)).arg("-L").arg(dependency_of(&deps));
        let output = feed(command_with(command, arguments), source);
        let text = String::from_utf8_lossy(&output.stderr);
        if !["E0460", "E0463", "E0786"].iter().any(|mismatch| text.contains(mismatch)) {
            return output;
        }
        last = Some(output);
    }
    last.expect("the SDK is built beside the tests")
}

/// Compiles a Rust source without dependencies.
pub fn compile_rust<A: AsRef<OsStr>>(source: &str, arguments: &[A]) {
    assert_compiled(&feed(command_with(rustc(), arguments), source));
}

pub fn assert_compiled(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn rustc() -> Command {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    command
        .env("CARGO_PKG_NAME", "compiled")
        .env("CARGO_PKG_VERSION", "0.0.0")
        .args(["--edition", "2024", "--crate-name", "compiled", "--crate-type", "cdylib"])
        .args(["-C", "strip=debuginfo", "-A", "warnings"]);
    command
}

fn command_with<A: AsRef<OsStr>>(mut command: Command, arguments: &[A]) -> Command {
    command.args(arguments).arg("-");
    command
}

fn extern_of(sdk: &Path) -> std::ffi::OsString {
    let mut text = std::ffi::OsString::from("nexus_router_sdk=");
    text.push(sdk);
    text
}

fn dependency_of(directory: &Path) -> std::ffi::OsString {
    let mut text = std::ffi::OsString::from("dependency=");
    text.push(directory);
    text
}

fn feed(mut command: Command, source: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut compiler = command
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run {}: {error}", command.get_program().display()));
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    compiler.wait_with_output().unwrap()
}

/// Returns a C source with what the pre-flight asks for: a record, and data under the factory's name.
pub fn c_adapter(rest: &str) -> String {
    let record = byte_list(&record(&record_text("create_adapter")));
    format!(
        "__attribute__((section(\".nexus_adapter\"), used))\n\
         static const unsigned char record[] = {{ {record} }};\n\
         long create_adapter[256] = {{ 1 }};\n{rest}\n"
    )
}

/// Returns a Rust source with what the pre-flight asks for.
pub fn rust_adapter(rest: &str) -> String {
    let bytes = record(&record_text("create_adapter"));
    format!(
        "#[used]\n#[unsafe(link_section = \".nexus_adapter\")]\n\
         static RECORD: [u8; {}] = [{}];\n\
         #[unsafe(no_mangle)]\npub static create_adapter: [u64; 256] = [1; 256];\n{rest}\n",
        bytes.len(),
        byte_list(&bytes)
    )
}

fn byte_list(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte},")).collect()
}
