//! Sees when the configuration or the tokens change on disk.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use super::Service;

/// How often the files are looked at. Looking works on every file system, also where a file is replaced
/// by way of a link.
const PAUSE: Duration = Duration::from_millis(500);

/// What tells one state of a file from another.
type Mark = Option<(u64, u64, u64, i64, i64)>;

fn mark(path: &Path) -> Mark {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}

/// Looks at the files of a service.
pub struct Watch {
    config: Mark,
    /// A change that was seen once; a file that is being written is left alone until it rests.
    pending: Option<Mark>,
}

impl Watch {
    /// Takes the present state as known.
    #[must_use]
    pub fn new(service: &Service) -> Self {
        Self { config: service.config_file().as_deref().and_then(mark), pending: None }
    }

    /// Looks once: reads the tokens again if they changed, and says whether the configuration changed and
    /// rests since the last look.
    pub fn look(&mut self, service: &Service) -> bool {
        service.refresh_tokens();
        let Some(file) = service.config_file() else { return false };
        let now = mark(&file);
        if now == self.config {
            self.pending = None;
            return false;
        }
        if self.pending != Some(now) {
            self.pending = Some(now);
            return false;
        }
        (self.config, self.pending) = (now, None);
        true
    }
}

/// Looks at the files until the drain begins, and reloads when they change.
pub async fn watch(service: Service) {
    let mut watch = Watch::new(&service);
    loop {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = service.draining() => return,
        }
        let looked = service.clone();
        let turn = tokio::task::spawn_blocking(move || {
            if watch.look(&looked) {
                // The error is logged and recorded.
                drop(looked.reload("the file changed"));
            }
            watch
        });
        match turn.await {
            Ok(back) => watch = back,
            Err(error) => return tracing::error!(%error, "files are no longer watched"),
        }
    }
}
