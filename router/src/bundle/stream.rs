//! Text of a bundle, written page by page.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::VERSION;
use super::export::{Attached, Provenance, Source, run, write_provenance};
use crate::clock::Timestamp;
use crate::digest::Digest;
use crate::json;
use crate::store::{self, PageCursor, RecordSize, RunRecord, Store};

/// Text of a bundle, written page by page. It equals that of [`export`](super::export()).
#[derive(Debug)]
pub(crate) struct BundleText {
    store: Store,
    record: RunRecord,
    source: Source,
    provenance: Provenance,
    seal: Option<Attached>,
    now: Timestamp,
    cursor: PageCursor,
    hasher: Sha256,
    events: u64,
    stage: BundleStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BundleStage {
    Head,
    Events,
    Over,
}

impl BundleText {
    /// Begins the bundle of a run of a store of ours.
    pub(crate) fn new(
        store: &Store,
        size: &RecordSize,
        (provenance, seal): (Provenance, Option<Attached>),
        now: Timestamp,
    ) -> Self {
        Self {
            store: store.clone(),
            record: size.record.clone(),
            source: Source::of(store),
            provenance,
            seal,
            now,
            cursor: size.cursor(),
            hasher: Sha256::new(),
            events: 0,
            stage: BundleStage::Head,
        }
    }

    /// Returns the next parts of the text; none at its end.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<Bytes>>, store::Error> {
        match self.stage {
            BundleStage::Head => {
                self.stage = BundleStage::Events;
                Ok(Some(vec![self.head().into()]))
            }
            BundleStage::Events => match self.store.page(&mut self.cursor)? {
                Some(page) => Ok(Some(self.events(&page.into()))),
                None => {
                    self.stage = BundleStage::Over;
                    Ok(Some(vec![self.tail().into()]))
                }
            },
            BundleStage::Over => Ok(None),
        }
    }

    fn head(&mut self) -> String {
        let mut text = String::from("{\"bundle_version\":");
        json::write_canonical_str(&mut text, VERSION);
        text.push_str(",\"exported_at\":");
        json::write_canonical_str(&mut text, &self.now.to_string());
        text.push_str(",\"events\":[");
        self.hasher.update("{\"events\":[");
        text
    }

    fn events(&mut self, page: &Bytes) -> Vec<Bytes> {
        let mut out = Vec::new();
        let text = str::from_utf8(page).unwrap_or_default();
        for line in text.lines() {
            if self.events > 0 {
                self.hasher.update(",");
                out.push(Bytes::from_static(b","));
            }
            self.hasher.update(line);
            out.push(page.slice_ref(line.as_bytes()));
            self.events += 1;
        }
        out
    }

    fn tail(&mut self) -> String {
        let mut text = String::from("],\"run\":");
        json::write_canonical_object(&mut text, &run(&self.record));
        self.hasher.update(&text);
        self.hasher.update("}");
        let digest = Digest::from_bytes(self.hasher.finalize_reset().into());
        let head = self.record.progress.head;
        text.push_str(&format!(",\"digests\":{{\"sha256\":\"{digest}\"}}"));
        text.push_str(&format!(",\"chain\":{{\"alg\":\"sha256\",\"head\":\"{head}\"}}"));
        write_provenance(&mut text, &self.record, &self.source, self.provenance);
        if let Some(seal) = &self.seal {
            seal.write(&mut text);
        }
        text.push('}');
        text
    }
}
