//! Where the bundles of a cabinet are: a walk over its directories that opens every one of them from the one above.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::FileType;

use super::verdict::{Findings, Kind, Reason};
use super::walk::{Limits, is_plain, list, open_in};

/// The directory of executions, rejections and verifications.
pub(super) const EVIDENCE: &str = "evidence";
/// The directory of verifications, where there is no task.
pub(super) const VERIFY: &str = "verify";
/// The directory of the rejections of a task.
pub(super) const REJECTIONS: &str = "rejections";
/// The directory of plans.
pub(super) const PLAN: &str = "plan";

/// A bundle in its place.
pub(super) struct Spot {
    pub(super) kind: Kind,
    /// The path from the root of the cabinet.
    pub(super) path: String,
    /// The directory of the bundle.
    pub(super) directory: OwnedFd,
}

/// Goes through a cabinet.
pub(super) struct Places<'a> {
    pub(super) limits: Limits,
    pub(super) findings: &'a mut Findings,
    pub(super) found: usize,
    /// Takes each bundle; whoever has seen enough says so.
    pub(super) each: &'a mut dyn FnMut(Spot),
}

impl Places<'_> {
    /// Finds every bundle, in the order of their paths within each directory.
    pub(super) fn walk(&mut self, root: BorrowedFd<'_>) {
        self.below(root, EVIDENCE, EVIDENCE, |places, task, name, path| {
            if name == VERIFY {
                places.bundles(&task, path, Kind::Verification);
            } else {
                places.task(&task, path);
            }
        });
        self.below(root, PLAN, PLAN, |places, directory, _, path| {
            places.give(Kind::Plan, path.to_owned(), directory);
        });
    }

    fn task(&mut self, task: &OwnedFd, path: &str) {
        self.each_directory(task.as_fd(), path, |places, directory, name, path| {
            if name == REJECTIONS {
                places.bundles(&directory, path, Kind::Rejection);
            } else {
                places.give(Kind::Execution, path.to_owned(), directory);
            }
        });
    }

    fn bundles(&mut self, directory: &OwnedFd, path: &str, kind: Kind) {
        self.each_directory(directory.as_fd(), path, |places, directory, _, path| {
            places.give(kind, path.to_owned(), directory);
        });
    }

    fn give(&mut self, kind: Kind, path: String, directory: OwnedFd) {
        self.found += 1;
        (self.each)(Spot { kind, path, directory });
    }

    /// Opens a directory that may be absent, and goes through it.
    fn below(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &str,
        path: &str,
        each: impl FnMut(&mut Self, OwnedFd, &str, &str),
    ) {
        match open_in(parent, name) {
            Ok(directory) => self.each_directory(directory.as_fd(), path, each),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => self.refused(path, &error),
        }
    }

    fn refused(&mut self, path: &str, error: &std::io::Error) {
        match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            // With these flags a link is no directory, and so is whatever else is none.
            Some(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
                let message = "it is no directory, but a link or a file";
                self.findings.tell(Reason::Symlink, path, message);
            }
            _ => {
                self.findings.tell(Reason::Unreadable, path, format!("it cannot be read: {error}"));
            }
        }
    }

    fn each_directory(
        &mut self,
        directory: BorrowedFd<'_>,
        path: &str,
        mut each: impl FnMut(&mut Self, OwnedFd, &str, &str),
    ) {
        let left = self.limits.bundles.saturating_sub(self.found);
        let (names, more) = match list(directory, left) {
            Ok(listed) => listed,
            Err(error) => return self.refused(path, &error),
        };
        if more {
            let most = self.limits.bundles;
            let message = format!("there are more than the {most} bundles that are looked at");
            self.findings.tell(Reason::TooManyEntries, path, message);
        }
        for (name, kind) in names {
            let shown = String::from_utf8_lossy(&name);
            let inner = format!("{path}/{shown}");
            let Some(name) = std::str::from_utf8(&name).ok().filter(|name| is_plain(name)) else {
                let message = "no bundle has such a name";
                self.findings.tell(Reason::BadName, &inner, message);
                continue;
            };
            if kind == FileType::Symlink {
                self.findings.tell(Reason::Symlink, &inner, "it is a symbolic link, and no bundle");
            } else if kind != FileType::Directory {
                let message = "it is no directory; there are only directories here";
                self.findings.tell(Reason::Unlisted, &inner, message);
            } else {
                match open_in(directory, name) {
                    Ok(below) => each(self, below, name, &inner),
                    Err(error) => self.refused(&inner, &error),
                }
            }
        }
    }
}
