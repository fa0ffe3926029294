//! An adapter whose metadata and behaviour a test writes into a copy of the built file.
//!
//! Two places are reserved, both filled up with blanks, which JSON ignores: the record of the factory
//! `create_adapter` in the metadata section, and the [`Script`] behind [`MARKER`]. The other factories are
//! fixed: `raises` returns an error, `none` describes itself as null, and `NOT_CALLABLE` is none at all.
#![expect(unsafe_code, reason = "it speaks the ABI by itself: the SDK would keep it honest")]

mod effects;

use std::sync::atomic::{AtomicUsize, Ordering};

use nexus_router_abi::abi_stable::library::{CheckTypeLayout, LibHeader, RootModuleResult};
use nexus_router_abi::abi_stable::prefix_type::{PrefixRefTrait, PrefixTypeTrait};
use nexus_router_abi::abi_stable::std_types::{ROption, RResult, RStr, RString};
use nexus_router_abi::abi_stable::type_level::downcasting::TD_Opaque;
use nexus_router_abi::{
    AdapterBox, AdapterV1, AdapterV1_TO, Answer, CompletionBox, FactoryV1, FactoryV1Ref, HostBox,
};
use nexus_router_sdk::{AdapterError, metadata};
use serde::Deserialize;

/// The length of each reserved text. No longer record is read by the router.
pub const RESERVED: usize = RESERVED_U32 as usize;

const RESERVED_U32: u32 = 256 * 1024;

/// What stands before the script.
pub const MARKER: [u8; 16] = *b"MIMIC SCRIPT 01:";

/// What the library does.
#[derive(Deserialize)]
pub struct Script {
    /// Whether the library ends the process as soon as it is opened.
    #[serde(default)]
    pub abort_when_opened: bool,
    /// The message with which the factory fails, if it is to fail.
    #[serde(default)]
    pub factory_error: Option<String>,
    /// Whether the factory leaves a thread behind.
    #[serde(default)]
    pub leave_thread: bool,
    /// What the library does as soon as it is opened, and what it does that to.
    #[serde(default)]
    pub constructor_effect: Option<(String, String)>,
    /// What the factory does, and what it does that to.
    #[serde(default)]
    pub factory_effect: Option<(String, String)>,
    /// A file without which the factory fails.
    #[serde(default)]
    pub factory_reads: Option<String>,
    /// What the instance says of itself; `{n}` stands for the number of the instance.
    pub description: String,
}

const PLAIN_SCRIPT: &str = r#"{"description":"{\"adapter_id\":\"mimic\",\"adapter_kind\":\"mimic\",\"capabilities\":[]}"}"#;
const PLAIN_RECORD: &str = r#"{"abi":1,"sdk":"1.2.0","package":"mimic","version":"0.0.0","factory":"create_adapter","manifest":null}"#;

static SCRIPT: [u8; MARKER.len() + RESERVED] = reserve(&MARKER, PLAIN_SCRIPT);

#[used]
#[unsafe(link_section = ".nexus_adapter")]
static RECORD: [u8; metadata::MAGIC.len() + 4 + RESERVED] = {
    let mut head = [0; metadata::MAGIC.len() + 4];
    let (magic, length) = head.split_at_mut(metadata::MAGIC.len());
    magic.copy_from_slice(&metadata::MAGIC);
    length.copy_from_slice(&RESERVED_U32.to_le_bytes());
    reserve(&head, PLAIN_RECORD)
};

#[used]
#[unsafe(link_section = ".nexus_adapter")]
static RAISES_RECORD: [u8; metadata::record_len(&RAISES_ORIGIN, None)] =
    metadata::record(&RAISES_ORIGIN, None);

#[used]
#[unsafe(link_section = ".nexus_adapter")]
static NONE_RECORD: [u8; metadata::record_len(&NONE_ORIGIN, None)] =
    metadata::record(&NONE_ORIGIN, None);

const RAISES_ORIGIN: metadata::Origin =
    metadata::Origin { package: "mimic", version: "0.0.0", factory: "raises" };
const NONE_ORIGIN: metadata::Origin =
    metadata::Origin { package: "mimic", version: "0.0.0", factory: "none" };

/// Returns a head, a text, and blanks up to the end.
const fn reserve<const N: usize>(head: &[u8], text: &str) -> [u8; N] {
    let mut bytes = [b' '; N];
    let (start, rest) = bytes.split_at_mut(head.len());
    start.copy_from_slice(head);
    rest.split_at_mut(text.len()).0.copy_from_slice(text.as_bytes());
    bytes
}

impl Script {
    /// Reads the script from this very file.
    fn read() -> Self {
        let read = |byte: &u8| {
            // SAFETY: a reference is valid and aligned. The volatile read keeps the compiler from using
            // what the static held when it was compiled.
            unsafe { std::ptr::read_volatile(byte) }
        };
        let bytes: Vec<u8> = SCRIPT[MARKER.len()..].iter().map(read).collect();
        let script = serde_json::from_slice(&bytes);
        script.unwrap_or_else(|error| panic!("the test wrote a script that is none: {error}"))
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    let script = Script::read();
    if script.abort_when_opened {
        std::process::abort();
    }
    if let Some((effect, subject)) = &script.constructor_effect {
        effects::attempt(effect, subject);
    }
}

/// One factory: its name, and the description of what it makes.
trait Role: 'static {
    const NAME: &'static str;

    fn make() -> Result<String, String>;
}

struct Scripted;

impl Role for Scripted {
    const NAME: &'static str = "create_adapter";

    fn make() -> Result<String, String> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let script = Script::read();
        if script.leave_thread {
            std::thread::spawn(std::thread::park);
        }
        if let Some((effect, subject)) = &script.factory_effect {
            effects::attempt(effect, subject);
        }
        if let Some(file) = &script.factory_reads {
            std::fs::read(file).map_err(|error| format!("cannot read {file}: {error}"))?;
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed).to_string();
        let description = script.description.replace("{n}", &number);
        script.factory_error.map_or(Ok(description), Err)
    }
}

struct Raises;

impl Role for Raises {
    const NAME: &'static str = "raises";

    fn make() -> Result<String, String> {
        Err("bad config".to_owned())
    }
}

struct Nothing;

impl Role for Nothing {
    const NAME: &'static str = "none";

    fn make() -> Result<String, String> {
        Ok("null".to_owned())
    }
}

#[unsafe(no_mangle)]
static create_adapter: LibHeader = header::<Scripted>();

#[unsafe(no_mangle)]
static raises: LibHeader = header::<Raises>();

#[unsafe(no_mangle)]
static none: LibHeader = header::<Nothing>();

#[unsafe(no_mangle)]
static NOT_CALLABLE: u32 = 5;

const fn header<R: Role>() -> LibHeader {
    // SAFETY: `root_module::<R>` makes a `FactoryV1Ref`, the type that the header's layout describes.
    unsafe { LibHeader::from_constructor::<FactoryV1Ref>(root_module::<R>, CheckTypeLayout::Yes) }
}

extern "C" fn root_module<R: Role>() -> RootModuleResult {
    let factory = FactoryV1 { name: RStr::from_str(R::NAME), create: create::<R> };
    let module = factory.leak_into_prefix().to_prefix_ref();
    // SAFETY: whoever receives it has checked the header's layout, which is that of `FactoryV1Ref`.
    RResult::ROk(unsafe { module.cast() })
}

extern "C" fn create<R: Role>(
    _adapter_id: ROption<RStr<'_>>,
    _config: RStr<'_>,
    _host: HostBox,
) -> RResult<AdapterBox, RString> {
    match R::make() {
        Ok(description) => RResult::ROk(AdapterV1_TO::from_value(Mimic { description }, TD_Opaque)),
        Err(message) => {
            let error = serde_json::json!(AdapterError::operational("CONFIG_REJECTED", message));
            RResult::RErr(error.to_string().into())
        }
    }
}

struct Mimic {
    description: String,
}

impl AdapterV1 for Mimic {
    fn describe(&self) -> RString {
        self.description.as_str().into()
    }

    fn call(&self, _request: RStr<'_>) -> Answer {
        RResult::ROk(r#"{"output":{}}"#.into())
    }

    fn start(&self, request: RStr<'_>, mut completion: CompletionBox) {
        completion.complete(self.call(request));
    }

    fn cancel(&self, _call_id: RStr<'_>) {}

    fn shutdown(&self) {}
}
