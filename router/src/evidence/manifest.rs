//! The manifest of a bundle: which files it has, each with its digest.

use std::collections::BTreeMap;

use super::canonical::{self, Domain};
use super::finding::{Finding, Findings, below};
use super::name;
use super::reader::{self, Reader};
use crate::digest::Digest;
use crate::json::Limits;

/// The revision of the role contract whose layout this is.
pub const VALIDATES: &str = "1.1.0";

/// The file that is the manifest.
pub const MANIFEST: &str = "manifest.sha256.json";
/// The file that is the spec of an execution.
pub const SPEC: &str = "exec_spec.json";
/// The file of what was written to standard output.
pub const STDOUT: &str = "stdout.txt";
/// The file of what was written to standard error.
pub const STDERR: &str = "stderr.txt";
/// The file that sums an execution up.
pub const SUMMARY: &str = "run_summary.json";
/// The file that says what was refused.
pub const REJECTION: &str = "rejection.json";
/// The file that is a plan.
pub const PLAN: &str = "plan_manifest.sha256.json";
/// The directory of what came out.
pub const OUTPUTS: &str = "outputs";
/// The manifest of the inputs, among the outputs.
pub const INPUTS: &str = "inputs.manifest.json";
/// The normalized output of the adapter, among the outputs.
pub const PARSED: &str = "parsed.json";
/// The directory of what differs between equal executions; no manifest covers it.
pub const VOLATILE: &str = "volatile";
/// What normalization took out, among the volatile.
pub const REMOVED: &str = "removed.json";
/// The file of the attestation.
pub const ATTESTATION: &str = "attestation.intoto.jsonl";
/// The file of the proof that the log has it.
pub const PROOF: &str = "inclusion.tlog-proof";

/// The files beside a manifest that it does not list; nor does it list anything in [`VOLATILE`].
pub const OUTER: [&str; 4] = [MANIFEST, SUMMARY, ATTESTATION, PROOF];

/// A bundle has at most so many files.
pub const MOST_FILES: usize = 65_536;
/// A larger manifest is none.
pub const LIMITS: Limits = Limits { bytes: 32 << 20, depth: 3, values: MOST_FILES + 2 };

/// Which files there are, each with its digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest(BTreeMap<String, Digest>);

impl Manifest {
    /// Takes files by name.
    ///
    /// # Errors
    /// `bad_name` for a name that may not be the name of a file, `too_many_files`.
    pub fn new(files: BTreeMap<String, Digest>) -> Result<Self, Findings> {
        let mut findings = Findings::default();
        for name in files.keys().filter(|name| !is_listed(name)) {
            findings.push(bad_name(name, EXPECTED));
        }
        if files.len() > MOST_FILES {
            findings.push(too_many());
        }
        findings.or(Some(Self(files)))
    }

    pub(super) const fn unchecked(files: BTreeMap<String, Digest>) -> Self {
        Self(files)
    }

    /// Reads the canonical text.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Findings> {
        read(bytes, &is_listed, EXPECTED).map(Self)
    }

    /// Returns the files by name.
    #[must_use]
    pub const fn files(&self) -> &BTreeMap<String, Digest> {
        &self.0
    }

    /// Returns the canonical text: the bytes of `manifest.sha256.json`.
    #[must_use]
    pub fn text(&self) -> String {
        text(&self.0)
    }

    /// Returns `manifest_sha256`.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.text().as_bytes())
    }
}

const EXPECTED: &str = "a relative path of A-Z, a-z, 0-9, '.', '_' and '-', and none of the files \
                        that no manifest lists";

fn is_listed(name: &str) -> bool {
    name::is_output(name)
        && !OUTER.contains(&name)
        && name.split('/').next().is_some_and(|first| first != VOLATILE)
}

fn bad_name(name: &str, expected: &str) -> Finding {
    Finding::new("bad_name", name, below("/files", name), format!("it must be {expected}"))
}

fn too_many() -> Finding {
    Finding::new("too_many_files", "", "/files", format!("there may be at most {MOST_FILES} files"))
}

/// Writes a manifest: its names are ASCII without anything that JSON escapes but quotes and backslashes.
pub(super) fn text(files: &BTreeMap<String, Digest>) -> String {
    let mut text = String::with_capacity(12 + files.len() * 96);
    text.push_str("{\"files\":{");
    for (index, (name, digest)) in files.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push('"');
        for c in name.chars() {
            if matches!(c, '"' | '\\') {
                text.push('\\');
            }
            text.push(c);
        }
        text.push_str("\":\"");
        text.push_str(&digest.to_string());
        text.push('"');
    }
    text.push_str("}}");
    text
}

/// Reads a manifest whose names a test accepts.
pub(super) fn read(
    bytes: &[u8],
    test: &dyn Fn(&str) -> bool,
    expected: &str,
) -> Result<BTreeMap<String, Digest>, Findings> {
    let value = canonical::read(bytes, LIMITS, Domain::Control)?;
    let mut findings = Findings::default();
    let mut files = BTreeMap::new();
    if let Some(mut reader) = Reader::closed(&value, "", &["files"], &mut findings) {
        let listed = reader.object_at("files");
        for (name, digest) in listed.into_iter().flatten() {
            if !test(name) {
                reader.findings.push(bad_name(name, expected));
            }
            match digest.as_str().and_then(reader::digest) {
                Some(digest) => {
                    files.insert(name.to_owned(), digest);
                }
                None => {
                    let message = "it must be 64 lower-case hexadecimal digits";
                    let place = below("/files", name);
                    reader.findings.push(Finding::new("bad_value", name, place, message));
                }
            }
        }
        if files.len() > MOST_FILES {
            reader.findings.push(too_many());
        }
    }
    findings.or(Some(files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_digests_come_out() {
        let empty = "aae5a71db7cd42382ef749f87ca847684d9d4a517cc8235f53ea31bd492c3577";
        assert_eq!(Manifest::default().digest().to_string(), empty);
        let spec = "{\"action\":\"file_write\",\"cmd_argv\":[\"true\"],\"cwd\":\".\",\
                    \"env_allowlist\":[],\"exec_id\":\"e1\",\"inputs_manifest_sha256\":\
                    \"aae5a71db7cd42382ef749f87ca847684d9d4a517cc8235f53ea31bd492c3577\",\
                    \"kind\":\"shell\",\"note\":null,\"paths_allowlist\":[\".\"],\"role\":\"envoy\",\
                    \"task_id\":\"t1\",\"timeout_s\":60}";
        let files =
            [(SPEC, spec.as_bytes()), (STDOUT, b"hi\n"), (STDERR, b""), ("outputs/a.bin", &[0, 1])];
        let files = files.map(|(name, bytes)| (name.to_owned(), Digest::of(bytes)));
        let manifest = Manifest::new(files.into()).unwrap();
        let expected = "71c40a76b4fd6e13aa358adf9ce9fe5904ff8ddd1600d701d5adbc375c7beca3";
        assert_eq!(manifest.digest().to_string(), expected);
        assert_eq!(Manifest::parse(manifest.text().as_bytes()).unwrap(), manifest);
    }

    #[test]
    fn names_that_are_none_are_told_with_their_place() {
        let digest = Digest::of(b"").to_string();
        for (name, reason) in [
            ("../x", "bad_name:../x"),
            ("/x", "bad_name:/x"),
            ("volatile/x", "bad_name:volatile/x"),
            ("run_summary.json", "bad_name:run_summary.json"),
            ("a b", "bad_name:a b"),
        ] {
            let text = format!("{{\"files\":{{\"{name}\":\"{digest}\"}}}}");
            let findings = Manifest::parse(text.as_bytes()).unwrap_err();
            assert_eq!(findings.reason(), reason);
            assert_eq!(findings.list()[0].pointer, below("/files", name));
            assert!(Manifest::new([(name.to_owned(), Digest::ZERO)].into()).is_err());
        }
    }

    #[test]
    fn anything_else_is_no_manifest() {
        let upper = format!("{{\"files\":{{\"a\":\"{}\"}}}}", "A".repeat(64));
        let prefixed = format!("{{\"files\":{{\"a\":\"sha256:{}\"}}}}", "a".repeat(64));
        for (text, reason) in [
            ("{}", "missing_key:files"),
            ("[]", "not_an_object:array"),
            ("{\"files\":[]}", "wrong_type:files:array"),
            ("{\"files\":{},\"more\":1}", "forbidden_key:more"),
            ("{\"files\":{\"a\":1}}", "bad_value:a"),
            (upper.as_str(), "bad_value:a"),
            (prefixed.as_str(), "bad_value:a"),
            ("{\"files\":{}}\n", "not_canonical"),
            ("{\"files\":{\"a\":{\"b\":{}}}}", "not_json:JSON_TOO_DEEP"),
        ] {
            assert_eq!(Manifest::parse(text.as_bytes()).unwrap_err().reason(), reason, "{text}");
        }
    }

    #[test]
    fn a_manifest_of_too_many_files_is_refused_by_writer_and_reader() {
        let many = |count: usize| -> BTreeMap<String, Digest> {
            (0..count).map(|index| (format!("outputs/{index}"), Digest::ZERO)).collect()
        };
        let most = Manifest::new(many(MOST_FILES)).unwrap();
        assert_eq!(Manifest::parse(most.text().as_bytes()).unwrap(), most);
        assert_eq!(Manifest::new(many(MOST_FILES + 1)).unwrap_err().reason(), "too_many_files");
        let text = text(&many(MOST_FILES + 1));
        assert!(Manifest::parse(text.as_bytes()).is_err());
    }
}
