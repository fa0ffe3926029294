//! Where staged evidence has its place: its name is free, or the same is there already.

use std::io;
use std::path::{Path, PathBuf};

use super::cabinet::{EVIDENCE, Error, PLANS, REJECTIONS, VERIFY};
use super::directory::{Directory, Renamed};
use super::manifest;
use super::staged::{Placed, Published, Staged, Target};

/// More different rejections of one task for one reason are refused.
const MOST_REJECTIONS: usize = 4096;

impl Staged {
    pub(super) fn rename(&self, name: &str) -> Result<Placed, Error> {
        let (parents, path) = self.parents(true)?;
        let Some((_, parent)) = parents.first() else {
            return Err(Error::Exists(path));
        };
        // Others may take a name between looking and renaming, but not for ever.
        for _ in 0..=MOST_REJECTIONS {
            let free = match self.look(parent, &path)? {
                Look::Same(path) => return Ok((Published { path, fresh: false }, parents)),
                Look::Free(free) => free,
            };
            match self.shared.staging.rename(name, parent, &free) {
                Ok(Renamed::Done) => {
                    let path = path.join(free);
                    return Ok((Published { path, fresh: true }, parents));
                }
                Ok(Renamed::Taken) => {}
                Ok(Renamed::Unable) => return Err(Error::NoReplace(path)),
                Err(source) => return Err(Error::File { path: path.join(free), source }),
            }
        }
        Err(Error::TooMany { path, most: MOST_REJECTIONS })
    }

    /// Returns the directory in which it appears, after it those above it, and the path of the first.
    fn parents(&self, make: bool) -> Result<(Vec<(PathBuf, Directory)>, PathBuf), Error> {
        let (top, name, inside): (_, _, &[&str]) = match &self.target {
            Target::Execution { task_id, .. } => (&self.shared.evidence, EVIDENCE, &[task_id]),
            Target::Rejection { task_id, .. } => {
                (&self.shared.evidence, EVIDENCE, &[task_id, REJECTIONS])
            }
            Target::Verification { .. } => (&self.shared.evidence, EVIDENCE, &[VERIFY]),
            Target::Plan { .. } => (&self.shared.plan, PLANS, &[]),
        };
        let mut path = self.shared.root.join(name);
        let failed = |path: &Path, source| Error::File { path: path.to_owned(), source };
        let again = top.again().map_err(|source| failed(&path, source))?;
        let mut parents = vec![(path.clone(), again)];
        for name in inside {
            let last = &parents[parents.len() - 1].1;
            let next = if make { last.ensure(name) } else { last.enter(name) };
            path.push(name);
            parents.push((path.clone(), next.map_err(|source| failed(&path, source))?));
        }
        parents.reverse();
        Ok((parents, path))
    }

    /// Looks whether the same is there before anything is written.
    pub(super) fn find_same(&self) -> Result<Option<PathBuf>, Error> {
        let (parents, path) = match self.parents(false) {
            Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            other => other?,
        };
        let Some((_, parent)) = parents.first() else { return Ok(None) };
        match self.look(parent, &path)? {
            Look::Same(path) => Ok(Some(path)),
            Look::Free(_) => Ok(None),
        }
    }

    /// Looks for the same evidence, and for a name that is free.
    fn look(&self, parent: &Directory, path: &Path) -> Result<Look, Error> {
        match &self.target {
            Target::Execution { exec_id, .. } => {
                match parent.has(exec_id).map_err(|source| self.failed(exec_id, source))? {
                    true => Err(Error::Exists(path.join(exec_id))),
                    false => Ok(Look::Free(exec_id.clone())),
                }
            }
            Target::Verification { spec_sha256: name, text } => {
                Self::compare(parent, path, name, manifest::MANIFEST, text)?
                    .ok_or_else(|| Error::Collision(path.join(name)))
            }
            Target::Plan { plan_sha256: name, text } => {
                Self::compare(parent, path, name, manifest::PLAN, text)?
                    .ok_or_else(|| Error::Collision(path.join(name)))
            }
            Target::Rejection { id, text, .. } => {
                for number in 1..=MOST_REJECTIONS {
                    let name = if number == 1 { id.clone() } else { format!("{id}-{number}") };
                    if let Some(look) =
                        Self::compare(parent, path, &name, manifest::REJECTION, text)?
                    {
                        return Ok(look);
                    }
                }
                Err(Error::TooMany { path: path.join(id), most: MOST_REJECTIONS })
            }
        }
    }

    /// Compares a file of what has a name with what it should be; none if it is something else.
    fn compare(
        parent: &Directory,
        path: &Path,
        name: &str,
        file: &str,
        text: &str,
    ) -> Result<Option<Look>, Error> {
        match parent.enter(name).and_then(|there| there.read(file, text.len())) {
            Ok(bytes) if bytes == text.as_bytes() => Ok(Some(Look::Same(path.join(name)))),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match parent.has(name) {
                    Ok(false) => Ok(Some(Look::Free(name.to_owned()))),
                    // There is something without the file: it is not the same.
                    Ok(true) => Ok(None),
                    Err(source) => Err(Error::File { path: path.join(name), source }),
                }
            }
            Err(source) => Err(Error::File { path: path.join(name), source }),
        }
    }
}

enum Look {
    Same(PathBuf),
    Free(String),
}
