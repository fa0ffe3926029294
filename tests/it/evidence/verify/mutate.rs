//! Everything that can be done to the files of a bundle, one thing at a time and undone again.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nexus_router::json::{Limits, Object, Value, parse, to_jcs, to_pretty};

/// A bundle that is changed in place.
pub struct Patient {
    pub directory: PathBuf,
    pub files: BTreeMap<String, Vec<u8>>,
    pub directories: Vec<String>,
}

/// Hears what was done, while it is done.
pub type Seen<'a> = &'a mut dyn FnMut(&Patient, &str);

impl Patient {
    pub fn new(directory: &Path) -> Self {
        let mut patient = Self {
            directory: directory.to_owned(),
            files: BTreeMap::new(),
            directories: vec![String::new()],
        };
        patient.read("");
        patient
    }

    fn read(&mut self, inside: &str) {
        for entry in fs::read_dir(self.path(inside)).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let path = if inside.is_empty() { name } else { format!("{inside}/{name}") };
            if entry.file_type().unwrap().is_dir() {
                self.directories.push(path.clone());
                self.read(&path);
            } else {
                self.files.insert(path.clone(), fs::read(entry.path()).unwrap());
            }
        }
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    pub fn write(&self, file: &str, bytes: &[u8]) {
        fs::write(self.path(file), bytes).unwrap();
    }

    /// Puts a file back as it was.
    pub fn restore(&self, file: &str) {
        self.write(file, &self.files[file]);
    }

    /// Makes everything as it was.
    pub fn restore_all(&self) {
        fs::remove_dir_all(&self.directory).unwrap();
        for directory in &self.directories {
            fs::create_dir_all(self.path(directory)).unwrap();
        }
        for file in self.files.keys() {
            self.restore(file);
        }
    }

    /// Writes a file otherwise, and puts it back. Says nothing of a change that is none.
    fn with(&self, file: &str, bytes: &[u8], what: &str, seen: Seen<'_>) {
        if bytes == self.files[file] {
            return;
        }
        self.write(file, bytes);
        seen(self, &format!("{file}: {what}"));
        self.restore(file);
    }

    /// Flips one bit of each byte, another one from byte to byte; and of short files each bit.
    pub fn flips(&self, seen: Seen<'_>) {
        for (file, bytes) in &self.files {
            let mut changed = bytes.clone();
            for at in 0..bytes.len() {
                let bits = if bytes.len() <= 80 { 0..8 } else { at % 8..at % 8 + 1 };
                for bit in bits {
                    changed[at] ^= 1 << bit;
                    self.with(file, &changed, &format!("bit {bit} of byte {at}"), seen);
                    changed[at] = bytes[at];
                }
            }
        }
    }

    /// Cuts each file at each length, lets bytes out, puts bytes in, and adds some at the end.
    pub fn lengths(&self, seen: Seen<'_>) {
        for (file, bytes) in &self.files {
            for length in 0..bytes.len() {
                self.with(file, &bytes[..length], &format!("cut to {length}"), seen);
            }
            for at in (0..bytes.len()).step_by(7) {
                let mut less = bytes.clone();
                drop(less.drain(at..(at + 5).min(bytes.len())));
                self.with(file, &less, &format!("without bytes from {at}"), seen);
                let mut more = bytes.clone();
                more.insert(at, b' ');
                self.with(file, &more, &format!("with a blank at {at}"), seen);
            }
            for more in [&b"\n"[..], b" ", b"\0", b"x", b"{}", &bytes.clone()] {
                let longer = [&bytes[..], more].concat();
                self.with(file, &longer, &format!("with {more:?} at the end"), seen);
            }
        }
    }

    /// Removes each file and directory, and puts other things in their place.
    pub fn removals(&self, seen: Seen<'_>) {
        for file in self.files.keys() {
            let path = self.path(file);
            fs::remove_file(&path).unwrap();
            seen(self, &format!("{file}: removed"));
            fs::create_dir(&path).unwrap();
            seen(self, &format!("{file}: a directory"));
            fs::remove_dir(&path).unwrap();
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o644.into()).unwrap();
            seen(self, &format!("{file}: a pipe"));
            fs::remove_file(&path).unwrap();
            let elsewhere = tempfile::NamedTempFile::new().unwrap();
            fs::write(elsewhere.path(), &self.files[file]).unwrap();
            std::os::unix::fs::symlink(elsewhere.path(), &path).unwrap();
            seen(self, &format!("{file}: a link to the same bytes"));
            fs::remove_file(&path).unwrap();
            self.restore(file);
        }
        for directory in self.directories.iter().filter(|directory| !directory.is_empty()) {
            fs::remove_dir_all(self.path(directory)).unwrap();
            seen(self, &format!("{directory}: removed"));
            fs::write(self.path(directory), b"").unwrap();
            seen(self, &format!("{directory}: a file"));
            fs::remove_file(self.path(directory)).unwrap();
            self.restore_all();
        }
    }

    /// Adds files, directories, links and pipes everywhere.
    pub fn additions(&self, seen: Seen<'_>) {
        let names: [&[u8]; 8] = [
            b"extra.txt",
            b".hidden",
            b"a b",
            b"-rf",
            b"x\ny",
            b"\xff\xfe",
            b"z.json",
            b"\xc3\xa9",
        ];
        for directory in &self.directories {
            for name in names {
                let path = self.path(directory).join(std::ffi::OsStr::from_bytes(name));
                let shown = format!("{directory}/{}", String::from_utf8_lossy(name));
                for content in [&b""[..], b"{}", b"more"] {
                    fs::write(&path, content).unwrap();
                    seen(self, &format!("{shown}: added with {} bytes", content.len()));
                    fs::remove_file(&path).unwrap();
                }
                fs::create_dir(&path).unwrap();
                seen(self, &format!("{shown}: an empty directory"));
                fs::write(path.join("inner"), b"x").unwrap();
                seen(self, &format!("{shown}: a directory with a file"));
                fs::remove_dir_all(&path).unwrap();
                std::os::unix::fs::symlink(".", &path).unwrap();
                seen(self, &format!("{shown}: a link to where it is"));
                fs::remove_file(&path).unwrap();
                rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o644.into()).unwrap();
                seen(self, &format!("{shown}: a pipe"));
                fs::remove_file(&path).unwrap();
            }
        }
    }

    /// Gives each file other names, moves it to every directory, and swaps every two.
    pub fn renames(&self, seen: Seen<'_>) {
        for file in self.files.keys() {
            let (stem, name) = file.rsplit_once('/').unwrap_or(("", file));
            let upper = name.to_uppercase();
            for other in [format!("{name}x"), format!("x{name}"), upper, name.replace('.', "_")] {
                let other = if stem.is_empty() { other } else { format!("{stem}/{other}") };
                self.moved(file, &other, seen);
            }
            for directory in &self.directories {
                let other = format!("{directory}/{name}");
                self.moved(file, other.trim_start_matches('/'), seen);
            }
            for other in self.files.keys().filter(|other| *other > file) {
                if self.files[file] == self.files[other] {
                    continue;
                }
                self.write(file, &self.files[other]);
                self.write(other, &self.files[file]);
                seen(self, &format!("{file} and {other}: swapped"));
                self.restore(file);
                seen(self, &format!("{file} instead of {other}"));
                self.restore(other);
            }
        }
        for directory in self.directories.iter().filter(|directory| !directory.is_empty()) {
            let other = format!("{directory}x");
            fs::rename(self.path(directory), self.path(&other)).unwrap();
            seen(self, &format!("{directory}: renamed"));
            fs::rename(self.path(&other), self.path(directory)).unwrap();
        }
    }

    fn moved(&self, file: &str, other: &str, seen: Seen<'_>) {
        if self.files.contains_key(other) || self.directories.iter().any(|known| known == other) {
            return;
        }
        fs::rename(self.path(file), self.path(other)).unwrap();
        seen(self, &format!("{file}: renamed to {other}"));
        fs::write(self.path(file), &self.files[file]).unwrap();
        seen(self, &format!("{file}: copied to {other}"));
        fs::remove_file(self.path(other)).unwrap();
    }

    /// Changes each member of each document, written again in canonical form; and writes each in other forms.
    pub fn members(&self, seen: Seen<'_>) {
        for (file, bytes) in &self.files {
            let Some(value) = document(bytes) else { continue };
            let line = bytes.ends_with(b"\n");
            for (what, changed) in changes(&value) {
                let mut text = to_jcs(&changed).unwrap();
                if line {
                    text.push('\n');
                }
                self.with(file, text.as_bytes(), &what, seen);
            }
            let text = to_jcs(&value).unwrap();
            let escaped = text.replacen('e', "\\u0065", 1);
            let reversed = to_jcs_reversed(&value);
            for other in
                [to_pretty(&value), format!("{text} "), format!(" {text}"), escaped, reversed]
            {
                self.with(file, other.as_bytes(), "the same in another form", seen);
            }
            let twice = text.replacen('{', "{\"files\":{},", 1);
            self.with(file, twice.as_bytes(), "with a member more", seen);
        }
    }
}

/// Reads a file as one JSON document, if it is one.
pub fn document(bytes: &[u8]) -> Option<Value> {
    let value = parse(bytes, Limits::REQUEST).ok()?;
    matches!(value, Value::Object(_) | Value::Array(_)).then_some(value)
}

/// Writes an object with its members the other way round.
fn to_jcs_reversed(value: &Value) -> String {
    let Value::Object(object) = value else { return to_jcs(value).unwrap() };
    let members = object.iter().collect::<Vec<_>>();
    let mut members: Vec<String> = members
        .into_iter()
        .map(|(name, value)| {
            format!("{}:{}", to_jcs(&name.into()).unwrap(), to_jcs(value).unwrap())
        })
        .collect();
    members.sort();
    members.reverse();
    format!("{{{}}}", members.join(","))
}

/// Returns every value that differs from a value in one member, item or scalar, with what was done.
pub fn changes(value: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    collect(value, "", &mut |what, changed| all.push((what, changed)));
    all
}

fn collect(value: &Value, path: &str, give: &mut dyn FnMut(String, Value)) {
    let mut other = |what: &str, changed: Value| give(format!("{path}: {what}"), changed);
    match value {
        Value::Null => {
            other("a text", "x".into());
            other("zero", 0.into());
            other("false", false.into());
        }
        Value::Bool(truth) => {
            other("the contrary", (!truth).into());
            other("null", Value::Null);
        }
        Value::Int(number) => {
            other("one more", (number + 1).into());
            other("less", (number - 7).into());
            other("a text", number.to_string().into());
            other("null", Value::Null);
        }
        Value::String(text) => {
            other("longer", format!("{text}x").into());
            other("empty", "".into());
            other("null", Value::Null);
            if let Some(first) = text.chars().next() {
                let changed = if first == '0' { '1' } else { '0' };
                other("begins otherwise", text.replacen(first, &changed.to_string(), 1).into());
            }
            if text.len() == 64 {
                other("zeros", "0".repeat(64).into());
            }
        }
        Value::Array(items) => {
            other("null", Value::Null);
            other("one more", [items.clone(), vec!["x".into()]].concat().into());
            let reversed: Vec<Value> = items.iter().rev().cloned().collect();
            other("the other way round", reversed.into());
            for (at, item) in items.iter().enumerate() {
                let mut less = items.clone();
                less.remove(at);
                give(format!("{path}/{at}: removed"), less.into());
                let mut twice = items.clone();
                twice.insert(at, item.clone());
                give(format!("{path}/{at}: twice"), twice.into());
                collect(item, &format!("{path}/{at}"), &mut |what, changed| {
                    let mut items = items.clone();
                    items[at] = changed;
                    give(what, items.into());
                });
            }
        }
        Value::Object(object) => {
            let mut more = object.clone();
            more.insert("zz", Value::Null);
            other("one more member", more.into());
            other("null", Value::Null);
            for (name, member) in object.iter() {
                let mut less = object.clone();
                less.remove(name);
                give(format!("{path}/{name}: removed"), less.clone().into());
                less.insert(format!("{name}x"), member.clone());
                give(format!("{path}/{name}: renamed"), less.into());
                collect(member, &format!("{path}/{name}"), &mut |what, changed| {
                    let mut object: Object = object.clone();
                    object.insert(name, changed);
                    give(what, object.into());
                });
            }
        }
        Value::BigInt(_) | Value::Float(_) => other("null", Value::Null),
    }
}
