//! UNSAFE room 1: what `export_adapter!` expands to. The header and the guarded shims.
#![expect(unsafe_code, reason = "the one place of the SDK where the ABI is entered")]

use std::borrow::Cow;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_router_abi::abi_stable::library::{CheckTypeLayout, LibHeader, RootModuleResult};
use nexus_router_abi::abi_stable::prefix_type::{PrefixRefTrait, PrefixTypeTrait};
use nexus_router_abi::abi_stable::std_types::{ROption, RResult, RStr, RString};
use nexus_router_abi::abi_stable::type_level::downcasting::TD_Opaque;
use nexus_router_abi::{
    AdapterBox, AdapterV1, AdapterV1_TO, Answer, CompletionBox, FactoryV1, FactoryV1Ref, HostBox,
};
use serde::Deserialize;

use crate::cancellation::{CallsInFlight, InFlight};
use crate::completion::{Completion, encode, error_text};
use crate::context::{CallContext, Host, Level};
use crate::guard::guard;
use crate::{Adapter, AdapterError, Catalog, Factory, Interaction, Object, Passive};

/// Exports a factory under its function's name, with an optional manifest. One line per factory, at the
/// top level of a module; a library may have several.
///
/// A library built with `panic = "abort"` does not compile: the guard at the boundary could not work.
#[macro_export]
macro_rules! export_adapter {
    ($function:ident) => {
        $crate::export_adapter!(@export $function, ::core::option::Option::None);
    };
    ($function:ident, $manifest:expr) => {
        $crate::export_adapter!(@export $function, ::core::option::Option::Some(&$manifest));
    };
    (@export $function:ident, $manifest:expr) => {
        const _: () = {
            #[cfg(panic = "abort")]
            ::core::compile_error!(
                "nexus-router adapters need panic = \"unwind\": a panic must become a bug error, \
                 not the end of the host"
            );

            const __NEXUS_ORIGIN: $crate::metadata::Origin = $crate::metadata::Origin {
                package: ::core::env!("CARGO_PKG_NAME"),
                version: ::core::env!("CARGO_PKG_VERSION"),
                factory: ::core::stringify!($function),
            };
            const __NEXUS_MANIFEST: ::core::option::Option<&$crate::Manifest> = $manifest;

            #[used]
            #[unsafe(link_section = ".nexus_adapter")]
            static __NEXUS_RECORD: [u8; $crate::metadata::record_len(&__NEXUS_ORIGIN, __NEXUS_MANIFEST)] =
                $crate::metadata::record(&__NEXUS_ORIGIN, __NEXUS_MANIFEST);

            struct __NexusExported;

            impl $crate::exported::Export for __NexusExported {
                const NAME: &'static str = ::core::stringify!($function);

                fn create(
                    adapter_id: ::core::option::Option<&str>,
                    config: &str,
                    host: $crate::Host,
                ) -> ::core::result::Result<impl $crate::Adapter, $crate::AdapterError> {
                    $crate::exported::create(&$function, adapter_id, config, host)
                }
            }

            // A block of its own: the static bears the same name as the function above.
            const _: () = {
                #[unsafe(no_mangle)]
                #[expect(non_upper_case_globals, reason = "named like the factory")]
                pub static $function: $crate::exported::LibHeader =
                    $crate::exported::header::<__NexusExported>();
            };
        };
    };
}

/// A factory with its name, as the macro implements it.
pub trait Export: 'static {
    /// The name under which it is exported.
    const NAME: &'static str;

    /// Makes an adapter.
    ///
    /// # Errors
    /// The factory's.
    fn create(
        adapter_id: Option<&str>,
        config: &str,
        host: Host,
    ) -> Result<impl Adapter, AdapterError>;
}

/// Calls an author's factory function, whatever its configuration type.
///
/// # Errors
/// The factory's.
pub fn create<Marker, F: Factory<Marker>>(
    factory: &F,
    adapter_id: Option<&str>,
    config: &str,
    host: Host,
) -> Result<F::Adapter, AdapterError> {
    factory.make(adapter_id, config, host)
}

/// Makes the header that a library exports.
#[must_use]
pub const fn header<E: Export>() -> LibHeader {
    // SAFETY: `root_module::<E>` makes a `FactoryV1Ref`, the type that the header's layout describes.
    unsafe { LibHeader::from_constructor::<FactoryV1Ref>(root_module::<E>, CheckTypeLayout::Yes) }
}

extern "C" fn root_module<E: Export>() -> RootModuleResult {
    // Nothing here can panic: two fields are set and leaked.
    let factory = FactoryV1 { name: RStr::from_str(E::NAME), create: create_shim::<E> };
    let module = factory.leak_into_prefix().to_prefix_ref();
    // SAFETY: whoever receives it has checked the header's layout, which is that of `FactoryV1Ref`.
    RResult::ROk(unsafe { module.cast() })
}

extern "C" fn create_shim<E: Export>(
    adapter_id: ROption<RStr<'_>>,
    config: RStr<'_>,
    host: HostBox,
) -> RResult<AdapterBox, RString> {
    let host = Host::new(host);
    let made = guard("factory", || {
        let adapter_id = adapter_id.into_option().map(|id| id.as_str().to_owned());
        E::create(adapter_id.as_deref(), config.as_str(), host.clone()).map(|adapter| {
            let guarded = Guarded {
                adapter: ManuallyDrop::new(adapter),
                host: host.clone(),
                calls: CallsInFlight::default(),
            };
            AdapterV1_TO::from_value(guarded, TD_Opaque)
        })
    });
    match made.and_then(|made| made) {
        Ok(adapter) => RResult::ROk(adapter),
        Err(error) => RResult::RErr(error_text(&error).into()),
    }
}

/// An author's adapter behind the guard.
struct Guarded<A: Adapter> {
    adapter: ManuallyDrop<A>,
    host: Host,
    calls: CallsInFlight,
}

impl<A: Adapter> AdapterV1 for Guarded<A> {
    fn describe(&self) -> RString {
        #[derive(serde::Serialize)]
        struct Description<'a> {
            adapter_id: &'a str,
            adapter_kind: &'a str,
            capabilities: &'a [crate::Capability],
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            starts_at_once: bool,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            catalog: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            passive: Option<Passive>,
        }
        let described = guard("describe", || {
            serde_json::to_string(&Description {
                adapter_id: self.adapter.adapter_id(),
                adapter_kind: self.adapter.adapter_kind(),
                capabilities: self.adapter.capabilities(),
                starts_at_once: self.adapter.starts_at_once(),
                catalog: self.adapter.has_catalog(),
                passive: self.adapter.passive(),
            })
            .map_err(|error| AdapterError::bug(error.to_string()))
        });
        match described.and_then(|described| described) {
            Ok(text) => text.into(),
            Err(error) => serde_json::json!({ "error": error }).to_string().into(),
        }
    }

    fn call(&self, request: RStr<'_>) -> Answer {
        let answered = guard("call", || {
            let Entered { request, context, in_flight: _in_flight } = self.enter(&request)?;
            if request.asks_for_catalog() {
                return self.catalog(&context);
            }
            self.adapter.call(&context, &request.tool, &request.method, request.args)
        });
        // Writing an author's output cannot panic: it is plain JSON values by now.
        encode(answered.and_then(|answer| answer))
    }

    fn start(&self, request: RStr<'_>, completion: CompletionBox) {
        let (done, reply) = Completion::to_host(completion);
        let started = guard("start", || match self.enter(&request) {
            Ok(Entered { request, context, in_flight }) => {
                reply.keep(in_flight);
                if request.asks_for_catalog() {
                    return done.complete(self.catalog(&context));
                }
                let Request { tool, method, args, .. } = request;
                self.adapter.start(context, tool.into_owned(), method.into_owned(), args, done);
            }
            Err(error) => done.complete(Err(error)),
        });
        if let Err(error) = reply.settle(started) {
            self.log(&error);
        }
    }

    fn cancel(&self, call_id: RStr<'_>) {
        // What an author registered with `on_cancel` runs here; a panic in it ends here too.
        for error in self.calls.cancel(call_id.as_str()) {
            self.log(&error);
        }
    }

    fn shutdown(&self) {
        if let Err(error) = guard("shutdown", || self.adapter.shutdown()) {
            self.log(&error);
        }
    }
}

impl<A: Adapter> Guarded<A> {
    /// Reads a request and enters it among the calls in flight.
    fn enter<'a>(&self, text: &RStr<'a>) -> Result<Entered<'a>, AdapterError> {
        let mut request = Request::read(text.as_str())?;
        let call_id = request.call_id.as_deref().map(Arc::from);
        let (cancellation, in_flight) = self.calls.enter(call_id.as_ref());
        let time = request.deadline_ms.map(Duration::from_millis);
        let deadline = time.and_then(|time| Instant::now().checked_add(time));
        let host = self.host.clone();
        let context = CallContext::new(call_id, deadline, request.dry_run, cancellation, host)
            .traced(request.traceparent.as_deref())
            .with_interaction(request.interaction.take());
        Ok(Entered { request, context, in_flight })
    }

    fn catalog(&self, context: &CallContext) -> Result<Object, AdapterError> {
        let catalog = self.adapter.catalog(context)?;
        match serde_json::to_value(&catalog) {
            Ok(serde_json::Value::Object(catalog)) => Ok(catalog),
            _ => Err(AdapterError::bug("the catalogue is not JSON")),
        }
    }

    /// Tells the host of a panic that no caller is told of.
    fn log(&self, error: &AdapterError) {
        self.host.log(Level::Error, &error.to_string());
    }
}

impl<A: Adapter> Drop for Guarded<A> {
    fn drop(&mut self) {
        let adapter = &mut self.adapter;
        let dropped = guard("drop", || {
            // SAFETY: this is the destructor; nothing uses the adapter after it.
            unsafe { ManuallyDrop::drop(adapter) };
        });
        if let Err(error) = dropped {
            self.log(&error);
        }
    }
}

/// A request under way.
struct Entered<'a> {
    request: Request<'a>,
    context: CallContext,
    /// The entry under the call's id, which goes with the answer.
    in_flight: Option<InFlight>,
}

/// A request as it crosses from the host.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    tool: Cow<'a, str>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    args: Object,
    #[serde(borrow, default, deserialize_with = "borrowed")]
    call_id: Option<Cow<'a, str>>,
    #[serde(default)]
    deadline_ms: Option<u64>,
    #[serde(default)]
    dry_run: bool,
    #[serde(borrow, default, deserialize_with = "borrowed")]
    traceparent: Option<Cow<'a, str>>,
    #[serde(default)]
    interaction: Option<Interaction>,
}

/// Reads a text that may be absent without copying it, which serde does by itself only for one that may not.
fn borrowed<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Cow<'de, str>>, D::Error> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    Ok(Option::<Text<'de>>::deserialize(deserializer)?.map(|Text(text)| text))
}

impl<'a> Request<'a> {
    /// Says whether this is the router's own question, which no author answers as a call.
    fn asks_for_catalog(&self) -> bool {
        (self.tool.as_ref(), self.method.as_ref()) == Catalog::CALL
    }

    fn read(text: &'a str) -> Result<Self, AdapterError> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        // The host bounds the depth of arguments, at more than serde does.
        deserializer.disable_recursion_limit();
        Self::deserialize(&mut deserializer)
            .and_then(|request| deserializer.end().map(|()| request))
            .map_err(|error| AdapterError::bug(format!("the host's request is not valid: {error}")))
    }
}
