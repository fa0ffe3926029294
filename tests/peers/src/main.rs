//! Checks transparency logs and proofs with the crates `signed_note` and `tlog_tiles`, and nothing of ours.
//!
//! `peers DIR VKEY` reads a whole log: its checkpoint, every tile and every entry. `peers VKEY PROOF ENTRY` checks a proof of
//! the entry in a file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use signed_note::{Note, StandardVerifier, VerifierList};
use tlog_tiles::{
    Checkpoint, Error, Hash, HashReader as _, Tile, TileHashReader, TileReader, check_record,
    check_tree, prove_record, prove_tree, record_hash, stored_hash_index, tree_hash,
};

/// Why something is refused.
type Refused = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let checked = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [directory, vkey] => log(Path::new(directory), vkey).map(|size| format!("{size} entries")),
        [vkey, path, entry] => read(path)
            .and_then(|text| read(entry).map(|entry| (text, entry)))
            .and_then(|(text, entry)| proof(&text, &entry, vkey))
            .map(|(index, size)| format!("entry {index} of {size}")),
        _ => Err("usage: peers DIR VKEY | peers VKEY PROOF ENTRY".into()),
    };
    match checked {
        Ok(what) => {
            println!("holds: {what}");
            ExitCode::SUCCESS
        }
        Err(refused) => {
            println!("refused: {refused}");
            ExitCode::FAILURE
        }
    }
}

fn read(path: impl AsRef<Path>) -> Result<Vec<u8>, Refused> {
    let path = path.as_ref();
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Checks the signature of a checkpoint.
fn checkpoint(note: &[u8], vkey: &str) -> Result<Checkpoint, Refused> {
    let verifier = StandardVerifier::new(vkey)?;
    let note = Note::from_bytes(note)?;
    let (verified, _) = note.verify(&VerifierList::new(vec![Box::new(verifier)]))?;
    let text = [note.text(), b"\n"].concat();
    // Their reader of checkpoints asks for the empty line that ends the text of a note.
    let checkpoint = Checkpoint::from_bytes(note.text())
        .or_else(|_| Checkpoint::from_bytes(&text))
        .map_err(|_| "malformed checkpoint")?;
    if verified.iter().all(|signature| signature.name() != checkpoint.origin()) {
        return Err("the key is of another log".into());
    }
    Ok(checkpoint)
}

/// Checks a proof that an entry is in a log. They have no reader of `tlog-proof`, so its lines are taken apart here.
fn proof(text: &[u8], entry: &[u8], vkey: &str) -> Result<(u64, u64), Refused> {
    let text = std::str::from_utf8(text)?;
    let (head, note) = text.split_once("\n\n").ok_or("there is no empty line")?;
    let mut lines = head.split('\n');
    if lines.next() != Some("c2sp.org/tlog-proof@v1") {
        return Err("the first line is another".into());
    }
    let index = lines.next().and_then(|line| line.strip_prefix("index ")).ok_or("no index")?;
    let number: u64 = index.parse()?;
    if number.to_string() != index {
        return Err("the index is written otherwise".into());
    }
    let hashes = lines.map(Hash::parse_hash).collect::<Result<Vec<_>, _>>()?;
    let checkpoint = checkpoint(note.as_bytes(), vkey)?;
    if number >= checkpoint.size() {
        return Err("the index is beyond the end".into());
    }
    check_record(&hashes, checkpoint.size(), *checkpoint.hash(), number, record_hash(entry))?;
    Ok((number, checkpoint.size()))
}

/// The tiles of a directory.
struct Directory(PathBuf);

impl TileReader for Directory {
    fn height(&self) -> u8 {
        8
    }

    fn read_tiles(&self, tiles: &[Tile]) -> Result<Vec<Vec<u8>>, Error> {
        let read = |tile: &Tile| {
            // Their paths begin with the height, which C2SP leaves out.
            let path = tile.path().replacen("tile/8/", "tile/", 1);
            let width = usize::try_from(tile.width()).unwrap_or(usize::MAX);
            // A tile that has become full is read in place of a part of it.
            let full = path.split(".p/").next().unwrap_or_default();
            let bytes =
                std::fs::read(self.0.join(&path)).or_else(|_| std::fs::read(self.0.join(full)));
            let mut bytes =
                bytes.map_err(|error| Error::InvalidInput(format!("{path}: {error}")))?;
            bytes.truncate(width * 32);
            Ok(bytes)
        };
        tiles.iter().map(read).collect()
    }

    fn save_tiles(&self, _: &[Tile], _: &[Vec<u8>]) {}
}

/// Checks a whole log, and returns how many entries it has.
fn log(directory: &Path, vkey: &str) -> Result<u64, Refused> {
    let checkpoint = checkpoint(&read(directory.join("checkpoint"))?, vkey)?;
    let (size, root) = (checkpoint.size(), *checkpoint.hash());
    let tiles = Directory(directory.to_owned());
    let hashes = TileHashReader::new(size, root, &tiles);
    if size == 0 {
        return Ok(0);
    }
    if tree_hash(size, &hashes)? != root {
        return Err("the tiles have another root".into());
    }
    for index in 0..size {
        // Their reader proves each hash before it gives it away.
        let hash = hashes.read_hashes(&[stored_hash_index(0, index)])?[0];
        if hash != record_hash(&entry(directory, index, size)?) {
            return Err(format!("entry {index} has another hash").into());
        }
        if index % 50 == 0 || index + 1 == size {
            let proof = prove_record(size, index, &hashes)?;
            check_record(&proof, size, root, index, hash)?;
            let old = tree_hash(index + 1, &hashes)?;
            let proof = prove_tree(size, index + 1, &hashes)?;
            check_tree(&proof, size, root, index + 1, old)?;
        }
    }
    Ok(size)
}

/// Reads an entry of a tile of entries.
fn entry(directory: &Path, index: u64, size: u64) -> Result<Vec<u8>, Refused> {
    let tile = index / 256;
    let width = u32::try_from((size - tile * 256).min(256))?;
    let path =
        Tile::new(8, 0, tile, width, true).path().replacen("tile/8/data/", "tile/entries/", 1);
    let bytes = read(directory.join(&path))?;
    let mut rest = bytes.as_slice();
    let mut entries = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let (entry, after) = after
            .split_at_checked(u16::from_be_bytes(*length).into())
            .ok_or("an entry is cut off")?;
        entries.push(entry);
        rest = after;
    }
    if entries.len() != usize::try_from(width)? {
        return Err(format!("{path} has {} entries", entries.len()).into());
    }
    Ok(entries[usize::try_from(index % 256)?].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/tlog")
    }

    fn vkey() -> String {
        std::fs::read_to_string(golden().join("vkey")).unwrap().trim_end().to_owned()
    }

    #[test]
    fn they_read_the_whole_log() {
        assert_eq!(log(&golden(), &vkey()).unwrap(), 600);
        // Another key: the example of the specification.
        let other = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
        assert!(log(&golden(), other).is_err());
    }

    #[test]
    fn they_accept_our_proofs_and_no_change_of_them() {
        let mut proofs = 0;
        for file in std::fs::read_dir(golden().join("proofs")).unwrap() {
            let path = file.unwrap().path();
            let index = path.file_stem().unwrap().to_str().unwrap();
            let entry = format!("entry {index}").into_bytes();
            let text = std::fs::read(&path).unwrap();
            assert_eq!(proof(&text, &entry, &vkey()).unwrap(), (index.parse().unwrap(), 600));
            assert!(proof(&text, b"entry", &vkey()).is_err());
            for at in 0..text.len() {
                let mut changed = text.clone();
                changed[at] ^= 1;
                assert!(proof(&changed, &entry, &vkey()).is_err(), "{index}: byte {at}");
                assert!(proof(&text[..at], &entry, &vkey()).is_err(), "{index}: cut at {at}");
            }
            proofs += 1;
        }
        assert_eq!(proofs, 6);
    }

    #[test]
    fn they_find_every_changed_tile() {
        let directory = std::env::temp_dir().join(format!("peers-{}", std::process::id()));
        let files = [
            "checkpoint",
            "tile/0/000",
            "tile/0/001",
            "tile/0/002.p/88",
            "tile/1/000.p/2",
            "tile/entries/000",
            "tile/entries/001",
            "tile/entries/002.p/88",
        ];
        for file in files {
            let path = directory.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::copy(golden().join(file), path).unwrap();
        }
        assert_eq!(log(&directory, &vkey()).unwrap(), 600);
        for file in files {
            let path = directory.join(file);
            let good = std::fs::read(&path).unwrap();
            for at in [0, good.len() / 2, good.len() - 1] {
                let mut changed = good.clone();
                changed[at] ^= 1;
                std::fs::write(&path, changed).unwrap();
                assert!(log(&directory, &vkey()).is_err(), "{file}: byte {at}");
            }
            std::fs::write(&path, good).unwrap();
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
