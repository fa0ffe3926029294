//! The `nexus-router` binary: a child of a dry run, or the command line.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};

use mimalloc::MiMalloc;
use nexus_router::loader::CHILD_ARGUMENT;
use rustix::fs::{Mode, OFlags};

/// What one thread takes another gives back: requests, events, answers. At that the system's allocator makes threads
/// wait for each other, almost once per call, and the other one does not. But it reserves addresses by the hundred
/// megabytes, of which a child may have fewer, so children keep to the system's.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Which allocator this process has: not known before the first allocation, and for good from then on.
static CHOICE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const SYSTEM: u8 = 1;
const FAST: u8 = 2;

#[expect(unsafe_code, reason = "an allocator is unsafe by its nature; this one only passes on")]
// SAFETY: all calls of a process go to one and the same allocator, which keeps the contract.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on as it came.
        unsafe { chosen().alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: passed on as it came.
        unsafe { chosen().dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on as it came.
        unsafe { chosen().alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: passed on as it came.
        unsafe { chosen().realloc(pointer, layout, size) }
    }
}

fn chosen() -> &'static dyn GlobalAlloc {
    if is_fast() { &MiMalloc } else { &System }
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

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    // Before anything else: the child must be small and quick, and confine itself first.
    if arguments.nth(1).is_some_and(|first| first == CHILD_ARGUMENT) {
        return nexus_router::loader::run_child();
    }
    nexus_router::cli::run(std::env::args_os())
}
