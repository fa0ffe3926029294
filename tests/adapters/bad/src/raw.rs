//! An adapter that speaks the ABI by itself, without the guard of the SDK.

use nexus_router_abi::abi_stable::std_types::{RResult, RStr, RString};
use nexus_router_abi::abi_stable::type_level::downcasting::TD_Opaque;
use nexus_router_abi::{AdapterBox, AdapterV1, AdapterV1_TO, Answer, CompletionBox};

use crate::harm::OnDrop;

/// A description that breaks no rule.
pub(crate) const DESCRIPTION: &str =
    r#"{"adapter_id":"bad","adapter_kind":"bad","capabilities":["apply"]}"#;

/// An adapter whose parts are plain fields.
pub(crate) struct Raw {
    pub(crate) description: String,
    pub(crate) call: fn() -> Result<String, String>,
    pub(crate) shutdown: fn(),
    #[expect(dead_code, reason = "its work is done when it is dropped")]
    pub(crate) drop: OnDrop,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            description: DESCRIPTION.to_owned(),
            call: || Ok(r#"{"output":{}}"#.to_owned()),
            shutdown: || (),
            drop: OnDrop(|| ()),
        }
    }
}

impl AdapterV1 for Raw {
    fn describe(&self) -> RString {
        self.description.as_str().into()
    }

    fn call(&self, _: RStr<'_>) -> Answer {
        match (self.call)() {
            Ok(text) => Answer::ROk(text.into()),
            Err(text) => Answer::RErr(text.into()),
        }
    }

    fn start(&self, request: RStr<'_>, mut completion: CompletionBox) {
        completion.complete(self.call(request));
    }

    fn cancel(&self, _: RStr<'_>) {}

    fn shutdown(&self) {
        (self.shutdown)();
    }
}

/// Hands an instance, or a factory's error text, over to the host.
pub(crate) fn hand_over(
    made: Result<Raw, String>,
    id: Option<&str>,
) -> RResult<AdapterBox, RString> {
    match made {
        Ok(mut raw) => {
            if let Some(id) = id.filter(|_| raw.description == DESCRIPTION) {
                raw.description = DESCRIPTION.replacen("bad", id, 1);
            }
            RResult::ROk(AdapterV1_TO::from_value(raw, TD_Opaque))
        }
        Err(error) => RResult::RErr(error.into()),
    }
}

/// Returns the text of a record.
macro_rules! record_text {
    ($name:ident, $abi:literal, $manifest:expr) => {
        concat!(
            "{\"abi\":",
            $abi,
            ",\"sdk\":\"",
            env!("CARGO_PKG_VERSION"),
            "\",\"package\":\"",
            env!("CARGO_PKG_NAME"),
            "\",\"version\":\"",
            env!("CARGO_PKG_VERSION"),
            "\",\"factory\":\"",
            stringify!($name),
            "\",\"manifest\":",
            $manifest,
            "}"
        )
    };
}

/// Returns a record as it stands in the metadata section.
pub(crate) const fn record<const N: usize>(text: &str) -> [u8; N] {
    use nexus_router_sdk::metadata::MAGIC;
    const HEAD: usize = MAGIC.len() + 4;
    assert!(N == HEAD + text.len() && N < 1 << 20);
    #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
    let length = (text.len() as u32).to_le_bytes();
    let mut bytes = [0; N];
    let (magic, rest) = bytes.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    let (place, rest) = rest.split_at_mut(length.len());
    place.copy_from_slice(&length);
    rest.copy_from_slice(text.as_bytes());
    bytes
}

/// Exports a factory whose result is an expression, with a manifest as a JSON text.
macro_rules! raw_adapter {
    ($name:ident, $made:expr) => {
        $crate::raw::raw_adapter!($name, "null", $made);
    };
    ($name:ident, $manifest:expr, $made:expr) => {
        const _: () = {
            use ::nexus_router_abi::abi_stable::library::{
                CheckTypeLayout, LibHeader, RootModuleResult,
            };
            use ::nexus_router_abi::abi_stable::prefix_type::{PrefixRefTrait, PrefixTypeTrait};
            use ::nexus_router_abi::abi_stable::std_types::{ROption, RResult, RStr, RString};
            use ::nexus_router_abi::{AdapterBox, FactoryV1, FactoryV1Ref, HostBox};

            const TEXT: &str = $crate::raw::record_text!($name, 1, $manifest);

            #[used]
            #[unsafe(link_section = ".nexus_adapter")]
            static RECORD: [u8; TEXT.len() + 12] = $crate::raw::record(TEXT);

            extern "C" fn create(
                id: ROption<RStr<'_>>,
                _: RStr<'_>,
                _: HostBox,
            ) -> RResult<AdapterBox, RString> {
                // Behind a function, because some never return and the rest would be dead code.
                fn make() -> Result<$crate::raw::Raw, String> {
                    $made
                }
                $crate::raw::hand_over(make(), id.into_option().map(|id| id.as_str()))
            }

            extern "C" fn root_module() -> RootModuleResult {
                let factory = FactoryV1 { name: RStr::from_str(stringify!($name)), create };
                let module = factory.leak_into_prefix().to_prefix_ref();
                // SAFETY: the header below says that the module is a `FactoryV1Ref`.
                RResult::ROk(unsafe { module.cast() })
            }

            #[unsafe(no_mangle)]
            static $name: LibHeader = {
                // SAFETY: `root_module` makes a `FactoryV1Ref`.
                unsafe {
                    LibHeader::from_constructor::<FactoryV1Ref>(root_module, CheckTypeLayout::Yes)
                }
            };
        };
    };
}

pub(crate) use {raw_adapter, record_text};
