//! What the system says of this process.

/// Returns the memory and the descriptors of this process, as far as the system tells.
pub(super) fn process() -> (u64, u64) {
    let pages = std::fs::read_to_string("/proc/self/statm").ok().and_then(|text| {
        text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok())
    });
    let resident = pages.unwrap_or(0) * rustix::param::page_size() as u64;
    // The directory itself is open while it is read.
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count());
    (resident, open.saturating_sub(1) as u64)
}
