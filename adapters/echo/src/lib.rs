//! An adapter that returns its arguments.
#![forbid(unsafe_code)]

use nexus_router_sdk::{
    Adapter, AdapterError, CallContext, Capability, Manifest, Object, export_adapter,
};

const MANIFEST: Manifest = Manifest::new("echo", CAPABILITIES).router_versions(">=1.2,<2");
const CAPABILITIES: &[Capability] = &[Capability::Apply, Capability::DryRun];

struct Echo {
    adapter_id: String,
}

impl Adapter for Echo {
    fn adapter_id(&self) -> &str {
        &self.adapter_id
    }

    fn adapter_kind(&self) -> &str {
        "echo"
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn call(
        &self,
        _: &CallContext,
        _: &str,
        _: &str,
        args: Object,
    ) -> Result<Object, AdapterError> {
        Ok(args)
    }
}

fn create_adapter(adapter_id: Option<&str>, _: Object) -> Result<Echo, AdapterError> {
    Ok(Echo { adapter_id: adapter_id.unwrap_or("echo").to_owned() })
}

fn make_second(adapter_id: Option<&str>, _: Object) -> Result<Echo, AdapterError> {
    Ok(Echo { adapter_id: adapter_id.unwrap_or("second").to_owned() })
}

export_adapter!(create_adapter, MANIFEST);
export_adapter!(make_second);
