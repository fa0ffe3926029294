//! Good instances whose manifest is wrong.

use nexus_router_sdk::{Capability, Manifest};

use crate::raw::{Raw, raw_adapter};
use crate::stub::{KIND, Made, Stub};

/// Supports only routers that are long gone.
fn manifest_excludes_this_router(_: Option<&str>, _: nexus_router_sdk::Object) -> Made {
    Ok(Stub::default())
}

nexus_router_sdk::export_adapter!(
    manifest_excludes_this_router,
    Manifest::new(KIND, &[Capability::Apply]).router_versions(">=0.9,<1.0")
);

/// Exports a good instance with a manifest as a JSON text.
macro_rules! manifest {
    ($name:ident, $manifest:literal) => {
        raw_adapter!($name, $manifest, Ok(Raw::default()));
    };
}

manifest!(
    manifest_has_unknown_fields,
    r#"{"schema_version":1,"kind":"bad","capabilities":["apply"],"vendor":{"x":1}}"#
);
manifest!(
    manifest_has_wrong_default,
    r#"{"schema_version":1,"kind":"bad","capabilities":["apply"],"config_schema":{"n":{"type":"number","required":false,"default":"7"}}}"#
);
manifest!(
    manifest_has_malformed_error_codes,
    r#"{"schema_version":1,"kind":"bad","capabilities":["apply"],"error_codes":["TIMEOUT","time-out","A__B"]}"#
);
manifest!(
    manifest_version_is_no_specifier,
    r#"{"schema_version":1,"kind":"bad","capabilities":["apply"],"supported_router_versions":"latest"}"#
);
manifest!(manifest_lacks_kind, r#"{"schema_version":1,"capabilities":["apply"]}"#);
manifest!(manifest_is_an_array, r"[1,2]");
manifest!(
    manifest_has_another_kind,
    r#"{"schema_version":1,"kind":"good","capabilities":["apply"]}"#
);
manifest!(
    manifest_has_other_capabilities,
    r#"{"schema_version":1,"kind":"bad","capabilities":["apply","external"]}"#
);
