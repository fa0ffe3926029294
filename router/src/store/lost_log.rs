//! Loss of a WAL: its index shows that content is missing from all files.

use std::path::Path;

use super::backup::beside;

/// Bytes of the header of the index: two copies of 48 bytes, and the state of the checkpoints.
const HEADER: usize = 136;

/// Bytes of the header of a WAL, and of the header of each frame of it.
pub(super) const WAL_HEADER: u64 = 32;
pub(super) const WAL_FRAME_HEADER: u64 = 24;

/// Returns how many pages of a removed or truncated WAL are in no file of the store, if its index shows that. The index
/// remains when a process is killed, and is gone when the next one opens the store for writing, so it is looked at before.
#[must_use]
pub fn lost_log_pages(store: &Path) -> Option<u32> {
    let index = beside(store, "-shm");
    if !index.is_file() {
        return None;
    }
    let mut header = [0; HEADER];
    std::io::Read::read_exact(&mut std::fs::File::open(index).ok()?, &mut header).ok()?;
    // A WAL grows before its index: looked up in this order, it has what the index names, also while it is written.
    let wal = std::fs::metadata(beside(store, "-wal")).map_or(0, |found| found.len());
    missing_pages(&header, wal)
}

/// Returns the number of pages that are neither in the file of the store nor in a WAL of a size.
fn missing_pages(header: &[u8; HEADER], wal_bytes: u64) -> Option<u32> {
    let number = |at: usize| -> u32 {
        let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        u32::from_ne_bytes(bytes)
    };
    let is_whole = header[..48] == header[48..96] && header[12] == 1;
    let (last, moved) = (number(16), number(96));
    // The largest page size does not fit into 16 bits, and is written as 1.
    let page = match u64::from(u16::from_ne_bytes([header[14], header[15]])) {
        1 => 65_536,
        page => page,
    };
    let present = wal_bytes.saturating_sub(WAL_HEADER) / (WAL_FRAME_HEADER + page);
    let kept = moved.max(u32::try_from(present).unwrap_or(u32::MAX));
    (is_whole && last > kept).then(|| last - kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_tells_of_pages_that_are_in_no_file() {
        let mut header = [0; HEADER];
        assert_eq!(missing_pages(&header, 0), None, "it was never filled");
        for copy in [0, 48] {
            header[copy + 12] = 1;
            header[copy + 16..copy + 20].copy_from_slice(&9_u32.to_ne_bytes());
        }
        header[96..100].copy_from_slice(&4_u32.to_ne_bytes());
        assert_eq!(missing_pages(&header, 0), Some(5));
        header[14..16].copy_from_slice(&4096_u16.to_ne_bytes());
        header[62..64].copy_from_slice(&4096_u16.to_ne_bytes());
        for (frames, missing) in [(3, Some(5)), (6, Some(3)), (8, Some(1)), (9, None), (20, None)] {
            assert_eq!(missing_pages(&header, 32 + frames * (24 + 4096)), missing, "{frames}");
        }
        header[96..100].copy_from_slice(&9_u32.to_ne_bytes());
        assert_eq!(missing_pages(&header, 0), None, "all of them were moved");
        header[96] = 0;
        header[16] = 1;
        assert_eq!(missing_pages(&header, 0), None, "the copies differ");
    }

    #[test]
    fn removed_log_of_a_store_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("runs.db");
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)",
            )
            .unwrap();
        assert_eq!(lost_log_pages(&path), None);
        std::fs::remove_file(beside(&path, "-wal")).unwrap();
        assert!(lost_log_pages(&path).is_some_and(|pages| pages > 0));
    }
}
