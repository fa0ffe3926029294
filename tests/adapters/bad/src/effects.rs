//! Factories that change the process, and instances that share what they should not.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use nexus_router_sdk::{AdapterError, Object, export_adapter};

use crate::harm;
use crate::stub::{Made, Stub, acting};

acting!(effect_thread, || std::thread::spawn(|| harm::hang()));
acting!(effect_descriptor, || std::mem::forget(std::fs::File::open("/dev/null")));
acting!(effect_directory, || std::env::set_current_dir("/").is_ok());
acting!(effect_output, || println!("hello from the factory"));
acting!(effect_environment, || {
    // SAFETY: the child that tries this has one thread.
    unsafe { std::env::set_var("BAD_ADAPTER", "do-not-tell-this-value") }
});
acting!(effect_signal, || {
    extern "C" fn ignore(_: c_int) {}
    let handler = ignore as extern "C" fn(c_int) as *const () as libc::sighandler_t;
    // SAFETY: the handler does nothing, which is safe in any context.
    unsafe { libc::signal(libc::SIGUSR1, handler) }
});

static MADE: AtomicU32 = AtomicU32::new(0);

/// Counts its instances in a static, and tells the number as the id.
fn shares_state(_: Option<&str>, _: Object) -> Made {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    Ok(Stub { adapter_id: format!("bad-{number}"), ..Stub::default() })
}

/// Makes one instance and no other.
fn works_once(_: Option<&str>, _: Object) -> Made {
    static DONE: AtomicU32 = AtomicU32::new(0);
    match DONE.fetch_add(1, Ordering::Relaxed) {
        0 => Ok(Stub::default()),
        _ => Err(AdapterError::bug("there can be only one")),
    }
}

export_adapter!(shares_state);
export_adapter!(works_once);
