//! Rescue of a displaced store: its acknowledged content moves into a file that the next process finds.
//!
//! The open connection still reaches all content without the names. If the file of the store has a name, the
//! WAL is moved into it. If it has none, or another process wrote a WAL of its own, all content is copied to
//! `FILE.rescued-ID`; the copy gets the name of the store if nothing else has it.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::audit::{self, AuditEntry};
use super::backup::{self, Purpose, beside};
use super::files::{Displacement, FileChange, Rescue, StoreFiles, file_name};
use super::{Error, Store, open};
use crate::clock::Clock;
use crate::json::Object;
use crate::shell::quoted;

/// What the name of a rescued copy has after that of the store.
const RESCUED: &str = ".rescued-";

impl Store {
    /// Makes safe what a displaced store acknowledged, before its process ends.
    ///
    /// # Errors
    /// When what was acknowledged is lost with the process.
    pub fn finish(&self) -> Result<(), Error> {
        let Some(files) = self.shared.files.clone() else { return Ok(()) };
        let displacement = self.writer()?.job(move |connection| finish(connection, &files))?;
        match displacement {
            Some(lost) if lost.rescue == Rescue::Pending => Err(Error::Displaced(Box::new(lost))),
            _ => Ok(()),
        }
    }

    /// Returns the path that the file of the store has at present, if the store is open for writing and the file has a name.
    #[must_use]
    pub fn present_path(&self) -> Option<PathBuf> {
        self.shared.files.as_ref()?.present_path()
    }
}

/// Returns the copies beside a store that displaced stores of its name were rescued to.
#[must_use]
pub fn rescued_copies(store: &Path) -> Vec<PathBuf> {
    let store = open::real(store);
    let prefix = file_name(&store) + RESCUED;
    let Some(entries) = store.parent().and_then(|parent| std::fs::read_dir(parent).ok()) else {
        return Vec::new();
    };
    let mut copies: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            file_name(path)
                .strip_prefix(&prefix)
                .is_some_and(|id| uuid::Uuid::parse_str(id).is_ok())
        })
        .collect();
    copies.sort();
    copies
}

/// Makes the directory of a store again if it is gone, for its owner alone.
fn make_directory(store: &Path) -> Result<(), Error> {
    let Some(directory) = store.parent().filter(|it| it.symlink_metadata().is_err()) else {
        return Ok(());
    };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| Error::Unopenable {
        path: directory.to_owned(),
        message: error.to_string(),
    })?;
    backup::sync_directory(directory)
}

/// Looks at the files, and makes safe what a displaced store acknowledged.
pub(super) fn keep_safe(connection: &mut Connection, files: &StoreFiles) {
    keep_log_on_close(connection, files.check_recent().is_err());
    if let Some((displacement, is_first)) = files.due_rescue() {
        let attempt = rescue(connection, files, &displacement, is_first);
        log(&attempt, files, is_first);
        files.note_rescue(attempt);
    }
}

/// Looks at the files before the store is closed, and makes safe what a displaced store acknowledged, also if that failed
/// a moment ago. Returns the displacement. Nothing may be written to a displaced store.
pub(super) fn finish(connection: &mut Connection, files: &StoreFiles) -> Option<Displacement> {
    let is_displaced = files.check().is_err();
    keep_log_on_close(connection, is_displaced);
    let displacement = files.displacement().filter(|_| is_displaced)?;
    if displacement.rescue == Rescue::Pending {
        let attempt = rescue(connection, files, &displacement, true);
        log(&attempt, files, true);
        files.note_rescue(attempt);
    }
    files.displacement()
}

/// The last connection to close would remove the WAL by its name, which may be that of another process by then.
fn keep_log_on_close(connection: &Connection, is_displaced: bool) {
    let quiet = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, is_displaced);
    if let Err(error) = quiet {
        tracing::warn!(%error, "cannot set how the store is closed");
    }
}

fn rescue(
    connection: &mut Connection,
    files: &StoreFiles,
    displacement: &Displacement,
    is_first: bool,
) -> Result<Rescue, Error> {
    // A checkpoint of a truncated log would mix pages of different moments.
    let is_whole = displacement.change != FileChange::Truncated && files.is_main_whole();
    if is_whole && files.is_log_in_place() && !files.is_all_in_place() {
        return Ok(Rescue::InPlace);
    }
    if is_whole && files.is_log_unused() {
        if is_first {
            record(connection, displacement);
        }
        checkpoint(connection)?;
        remove_log_beside_another(files);
        return Ok(Rescue::InPlace);
    }
    let id = crate::id::run_id();
    let copy = beside(files.path(), &format!("{RESCUED}{id}"));
    if !files.has_main() {
        make_directory(files.path())?;
    }
    backup::copy(connection, &copy, Purpose::Rescue, |_, _| ())?;
    if !files.has_main() && put_in_place(files, &copy) {
        return Ok(Rescue::Copied(files.path().to_owned()));
    }
    remove_log_beside_another(files);
    Ok(Rescue::Copied(copy))
}

/// Removes the log of this store from beside a file that took its place: SQLite would apply it to that file. Everything
/// in it is safe elsewhere.
fn remove_log_beside_another(files: &StoreFiles) {
    if files.is_main_replaced() {
        files.remove_log_names();
        if let Err(error) = backup::sync_directory(files.path()) {
            tracing::warn!(%error, "cannot make it durable that the log of the displaced store was removed");
        }
    }
}

/// Records the displacement in the audit. A failure does not stop the rescue.
fn record(connection: &mut Connection, displacement: &Displacement) {
    let mut payload = Object::new();
    payload.insert("file", displacement.path.display().to_string());
    payload.insert("change", displacement.change.name());
    let entry = AuditEntry { ts: Clock::System.now(), kind: "store.displaced".to_owned(), payload };
    let recorded = connection.transaction().map_err(Error::from).and_then(|transaction| {
        audit::append_within(&transaction, vec![entry])?;
        Ok(transaction.commit()?)
    });
    if let Err(error) = recorded {
        tracing::warn!(%error, "cannot record that the store was displaced");
    }
}

/// Moves all content of the WAL into the file of the store, and makes that durable. The WAL is emptied if no reader needs
/// it: applied to another file of the store's name, it would damage that.
fn checkpoint(connection: &Connection) -> Result<(), Error> {
    let (is_busy, frames, moved): (bool, i64, i64) =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    if is_busy && frames != moved { Err(Error::Busy) } else { Ok(()) }
}

/// Gives a copy the name of the store, if nothing has it, and no log that SQLite would apply to the copy is beside it.
fn put_in_place(files: &StoreFiles, copy: &Path) -> bool {
    let path = files.path();
    if path.symlink_metadata().is_ok() {
        return false;
    }
    files.remove_log_names();
    let beside = ["-wal", "-shm", "-journal"].map(|suffix| beside(path, suffix));
    if beside.iter().any(|name| name.symlink_metadata().is_ok()) {
        return false;
    }
    // Unlike a rename, a link replaces nothing.
    let linked = std::fs::hard_link(copy, path).is_ok();
    if linked {
        drop(std::fs::remove_file(copy));
    }
    linked && backup::sync_directory(path).is_ok()
}

/// Logs the outcome of a rescue; of failures, the first.
fn log(outcome: &Result<Rescue, Error>, files: &StoreFiles, is_first: bool) {
    let store = files.path().display();
    match outcome {
        Ok(Rescue::Copied(copy)) if copy == files.path() => tracing::error!(
            %store,
            "everything that was acknowledged is in a new file with the name of the store; restart the daemon"
        ),
        Ok(Rescue::Copied(copy)) => tracing::error!(
            %store,
            copy = %copy.display(),
            "everything that was acknowledged is in a copy of the store; stop the daemon, make the copy the store with \
             `nexus-router store restore {}`, and start the daemon",
            quoted(&copy.display().to_string())
        ),
        Ok(_) => {
            let present = files.present_path().unwrap_or_else(|| files.path().to_owned());
            tracing::error!(
                %store,
                file = %present.display(),
                "everything that was acknowledged is in {}; give that file the name of the store if it has lost it, and \
                 restart the daemon",
                quoted(&present.display().to_string())
            );
        }
        Err(error) if is_first => {
            tracing::error!(%store, %error, "cannot save what the displaced store acknowledged; will retry");
        }
        Err(_) => {}
    }
}
