//! UNSAFE room 2: opening a library, checking its header, making and calling an instance.
//!
//! A library is never closed. Code of it may still be referenced by thread-local destructors and by its
//! own threads, and there is no sound way to know; a new version is a new file with a new digest.
#![expect(unsafe_code, reason = "the one place of the router where foreign code is entered")]

use std::error::Error as _;
use std::mem::ManuallyDrop;
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use nexus_router_abi::abi_stable::library::AbiHeaderRef;
use nexus_router_abi::abi_stable::std_types::ROption;
use nexus_router_abi::{AdapterBox, Answer, CompletionBox, FactoryV1Ref, HostBox};

use super::error::Reason;

/// How far opening and making got. Reported by the child before each step, so that a crash has a place.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// The child starts and confines itself.
    Start,
    /// The system's loader maps the file and runs its constructors.
    Open,
    /// The header is read and the layout compared.
    Header,
    /// The factory makes an instance.
    Factory,
    /// The instance describes itself.
    Describe,
    /// The instance carries out a call.
    Call,
    /// The instance is shut down and dropped.
    Drop,
    /// The process ends, and the library's destructors run.
    Exit,
}

impl Stage {
    /// Tells what was going on.
    pub(super) const fn doing(self) -> &'static str {
        match self {
            Self::Start => "before it was opened",
            Self::Open => "while it was opened (its constructors run then)",
            Self::Header => "while its header was checked",
            Self::Factory => "in its factory",
            Self::Describe => "while it described itself",
            Self::Call => "in a call",
            Self::Drop => "while its instance was dropped",
            Self::Exit => "while the process ended (its destructors run then)",
        }
    }
}

/// Why a library could not be opened.
#[derive(Debug)]
pub(super) struct OpenError {
    pub(super) reason: Reason,
    pub(super) text: String,
}

/// An exported factory, checked against this host's layout.
#[derive(Clone, Copy)]
pub(super) struct Factory(FactoryV1Ref);

impl Factory {
    /// Opens a library and checks the header that it exports under `function`.
    ///
    /// The caller has checked that the symbol is data of a header's size. Constructors of the library
    /// run here, and only the child process survives what they may do.
    pub(super) fn open(
        path: &Path,
        function: &str,
        mut stage: impl FnMut(Stage),
    ) -> Result<Self, OpenError> {
        stage(Stage::Open);
        #[expect(clippy::disallowed_methods, reason = "this is the place")]
        // SAFETY: what constructors do cannot be promised; the dry run in a child has survived them.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let library = ManuallyDrop::new(library.map_err(|error| open_error(path, &error))?);
        stage(Stage::Header);
        // SAFETY: the symbol is data of at least a header's size (`elf::check_symbol`), and a reference
        // to a header is what the type says; its contents are checked by `upgrade` before use.
        let symbol = unsafe { library.get::<AbiHeaderRef>(function.as_bytes()) };
        let header: AbiHeaderRef = *symbol.map_err(|error| open_error(path, &error))?;
        let mismatch = |text: String| OpenError { reason: Reason::AbiMismatch, text };
        let header = header.upgrade().map_err(|error| mismatch(point_of(&error)))?;
        // Without a layout the comparison below would be skipped.
        if header.layout().is_none() {
            return Err(mismatch("the library hides the layout of its types".to_owned()));
        }
        let module = header
            .init_root_module::<FactoryV1Ref>()
            .map_err(|error| mismatch(point_of(&error)))?;
        Ok(Self(module))
    }

    /// Makes an instance; the error is the adapter's error text.
    pub(super) fn create(
        self,
        adapter_id: Option<&str>,
        config: &str,
        host: HostBox,
    ) -> Result<Instance, String> {
        let adapter_id: ROption<_> = adapter_id.map(Into::into).into();
        let made = (self.0.create())(adapter_id, config.into(), host);
        made.into_result().map(Instance).map_err(Into::into)
    }
}

/// An adapter that lives in a library.
pub(super) struct Instance(AdapterBox);

impl Instance {
    /// Returns the description's text.
    pub(super) fn describe(&self) -> String {
        self.0.describe().into()
    }

    /// Carries out a request's text, and lets `read` have the answer's or the error's text in place.
    pub(super) fn call<T>(&self, request: &str, read: impl FnOnce(Result<&str, &str>) -> T) -> T {
        read(text_of(&self.0.call(request.into())))
    }

    /// Starts a request's text.
    pub(super) fn start(&self, request: &str, completion: CompletionBox) {
        self.0.start(request.into(), completion);
    }

    /// Asks a call to end early.
    pub(super) fn cancel(&self, call_id: &str) {
        self.0.cancel(call_id.into());
    }

    /// Asks the instance to let go of what it holds.
    pub(super) fn shutdown(&self) {
        self.0.shutdown();
    }
}

/// Returns the text of an answer or of an error, where it lies.
pub(super) fn text_of(answer: &Answer) -> Result<&str, &str> {
    match answer {
        Answer::ROk(text) => Ok(text.as_str()),
        Answer::RErr(text) => Err(text.as_str()),
    }
}

/// The reasons with which opening can fail.
pub(super) const OPEN_REASONS: &[Reason] =
    &[Reason::UnresolvedSymbol, Reason::MissingDependency, Reason::AbiMismatch, Reason::OpenFailed];

/// Sorts the texts of the system's loader. They are in the error's source, and only there.
fn open_error(path: &Path, error: &libloading::Error) -> OpenError {
    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    // The text begins with the name of what could not be opened: the library, or one that it needs.
    let is_own = text.starts_with(&path.display().to_string());
    let missing = text.contains("cannot open shared object file") && !is_own;
    let reason = if text.contains("undefined symbol") {
        Reason::UnresolvedSymbol
    } else if missing || text.contains("version `") {
        Reason::MissingDependency
    } else {
        Reason::OpenFailed
    };
    OpenError { reason, text }
}

/// A layout mismatch is explained on many kilobytes. The point is the last line that begins with
/// `Error:`; where there is none, the explanation is short and all of it is told on one line.
fn point_of(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    tracing::debug!(explanation = %text, "abi mismatch");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let point = match lines.clone().rfind(|line| line.starts_with("Error:")) {
        Some(line) => line.trim_start_matches("Error:").trim().to_owned(),
        None => lines.collect::<Vec<_>>().join(" "),
    };
    point.chars().take(500).collect()
}
