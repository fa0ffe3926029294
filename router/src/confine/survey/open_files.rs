//! Counts files without a name that processes have open or mapped.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType};
use rustix::io::Errno;

use super::{Surveyor, mask};
use crate::confine::disk::DiskExcess;
use crate::sandbox::share_descriptors;
use crate::worker::session::{self, StatFields};

/// A survey reads no more descriptors: it would take too long.
const MOST_DESCRIPTORS: u64 = 50_000;
/// Nor more mappings.
const MOST_MAPPINGS: u64 = 500_000;

/// The descriptors and mappings that were read.
#[derive(Default)]
struct OpenFileCounts {
    descriptors: u64,
    mappings: u64,
}

impl Surveyor<'_> {
    /// Counts files without a name that processes have open or mapped.
    pub(super) fn survey_open_files(&mut self) {
        let Some(session) = self.scope.session else { return };
        let mut counts = OpenFileCounts::default();
        for process in session::members(session) {
            if self.is_over() {
                return;
            }
            self.survey_process(process, &mut counts);
        }
    }

    /// Counts the files of one process. Those of a process that cannot be read are unknown.
    fn survey_process(&mut self, process: i32, counts: &mut OpenFileCounts) {
        let threads = std::fs::read_dir(format!("/proc/{process}/task"));
        let names = threads.into_iter().flatten().flatten().map(|entry| entry.file_name());
        let threads = names.filter_map(|name| name.to_str()?.parse::<i32>().ok());
        // A thread may have descriptors of its own, and outlive the first thread.
        let mut first_read = None;
        for thread in threads {
            if self.is_over() {
                return;
            }
            if first_read.is_some_and(|first| share_descriptors(first, thread)) {
                continue;
            }
            let place = PathBuf::from(format!("/proc/{process}/task/{thread}"));
            match self.survey_thread(&place, first_read.is_none(), counts) {
                Ok(()) => first_read = first_read.or(Some(thread)),
                Err(_) if has_ended(&place) => {}
                Err(_) => self.found.uncounted = Some(DiskExcess::ClosedProcess(process)),
            }
            if counts.descriptors > MOST_DESCRIPTORS || counts.mappings > MOST_MAPPINGS {
                self.found.uncounted = Some(DiskExcess::TooManyDescriptors);
            }
        }
    }

    /// Counts the files of a thread: its descriptors, and its mappings, which are those of its process.
    fn survey_thread(
        &mut self,
        thread: &Path,
        maps: bool,
        counts: &mut OpenFileCounts,
    ) -> io::Result<()> {
        for entry in std::fs::read_dir(thread.join("fd"))? {
            counts.descriptors += 1;
            if counts.descriptors > MOST_DESCRIPTORS {
                return Ok(());
            }
            match self.count_nameless(&entry?.path()) {
                // It was closed meanwhile.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if maps {
            let maps = std::fs::read(thread.join("maps"))?;
            for line in maps.split(|byte| *byte == b'\n') {
                counts.mappings += 1;
                if let Some(mapping) = NamelessMapping::read(line) {
                    self.count_mapping(thread, &mapping);
                }
            }
        }
        Ok(())
    }

    /// Counts the file at the end of a link of the kernel, if it has no name.
    fn count_nameless(&mut self, link: &Path) -> Result<(), Errno> {
        let status = rustix::fs::statx(CWD, link, AtFlags::empty(), mask())?;
        let is_file = FileType::from_raw_mode(status.stx_mode.into()) == FileType::RegularFile;
        if is_file && status.stx_nlink == 0 {
            self.count(&status);
        }
        Ok(())
    }

    /// Counts a mapped file. Without the rights of a superuser its size is unknown, and the limit of a single file
    /// counts. Outside of its places, an execution writes no files.
    fn count_mapping(&mut self, thread: &Path, mapping: &NamelessMapping<'_>) {
        if self.counted.contains(&mapping.identity) {
            return;
        }
        let link = thread.join("../../map_files").join(OsStr::from_bytes(mapping.range));
        let is_known = self.count_nameless(&link).is_ok();
        let is_within = self.scope.places.iter().any(|place| mapping.is_below(place));
        if !is_known && is_within && self.counted.insert(mapping.identity) {
            self.found.bytes = self.found.bytes.saturating_add(self.scope.file);
            self.count_files(1);
        }
    }
}

/// Returns whether a thread has ended, or is about to.
fn has_ended(thread: &Path) -> bool {
    match StatFields::read(thread) {
        Ok(fields) => fields.is_exiting(),
        Err(error) => session::is_gone(&error),
    }
}

/// A mapping of a file that has no name any more.
#[derive(Debug, PartialEq, Eq)]
struct NamelessMapping<'a> {
    range: &'a [u8],
    identity: (u32, u32, u64),
    /// The last path of the file.
    path: &'a [u8],
}

impl<'a> NamelessMapping<'a> {
    /// Reads a line of `/proc/PID/maps`. Skips shared memory without a file, which the memory limit bounds.
    fn read(line: &'a [u8]) -> Option<Self> {
        let line = line.strip_suffix(b" (deleted)")?;
        let path = &line[line.iter().position(|byte| *byte == b'/')?..];
        if path == b"/dev/zero" || path.starts_with(b"/memfd:") {
            return None;
        }
        let fields = std::str::from_utf8(&line[..line.len() - path.len()]).ok()?;
        let mut fields = fields.split_ascii_whitespace();
        let range = fields.next()?.as_bytes();
        let (device, inode) = (fields.nth(2)?, fields.next()?);
        let (major, minor) = device.split_once(':')?;
        let part = |text: &str| u32::from_str_radix(text, 16).ok();
        Some(Self { range, identity: (part(major)?, part(minor)?, inode.parse().ok()?), path })
    }

    /// Returns whether the file was below a directory. The kernel writes line breaks in paths as `\012`.
    fn is_below(&self, directory: &Path) -> bool {
        let directory = directory.as_os_str().as_bytes().split(|byte| *byte == b'\n');
        let directory = directory.collect::<Vec<_>>().join(&b"\\012"[..]);
        let rest = self.path.strip_prefix(directory.as_slice());
        rest.is_some_and(|rest| rest.starts_with(b"/"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::scope;
    use super::*;
    use std::collections::HashSet;
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::confine::survey::{Survey, SurveyScope};

    #[test]
    fn mappings_of_nameless_files_are_read() {
        let line = b"7f0000001000-7f0000003000 r--s 00001000 fe:10 1234   /w/a b\xff (deleted)";
        let read = NamelessMapping::read(line).unwrap();
        assert_eq!(read.range, b"7f0000001000-7f0000003000");
        assert_eq!((read.identity, read.path), ((0xfe, 0x10, 1234), &b"/w/a b\xff"[..]));
        for (directory, expected) in [("/w", true), ("/w/a", false), ("/", false), ("/x", false)] {
            assert_eq!(read.is_below(Path::new(directory)), expected, "{directory}");
        }
        let line = b"7f0000001000-7f0000003000 r--s 00001000 fe:10 1234   /w\\012v/a (deleted)";
        assert!(NamelessMapping::read(line).unwrap().is_below(Path::new("/w\nv")));
        for other in [
            "7f0000001000-7f0000003000 r--p 00000000 fe:10 1234   /usr/lib/x.so",
            "7f0000001000-7f0000003000 rw-s 00000000 00:01 12   /dev/zero (deleted)",
            "7f0000001000-7f0000003000 rw-s 00000000 00:01 12   /memfd:x (deleted)",
            "nonsense (deleted)",
        ] {
            assert_eq!(NamelessMapping::read(other.as_bytes()), None, "{other}");
        }
    }

    /// Surveys with a scope, and returns the result.
    fn survey(scope: &SurveyScope, work: impl FnOnce(&mut Surveyor<'_>)) -> Survey {
        let mut surveyor = Surveyor {
            scope,
            stop: &AtomicBool::new(false),
            found: Survey::default(),
            counted: HashSet::new(),
            pending: Vec::new(),
            entries: 0,
        };
        work(&mut surveyor);
        surveyor.found
    }

    #[test]
    fn a_mapped_file_of_unknown_size_counts_as_the_largest() {
        let scope = SurveyScope { file: 7, ..scope(Path::new("/w")) };
        let nowhere = Path::new("/proc/self/task/0");
        let found = survey(&scope, |surveyor| {
            let files = [(&b"/w/a"[..], 1), (b"/w/a", 1), (b"/w/b", 2), (b"/usr/lib/c", 3)];
            for (path, inode) in files {
                let mapping = NamelessMapping { range: b"0-1", identity: (8, 1, inode), path };
                surveyor.count_mapping(nowhere, &mapping);
            }
        });
        assert_eq!((found.bytes, found.files), (14, 2));
    }

    #[test]
    fn descriptors_that_threads_share_are_read_once() {
        const MANY: u64 = 64;
        let own = std::process::id().cast_signed();
        let file = std::fs::File::open("/dev/null").unwrap();
        let files: Vec<_> = (0..MANY).map(|_| file.try_clone().unwrap()).collect();
        let is_over = AtomicBool::new(false);
        let mut counts = OpenFileCounts::default();
        let found = std::thread::scope(|scoped| {
            let threads: Vec<_> = (0..MANY)
                .map(|_| {
                    scoped.spawn(|| {
                        while !is_over.load(Ordering::Relaxed) {
                            std::thread::park();
                        }
                    })
                })
                .collect();
            let found = survey(&scope(Path::new("/w")), |surveyor| {
                surveyor.survey_process(own, &mut counts);
            });
            is_over.store(true, Ordering::Relaxed);
            threads.iter().for_each(|thread| thread.thread().unpark());
            found
        });
        drop(files);
        assert!(counts.descriptors >= MANY, "{}", counts.descriptors);
        // Not every kernel compares tables. Without that, every thread is read, up to the limit.
        assert_eq!(counts.descriptors < MANY * MANY, share_descriptors(own, own));
        assert_eq!(found.uncounted, None);
    }

    #[test]
    fn more_descriptors_than_can_be_read_are_not_counted() {
        let own = std::process::id().cast_signed();
        let mut counts = OpenFileCounts { descriptors: MOST_DESCRIPTORS, mappings: 0 };
        let found = survey(&scope(Path::new("/w")), |surveyor| {
            surveyor.survey_process(own, &mut counts);
        });
        assert_eq!(found.uncounted, Some(DiskExcess::TooManyDescriptors));
    }

    #[test]
    fn a_thread_that_has_gone_has_ended() {
        let mut child = Command::new("/bin/cat").stdin(Stdio::piped()).spawn().unwrap();
        let place = PathBuf::from(format!("/proc/{0}/task/{0}", child.id()));
        let before = has_ended(&place);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((before, has_ended(&place)), (false, true));
    }
}
