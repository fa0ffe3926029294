//! Reads grants as the operator writes them, in `router.toml` and on the command line.

use std::path::{Component, Path, PathBuf};

use super::{Grants, check_path};

/// A kind of grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A place in the network.
    Connect,
    /// A path to read.
    Read,
    /// A path to write.
    Write,
    /// A program to start.
    Run,
    /// A variable to see.
    Env,
}

impl Kind {
    /// Every kind, with its name.
    pub const ALL: &[(&'static str, Self)] = &[
        ("connect", Self::Connect),
        ("read", Self::Read),
        ("write", Self::Write),
        ("run", Self::Run),
        ("env", Self::Env),
    ];
}

/// Why something cannot be granted. It says nothing of the text, which may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What is wrong with it.
    pub why: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

impl Grants {
    /// Adds what a text grants. A path is relative to `base`, which is absolute.
    ///
    /// # Errors
    /// When the text is nothing that can be granted.
    pub fn add(&mut self, kind: Kind, text: &str, base: &Path) -> Result<(), Refused> {
        match kind {
            Kind::Connect => {
                let remedy = "write HOST:PORT, such as api.example.com:443, 127.0.0.1:8080 or 10.0.0.0/8:5432";
                let endpoint = text.parse().map_err(|why| Refused { why, remedy })?;
                put(&mut self.connect, endpoint);
            }
            Kind::Read => put(&mut self.read, path(text, base)?),
            Kind::Write => put(&mut self.write, path(text, base)?),
            Kind::Run => put(&mut self.run, path(text, base)?),
            Kind::Env => put(&mut self.env, variable(text)?),
        }
        Ok(())
    }
}

/// Adds what is not there yet.
fn put<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

fn path(text: &str, base: &Path) -> Result<PathBuf, Refused> {
    let refused = |why| Refused { why, remedy: "write the path of the file or directory itself" };
    if text.is_empty() || text.contains('\0') {
        return Err(refused("the path is empty, or holds a NUL"));
    }
    // Only what is written: how the file was named that holds it is no fault of the path.
    if Path::new(text).components().any(|part| part == Component::ParentDir) {
        return Err(refused("the path goes up with .."));
    }
    let mut path = base.join(text);
    if check_path(&path).is_err() {
        path = base.canonicalize().unwrap_or_else(|_| base.to_owned()).join(text);
        check_path(&path).map_err(refused)?;
    }
    // Without dots that mean nothing.
    Ok(path.components().collect())
}

fn variable(text: &str) -> Result<String, Refused> {
    if text.is_empty() || text.contains(['=', '\0']) {
        let remedy = "write the name alone, such as HOME; its value is that of the router";
        return Err(Refused { why: "it is no name of a variable", remedy });
    }
    // In any case of letters, as the router itself reads them.
    let own = text.get(.."NEXUS_ROUTER".len());
    if own.is_some_and(|start| start.eq_ignore_ascii_case("NEXUS_ROUTER")) {
        let remedy = "what an adapter should know belongs in its config";
        return Err(Refused { why: "variables of the router are its own", remedy });
    }
    if text.starts_with("LD_") {
        let remedy = "leave it out; variables that begin with LD_ say which code is loaded";
        return Err(Refused { why: "it steers the system's loader", remedy });
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_granted_once() {
        let mut grants = Grants::default();
        for (kind, text) in [
            (Kind::Connect, "A.example:443"),
            (Kind::Connect, "a.example:443"),
            (Kind::Read, "data"),
            (Kind::Read, "./data"),
            (Kind::Write, "/srv/out"),
            (Kind::Run, "/usr/bin/git"),
            (Kind::Env, "HOME"),
        ] {
            grants.add(kind, text, Path::new("/etc/router")).unwrap();
        }
        let expected = Grants {
            connect: vec!["a.example:443".parse().unwrap()],
            read: vec!["/etc/router/data".into()],
            write: vec!["/srv/out".into()],
            run: vec!["/usr/bin/git".into()],
            env: vec!["HOME".to_owned()],
        };
        assert_eq!(grants, expected);
    }

    #[test]
    fn what_cannot_be_granted_is_refused() {
        let mut grants = Grants::default();
        for (kind, text, told) in [
            (Kind::Connect, "example.com", "no port"),
            (Kind::Read, "", "empty"),
            (Kind::Read, "a\0b", "NUL"),
            (Kind::Write, "../up", ".."),
            (Kind::Run, "/usr/bin/../bin/git", ".."),
            (Kind::Env, "A=hunter22", "no name"),
            (Kind::Env, "", "no name"),
            (Kind::Env, "A\0", "no name"),
            (Kind::Env, "NEXUS_ROUTER_TOKEN", "its own"),
            (Kind::Env, "nexus_router__secrets__t", "its own"),
            (Kind::Env, "LD_PRELOAD", "loader"),
        ] {
            let refused = grants.add(kind, text, Path::new("/")).unwrap_err();
            assert!(refused.why.contains(told) && !refused.remedy.is_empty(), "{refused:?}");
        }
        assert!(grants.is_empty());
    }

    #[test]
    fn a_base_that_was_named_with_dots_is_straightened() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("inside")).unwrap();
        let mut grants = Grants::default();
        grants.add(Kind::Read, "data", &base.join("inside/..")).unwrap();
        assert_eq!(grants.read, [base.join("data")]);
    }
}
