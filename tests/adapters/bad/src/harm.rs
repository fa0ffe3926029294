//! The ways in which code takes its process down or does not come back.

/// Writes to an address that no process has.
pub(crate) fn segfault() {
    let nowhere = std::ptr::without_provenance_mut::<u64>(8);
    // SAFETY: none; the fault is the point.
    unsafe { nowhere.write_volatile(1) };
}

/// Waits for ever.
pub(crate) fn hang() -> ! {
    loop {
        std::thread::park();
    }
}

/// Prints without end.
pub(crate) fn print_forever() -> ! {
    loop {
        println!("and so on");
    }
}

/// Calls itself until the stack is full.
#[expect(unconditional_recursion, reason = "it overflows the stack")]
pub(crate) fn overflow(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    overflow(depth + 1) + frame[usize::from(depth == 0)]
}

/// Allocates until nothing is left.
pub(crate) fn allocate_forever() -> ! {
    loop {
        std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(64 * 1024 * 1024)));
    }
}

/// Does something when it is dropped.
pub(crate) struct OnDrop(pub(crate) fn());

impl Drop for OnDrop {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A panic payload that panics when it is dropped.
pub(crate) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the payload panicked, too");
    }
}
