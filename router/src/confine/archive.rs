//! Packs files into an archive (ustar) that is the same whenever the files are: sorted, without times and owners.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{Dir, FileType, OFlags};

use super::act::{named, open};

/// More files are not packed into one archive.
const MOST_FILES: usize = 10_000;
/// Nor is anything that lies deeper.
const DEEPEST: usize = 64;
const BLOCK: usize = 512;

/// Packs files, and directories with all that is in them.
pub(super) fn pack(root: &OwnedFd, paths: &[String], archive: File) -> io::Result<()> {
    let mut names = BTreeSet::new();
    for path in paths {
        list(root, path, 0, &mut names)?;
    }
    let mut out = BufWriter::new(archive);
    for name in &names {
        add(root, name, &mut out)?;
    }
    out.write_all(&[0; 2 * BLOCK])?;
    let archive = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    archive.sync_all()
}

/// Lists the files that a path leads to.
fn list(root: &OwnedFd, path: &str, depth: usize, names: &mut BTreeSet<String>) -> io::Result<()> {
    if depth > DEEPEST || names.len() >= MOST_FILES {
        let most = format!("{path:?}: at most {MOST_FILES} files, {DEEPEST} deep, are packed");
        return Err(io::Error::other(most));
    }
    let found = open(root, path, OFlags::PATH)?;
    let status = rustix::fs::fstat(&found).map_err(|error| named(path, error))?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => drop(names.insert(path.to_owned())),
        FileType::Directory => {
            let directory = open(root, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            let entries = Dir::read_from(directory.as_fd()).map_err(|error| named(path, error))?;
            for entry in entries {
                let entry = entry.map_err(|error| named(path, error))?;
                let Ok(name) = entry.file_name().to_str() else {
                    return Err(io::Error::other(format!("{path:?} has a name that is no text")));
                };
                if matches!(name, "." | "..") {
                    continue;
                }
                let below = if path == "." { name.to_owned() } else { format!("{path}/{name}") };
                list(root, &below, depth + 1, names)?;
            }
        }
        _ => return Err(io::Error::other(format!("{path:?} is no regular file and no directory"))),
    }
    Ok(())
}

/// Adds one file.
fn add(root: &OwnedFd, name: &str, out: &mut impl Write) -> io::Result<()> {
    let mut file = File::from(open(root, name, OFlags::RDONLY)?);
    let status = rustix::fs::fstat(&file).map_err(|error| named(name, error))?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(io::Error::other(format!("{name:?} is no regular file any more")));
    }
    let size = u64::try_from(status.st_size).unwrap_or_default();
    let runs = status.st_mode & 0o100 != 0;
    out.write_all(&header(name, size, if runs { 0o755 } else { 0o644 })?)?;
    let copied = io::copy(&mut (&mut file).take(size), out)?;
    if copied != size {
        return Err(io::Error::other(format!("{name:?} became shorter while it was packed")));
    }
    let rest = usize::try_from(size % BLOCK as u64).unwrap_or_default();
    out.write_all(&[0; BLOCK][..(BLOCK - rest) % BLOCK])
}

/// Returns the header of a file, without a time and an owner.
fn header(name: &str, size: u64, mode: u32) -> io::Result<[u8; BLOCK]> {
    let too = |what: &str| io::Error::other(format!("{name:?}: {what} for an archive"));
    let (prefix, short) = split(name).ok_or_else(|| too("the name is too long"))?;
    if size >= 1 << 33 {
        return Err(too("the file is too large"));
    }
    let mut header = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, short.as_bytes());
    put(100, format!("{mode:07o}\0").as_bytes());
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    put(329, b"0000000\0");
    put(337, b"0000000\0");
    put(345, prefix.as_bytes());
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

/// Splits a name into the two parts that a header has room for.
fn split(name: &str) -> Option<(&str, &str)> {
    if name.len() <= 100 {
        return Some(("", name));
    }
    let cuts = name.match_indices('/').map(|(at, _)| (&name[..at], &name[at + 1..]));
    cuts.into_iter().find(|(prefix, short)| prefix.len() <= 155 && short.len() <= 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_split_where_it_fits() {
        assert_eq!(split("a/b"), Some(("", "a/b")));
        let long = format!("{}/{}", "d".repeat(90), "f".repeat(90));
        assert_eq!(split(&long), Some((&long[..90], &long[91..])));
        assert_eq!(split(&"x".repeat(101)), None);
        assert_eq!(split(&format!("{}/f", "d".repeat(156))), None);
    }

    #[test]
    fn the_sum_is_that_of_the_header_with_blanks_in_its_place() {
        let header = header("a.txt", 5, 0o644).unwrap();
        let told = std::str::from_utf8(&header[148..154]).unwrap();
        let mut blank = header;
        blank[148..156].copy_from_slice(b"        ");
        let sum: u32 = blank.iter().map(|byte| u32::from(*byte)).sum();
        assert_eq!(u32::from_str_radix(told, 8).unwrap(), sum);
        assert_eq!(&header[257..265], b"ustar\x0000");
    }
}
