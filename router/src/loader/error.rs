//! The only error of loading, and the stable reasons for it.

use nexus_router_sdk::Object;
use serde_json::Value;

use crate::clock::Timestamp;

/// Why an adapter was not loaded.
///
/// This is the one error type of [`load_adapter`](super::load_adapter), whatever went wrong.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub struct AdapterLoadError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    factory_ref: String,
    reason: Reason,
    message: String,
    hint: Option<String>,
    cause: Option<Cause>,
    /// What the manifest says of the configuration.
    parameters: Option<Value>,
    remembered_since: Option<Timestamp>,
    /// Whether there was no time to try the library.
    is_untried: bool,
}

/// What lies behind a failed load.
#[derive(Clone, Debug)]
pub struct Cause {
    /// What it says. No secrets.
    pub text: String,
    /// What kind of thing it is, such as `io::Error` or `signal`.
    pub cause_type: String,
}

impl AdapterLoadError {
    /// The error code under which failed loads are recorded.
    pub const CODE: &str = "ADAPTER_LOAD_FAILED";

    pub(crate) fn new(factory_ref: &str, reason: Reason, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            factory_ref: factory_ref.to_owned(),
            reason,
            message: bounded(message.into()),
            hint: None,
            cause: None,
            parameters: None,
            remembered_since: None,
            is_untried: false,
        }))
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    pub(crate) fn caused_by(mut self, cause_type: &str, text: impl Into<String>) -> Self {
        self.0.cause =
            Some(Cause { text: bounded(text.into()), cause_type: cause_type.to_owned() });
        self
    }

    pub(crate) fn with_known_parameters(mut self, parameters: impl Into<Option<Value>>) -> Self {
        self.0.parameters = parameters.into();
        self
    }

    /// Returns the parameters that the manifest states, if the configuration is invalid: a list of objects with `name`,
    /// `type`, `required`, and maybe `default` and `description`. Secret defaults are not in it.
    #[must_use]
    pub fn parameters(&self) -> Option<&Value> {
        self.0.parameters.as_ref()
    }

    /// Adds a remark to the message.
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        self.0.message = bounded(format!("{}; {note}", self.0.message));
        self
    }

    pub(crate) fn remembered_since(mut self, since: Timestamp) -> Self {
        self.0.remembered_since = Some(since);
        self
    }

    /// Returns since when the router remembers that the library is refused. None if it was tried for this error.
    #[must_use]
    pub fn refused_since(&self) -> Option<Timestamp> {
        self.0.remembered_since
    }

    /// Notes that there was no time to try the library.
    pub(crate) fn untried(mut self) -> Self {
        self.0.is_untried = true;
        self
    }

    /// Returns whether there was no time to try the library, so that nothing is known of it.
    pub(crate) fn is_untried(&self) -> bool {
        self.0.is_untried
    }

    /// Returns the ref that was to be loaded.
    #[must_use]
    pub fn factory_ref(&self) -> &str {
        &self.0.factory_ref
    }

    /// Returns the stable, machine-readable reason.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.0.reason
    }

    /// Returns `ADAPTER_LOAD_FAILED`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        Self::CODE
    }

    /// Returns what lies behind, if anything does.
    #[must_use]
    pub fn cause(&self) -> Option<&Cause> {
        self.0.cause.as_ref()
    }

    /// Returns the remedy: that of this very case, or that of its reason.
    #[must_use]
    pub fn hint(&self) -> &str {
        self.0.hint.as_deref().unwrap_or_else(|| self.0.reason.remedy())
    }

    /// Returns `factory_ref`, `reason`, and, if they are known, `cause` and `cause_type`, the `parameters` of a manifest
    /// that the configuration does not fit, and `refused_since` of a refusal that is remembered.
    #[must_use]
    pub fn details(&self) -> Object {
        let mut details = Object::new();
        let mut put = |key: &str, value: &str| {
            details.insert(key.to_owned(), Value::from(value));
        };
        put("factory_ref", self.factory_ref());
        put("reason", self.reason().code());
        if let Some(cause) = self.cause() {
            put("cause", &cause.text);
            put("cause_type", &cause.cause_type);
        }
        if let Some(since) = self.refused_since() {
            put("refused_since", &since.to_string());
        }
        if let Some(parameters) = self.parameters() {
            details.insert("parameters".to_owned(), parameters.clone());
        }
        details
    }
}

/// Cuts a text off that a library or a caller made long.
fn bounded(mut text: String) -> String {
    const MAX: usize = 8 * 1024;
    if text.len() > MAX {
        text.truncate(text.floor_char_boundary(MAX));
        text.push('…');
    }
    text
}

/// Defines the reasons as one table: variant, code, meaning, remedy.
macro_rules! reasons {
    ($($variant:ident $code:literal $meaning:literal $remedy:literal)*) => {
        /// The stable reasons for a failed load. They may be added to, never renamed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $(#[doc = $meaning] $variant,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name that programs see.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// Returns what the reason means.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }

            /// Returns what to do about it.
            #[must_use]
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }
        }
    };
}

reasons! {
    InvalidFactoryRef "INVALID_FACTORY_REF"
        "The factory ref is not `module:function`."
        "write module:function, such as nexus_router_adapter_http:create_adapter"
    LibraryNotFound "LIBRARY_NOT_FOUND"
        "No library of that name is on the adapter path."
        "add its directory with --adapter-path or NEXUS_ROUTER_ADAPTER_PATH, or give the file's path"
    LibraryUnreadable "LIBRARY_UNREADABLE"
        "The library file cannot be read."
        "check that the file exists and that this user may read it"
    NotARegularFile "NOT_A_REGULAR_FILE"
        "The path is a directory, a pipe, a device or a socket."
        "give the path of the library file itself"
    LibraryTooLarge "LIBRARY_TOO_LARGE"
        "The library file is larger than the limit."
        "build it in release mode and strip it"
    UnsafePermissions "UNSAFE_PERMISSIONS"
        "Everybody may write to the library file, so its contents cannot be trusted."
        "chmod o-w the file"
    DigestMismatch "DIGEST_MISMATCH"
        "The file's SHA-256 is not the pinned one."
        "if the new file is intended, review it and update the pin"
    NotALibrary "NOT_A_LIBRARY"
        "The file is not a shared library."
        "build the adapter with crate-type = [\"cdylib\"] and give the resulting file"
    LibraryTruncated "LIBRARY_TRUNCATED"
        "The file ends before its own tables say it does."
        "build or copy the library again"
    LibraryDamaged "LIBRARY_DAMAGED"
        "The file's tables are damaged, or larger than those of any library."
        "build or copy the library again"
    UnsafeDependency "UNSAFE_DEPENDENCY"
        "The library asks for others by path, in places that are not absolute, or, with a pin, outside of the system's."
        "link what it needs statically, or install it where the system's loader looks"
    WrongPlatform "WRONG_PLATFORM"
        "The library is built for another machine."
        "build it for this machine's target"
    MissingDependency "MISSING_DEPENDENCY"
        "Another library that this one needs is not installed."
        "install the missing library, or link it statically"
    UnresolvedSymbol "UNRESOLVED_SYMBOL"
        "The library uses a function that nothing provides."
        "build it against the libraries of this machine"
    OpenFailed "OPEN_FAILED"
        "The system's loader refused the library."
        "the cause says why; the cache directory must not be on a noexec mount"
    NotAnAdapter "NOT_AN_ADAPTER"
        "The library exports no nexus-router adapter."
        "export a factory with nexus_router_sdk::export_adapter!"
    FactoryNotFound "FACTORY_NOT_FOUND"
        "The library exports no factory of that name."
        "use one of the factories that it exports"
    NotAFactory "NOT_A_FACTORY"
        "The library exports that name, but it is no factory."
        "use one of the factories that it exports"
    MetadataInvalid "METADATA_INVALID"
        "The metadata section of the library cannot be read."
        "build the adapter again with the current SDK"
    ManifestInvalid "MANIFEST_INVALID"
        "The manifest does not have the required fields and types."
        "run nexus-router adapter validate; MANIFEST_SCHEMA lists every error"
    AbiMismatch "ABI_MISMATCH"
        "The library was built against another ABI than this router's."
        "build the adapter again with an SDK for this router"
    RouterVersionUnsupported "ROUTER_VERSION_UNSUPPORTED"
        "The manifest's supported_router_versions exclude this router."
        "use a release of the adapter that supports this router"
    ConfigInvalid "CONFIG_INVALID"
        "The configuration does not fit the manifest's config_schema, or a default in it has the wrong type."
        "run nexus-router adapter inspect to see the parameters; it needs no configuration"
    FactoryFailed "FACTORY_FAILED"
        "The factory returned an error."
        "the cause is the adapter's own message; check the configuration"
    FactoryPanicked "FACTORY_PANICKED"
        "The factory panicked."
        "report it to the adapter's author"
    ProtocolInvalid "PROTOCOL_INVALID"
        "The instance lacks a protocol field, or one is not of the right form."
        "run nexus-router adapter validate to see which"
    CapabilitiesInvalid "CAPABILITIES_INVALID"
        "The instance's capabilities are not a set of standard capabilities."
        "declare only apply, dry_run, external, timeout"
    LibraryCrashed "LIBRARY_CRASHED"
        "The library killed the process that tried it."
        "report it to the adapter's author; do not load it"
    LibraryExited "LIBRARY_EXITED"
        "The library ended the process that tried it."
        "report it to the adapter's author; do not load it"
    LibraryTimedOut "LIBRARY_TIMED_OUT"
        "The library did not answer in time."
        "the factory must not wait for anything; report it to the adapter's author"
    DryRunUnavailable "DRY_RUN_UNAVAILABLE"
        "The confined child process for the dry run could not be started."
        "name the nexus-router binary in NEXUS_ROUTER_BIN, or load with DryRun::Off if the library is trusted"
    GrantNotDeclared "GRANT_NOT_DECLARED"
        "Something is granted to an adapter whose manifest does not declare `external`."
        "take the grants away, or use an adapter whose manifest declares that it reaches outside"
    GrantUnusable "GRANT_UNUSABLE"
        "A worker cannot be given what is granted."
        "check that every granted path is there, is what it should be, and can be opened by this user"
    ChecksFailed "CHECKS_FAILED"
        "The adapter loads, and fails checks of the gate."
        "run nexus-router adapter validate; require_valid = false in [workers] loads it anyway"
    SandboxUnavailable "SANDBOX_UNAVAILABLE"
        "The kernel cannot confine a worker as it must be."
        "use a newer kernel, or name what may be missing in workers.accept_missing"
    CacheUnusable "CACHE_UNUSABLE"
        "The directory for private copies cannot be used."
        "name a private, writable directory in NEXUS_ROUTER_CACHE_DIR"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_name_the_cause() {
        let error = AdapterLoadError::new("m:f", Reason::OpenFailed, "cannot open")
            .caused_by("dlopen", "no such file");
        assert_eq!(
            Value::Object(error.details()),
            serde_json::json!({"factory_ref": "m:f", "reason": "OPEN_FAILED",
                "cause": "no such file", "cause_type": "dlopen"})
        );
        assert_eq!(error.code(), "ADAPTER_LOAD_FAILED");
        assert_eq!(error.hint(), Reason::OpenFailed.remedy());
    }
}
