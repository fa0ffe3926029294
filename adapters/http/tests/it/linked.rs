//! The adapter behind the ABI, as a host holds it: with deadlines and cancellation.

use nexus_router_abi::abi_stable::library::LibHeader;
use nexus_router_abi::abi_stable::std_types::{ROption, RStr};
use nexus_router_abi::abi_stable::type_level::downcasting::TD_Opaque;
use nexus_router_abi::{AdapterBox, Answer, FactoryV1Ref, HostV1, HostV1_TO};
use nexus_router_sdk::exported::{Export, create, header};
use nexus_router_sdk::{Adapter, AdapterError, Host, Object};
use serde_json::{Value, json};

struct Exported;

impl Export for Exported {
    const NAME: &'static str = "create_adapter";

    fn create(
        adapter_id: Option<&str>,
        config: &str,
        host: Host,
    ) -> Result<impl Adapter, AdapterError> {
        create(&nexus_router_adapter_http::create_adapter, adapter_id, config, host)
    }
}

static HEADER: LibHeader = header::<Exported>();

struct Deaf;

impl HostV1 for Deaf {
    fn notify(&self, _: RStr<'_>) {}

    fn ask(&self, _: RStr<'_>) -> Answer {
        Answer::RErr("{}".into())
    }
}

/// An adapter made through its factory.
pub(crate) struct Linked {
    adapter: AdapterBox,
}

impl Linked {
    pub(crate) fn new(base_url: &str) -> Self {
        let factory = HEADER.init_root_module::<FactoryV1Ref>().unwrap();
        let config = json!({ "base_url": base_url }).to_string();
        let host = HostV1_TO::from_value(Deaf, TD_Opaque);
        let made = factory.create()(ROption::RNone, config.as_str().into(), host);
        Self { adapter: made.into_result().unwrap() }
    }

    /// Calls with further members of the request; the call's id is `c`.
    pub(crate) fn call(&self, mut request: Value) -> Result<Object, AdapterError> {
        for (key, value) in [("tool", "t"), ("method", "m"), ("call_id", "c")] {
            request[key] = json!(value);
        }
        request["args"] = json!({});
        match self.adapter.call(request.to_string().as_str().into()).into_result() {
            Ok(answer) => {
                let mut answer: Value = serde_json::from_str(&answer).unwrap();
                Ok(serde_json::from_value(answer["output"].take()).unwrap())
            }
            Err(error) => Err(serde_json::from_str(&error).unwrap()),
        }
    }

    pub(crate) fn cancel(&self) {
        self.adapter.cancel("c".into());
    }

    pub(crate) fn shutdown(&self) {
        self.adapter.shutdown();
    }
}
