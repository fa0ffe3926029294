//! Factories that do not make an instance, and instances that cannot be let go of.

use nexus_router_sdk::{AdapterError, Object, code, export_adapter};
use serde_json::Value;

use crate::harm::{self, OnDrop};
use crate::raw::{Raw, raw_adapter};
use crate::stub::{Made, acting, stub};

acting!(factory_panics, || panic!("the factory gave up"));
acting!(factory_hangs, || harm::hang());
acting!(factory_aborts, || std::process::abort());
acting!(factory_segfaults, harm::segfault);
acting!(factory_exits_0, || std::process::exit(0));
acting!(factory_exits_3, || std::process::exit(3));
acting!(factory_overflows_the_stack, || harm::overflow(0));
acting!(factory_allocates_without_end, || harm::allocate_forever());
acting!(factory_prints_without_end, || harm::print_forever());
acting!(factory_panics_with_a_bomb, || std::panic::panic_any(harm::Bomb));

/// Refuses, and tells a secret of its configuration.
#[expect(clippy::needless_pass_by_value, reason = "the shape of a factory")]
fn factory_errs(_: Option<&str>, config: Object) -> Made {
    let key = config.get("api_key").and_then(Value::as_str).unwrap_or("none");
    let message = format!("the key {key} is not good");
    let details = serde_json::json!({ "config": config });
    Err(AdapterError::operational(code::CONFIG_REJECTED, message).details(details))
}

/// Refuses with a bug.
fn factory_is_buggy(_: Option<&str>, _: Object) -> Made {
    Err(AdapterError::bug("the factory found its own mistake"))
}

export_adapter!(factory_errs);
export_adapter!(factory_is_buggy);

raw_adapter!(factory_panics_unguarded, panic!("nothing holds this"));
raw_adapter!(factory_error_is_not_json, Err("just a text".to_owned()));

stub!(drop_panics { drop: OnDrop(|| panic!("the drop gave up")) });
stub!(drop_segfaults { drop: OnDrop(harm::segfault) });
stub!(drop_hangs { drop: OnDrop(|| harm::hang()) });
stub!(shutdown_panics { shutdown: || panic!("the shutdown gave up") });
raw_adapter!(
    drop_panics_unguarded,
    Ok(Raw { drop: OnDrop(|| panic!("nothing holds this")), ..Raw::default() })
);
raw_adapter!(
    shutdown_panics_unguarded,
    Ok(Raw { shutdown: || panic!("nothing holds this"), ..Raw::default() })
);

extern "C" fn segfault_at_exit() {
    harm::segfault();
}

extern "C" fn hang_at_exit() {
    harm::hang();
}

acting!(crashes_when_the_process_ends, || {
    // SAFETY: the function is there for as long as the library, which is never closed.
    unsafe { libc::atexit(segfault_at_exit) }
});

acting!(hangs_when_the_process_ends, || {
    // SAFETY: the function is there for as long as the library, which is never closed.
    unsafe { libc::atexit(hang_at_exit) }
});
