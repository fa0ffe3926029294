//! UNSAFE room 4 (allocator): which allocator a process of this program has.
//!
//! What one thread takes another gives back: requests, events, answers. At that the system's allocator makes threads
//! wait for each other, almost once per call; the other one does not. But it reserves addresses by the gigabyte, of which
//! a child may have fewer, and children are small: they keep to the system's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_long;
use std::sync::atomic::{AtomicU8, Ordering};

use libmimalloc_sys::{mi_option_set, mi_option_t};
use mimalloc::MiMalloc;
use nexus_router::loader::CHILD_ARGUMENT;
use rustix::fs::{Mode, OFlags};

struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Which one it is: not known before the first allocation, and for good from then on.
static CHOICE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const SYSTEM: u8 = 1;
const FAST: u8 = 2;

/// The option that says after how many milliseconds memory is given back.
const PURGE_DELAY: mi_option_t = 15;
const DELAY_MS: c_long = 10;

/// Has memory given back soon: a daemon is idle for most of its life, and a load that is over is to leave nothing.
pub(crate) fn settle() {
    #[expect(unsafe_code, reason = "no safe interface sets an option")]
    // SAFETY: the number is that of an option, and one that may be set at any time.
    unsafe {
        mi_option_set(PURGE_DELAY, DELAY_MS);
    }
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its nature; this one only passes on")]
// SAFETY: all calls of a process go to one and the same allocator, which keeps the contract.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_fast() {
            // SAFETY: passed on as it came.
            unsafe { MiMalloc.alloc(layout) }
        } else {
            // SAFETY: passed on as it came.
            unsafe { System.alloc(layout) }
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if is_fast() {
            // SAFETY: passed on as it came.
            unsafe { MiMalloc.dealloc(pointer, layout) }
        } else {
            // SAFETY: passed on as it came.
            unsafe { System.dealloc(pointer, layout) }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_fast() {
            // SAFETY: passed on as it came.
            unsafe { MiMalloc.alloc_zeroed(layout) }
        } else {
            // SAFETY: passed on as it came.
            unsafe { System.alloc_zeroed(layout) }
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_fast() {
            // SAFETY: passed on as it came.
            unsafe { MiMalloc.realloc(pointer, layout, size) }
        } else {
            // SAFETY: passed on as it came.
            unsafe { System.realloc(pointer, layout, size) }
        }
    }
}

fn is_fast() -> bool {
    match CHOICE.load(Ordering::Relaxed) {
        FAST => true,
        SYSTEM => false,
        _ => choose(),
    }
}

/// Chooses at the first allocation, which is made before there is a second thread.
#[cold]
fn choose() -> bool {
    let fast = !is_child();
    CHOICE.store(if fast { FAST } else { SYSTEM }, Ordering::Relaxed);
    fast
}

/// Says whether this process is a child, without allocating anything. One that cannot know takes itself for a child.
fn is_child() -> bool {
    let opened =
        rustix::fs::open(c"/proc/self/cmdline", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let Ok(file) = opened else { return true };
    let mut line = [0; 4096];
    let Ok(read) = rustix::io::read(&file, &mut line) else { return true };
    let first = line[..read].split(|byte| *byte == 0).nth(1);
    first.is_none_or(|first| first == CHILD_ARGUMENT.as_bytes())
}
