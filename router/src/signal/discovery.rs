//! What anybody may learn of contracts, as the bytes that are sent: the listing, each contract, the manifest, the key.
//!
//! The listing is written once, and what is told of one contract is a part of it. Where files are is told to nobody.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::contract::Contract;
use super::pattern::is_id;
use super::publisher_page::PublisherPages;
use super::registry::Registry;
use crate::digest::Digest;
use crate::json::{Value, write_canonical, write_canonical_object, write_canonical_str};

/// The members of an entry, in order. All but three are members of the declaration.
const MEMBERS: [&str; 12] = [
    "adapter_id",
    "adapter_version",
    "contract_hash",
    "declaration",
    "distribution_channel",
    "input_schema_hash",
    "is_active_head",
    "min_verifier_version",
    "published_at",
    "replaced_by",
    "status",
    "supersedes",
];

/// Some bytes, and the tag that they have in HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct Page {
    /// The bytes.
    pub body: Bytes,
    /// The SHA-256 of the bytes, in quotes.
    pub etag: String,
}

impl Page {
    /// Takes bytes.
    #[must_use]
    pub fn new(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let etag = format!("\"{}\"", Digest::of(&body));
        Self { body, etag }
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("bytes", &self.body.len()).field("etag", &self.etag).finish()
    }
}

/// What is told to anybody.
#[derive(Debug)]
pub struct Discovery {
    registry: Arc<Registry>,
    listing: Page,
    families: BTreeMap<String, Family>,
    manifest: Option<Page>,
    publisher: Option<PublisherPages>,
}

/// The versions of a contract.
#[derive(Debug, Default)]
struct Family {
    /// Each with its place in the listing, the lowest first; they stand side by side there.
    versions: Vec<(String, Range<usize>)>,
    /// Which of them is the active head.
    head: Option<usize>,
    /// Written when it is first asked for.
    page: OnceLock<Page>,
}

impl Discovery {
    /// Writes what is told of contracts.
    #[must_use]
    pub fn new(
        registry: Arc<Registry>,
        manifest: Option<Page>,
        publisher: Option<PublisherPages>,
    ) -> Self {
        let (text, families) = listing(&registry);
        Self { registry, listing: Page::new(text), families, manifest, publisher }
    }

    /// Returns all contracts: `active_heads` by id, `contracts` by id and version, and their `count`.
    #[must_use]
    pub fn listing(&self) -> &Page {
        &self.listing
    }

    /// Returns one version of a contract, or its active head and all versions.
    #[must_use]
    pub fn contract(&self, adapter_id: &str, version: Option<&str>) -> Option<Page> {
        let family = self.families.get(adapter_id)?;
        match version {
            Some(version) => {
                let (_, place) = family.versions.iter().find(|(known, _)| known == version)?;
                Some(Page::new(self.listing.body.slice(place.clone())))
            }
            None => Some(family.page.get_or_init(|| self.whole(adapter_id, family)).clone()),
        }
    }

    fn whole(&self, adapter_id: &str, family: &Family) -> Page {
        let text = std::str::from_utf8(&self.listing.body).unwrap_or_default();
        let place = |index: usize| family.versions.get(index).map(|(_, place)| place.clone());
        let head = family.head.and_then(place);
        let (first, last) = (place(0), place(family.versions.len().saturating_sub(1)));
        let all = first.zip(last).map(|(first, last)| first.start..last.end).unwrap_or_default();
        let mut out = String::with_capacity(2 * all.len());
        out.push_str("{\"active_head\":");
        out.push_str(head.and_then(|head| text.get(head)).unwrap_or("null"));
        out.push_str(",\"adapter_id\":");
        write_canonical_str(&mut out, adapter_id);
        out.push_str(&format!(",\"count\":{},\"versions\":[", family.versions.len()));
        out.push_str(text.get(all).unwrap_or_default());
        out.push_str("]}");
        Page::new(out)
    }

    /// Returns the id or the pointer that was perhaps meant.
    #[must_use]
    pub fn nearest(&self, adapter_id: &str, version: Option<&str>) -> Option<String> {
        // What cannot be an id is not worth a look at every contract.
        is_id(adapter_id).then(|| self.registry.nearest(adapter_id, version)).flatten()
    }

    /// Returns the signed manifest, if one is published.
    #[must_use]
    pub fn manifest(&self) -> Option<&Page> {
        self.manifest.as_ref()
    }

    /// Returns the document of the publisher and its key, if one is published.
    #[must_use]
    pub fn publisher(&self) -> Option<&PublisherPages> {
        self.publisher.as_ref()
    }
}

/// Writes all contracts, and tells where each stands.
fn listing(registry: &Registry) -> (String, BTreeMap<String, Family>) {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let (mut heads, mut entries, mut count) = (String::new(), String::new(), 0_usize);
    for contract in registry.contracts() {
        let known = families.contains_key(&contract.adapter_id);
        let family = families.entry(contract.adapter_id.clone()).or_default();
        if !known && let Some(head) = registry.get(&contract.adapter_id, None) {
            let versions = registry.versions(&contract.adapter_id);
            family.head = versions.iter().position(|it| Arc::ptr_eq(it, head));
            separate(&mut heads);
            write_canonical_str(&mut heads, &head.adapter_id);
            heads.push(':');
            write_canonical_str(&mut heads, &head.adapter_version);
        }
        separate(&mut entries);
        let start = entries.len();
        write_entry(&mut entries, contract, family.head == Some(family.versions.len()));
        family.versions.push((contract.adapter_version.clone(), start..entries.len()));
        count += 1;
    }
    let mut text = format!("{{\"active_heads\":{{{heads}}},\"contracts\":[");
    for (_, place) in families.values_mut().flat_map(|family| &mut family.versions) {
        *place = place.start + text.len()..place.end + text.len();
    }
    text.push_str(&entries);
    text.push_str(&format!("],\"count\":{count}}}"));
    (text, families)
}

fn separate(out: &mut String) {
    if !out.is_empty() {
        out.push(',');
    }
}

fn write_entry(out: &mut String, contract: &Contract, is_head: bool) {
    let active = Value::from("active");
    for (index, key) in MEMBERS.into_iter().enumerate() {
        out.push(if index == 0 { '{' } else { ',' });
        write_canonical_str(out, key);
        out.push(':');
        match (key, contract.declaration.get(key)) {
            ("declaration", _) => write_canonical_object(out, &contract.declaration),
            ("is_active_head", _) => out.push_str(if is_head { "true" } else { "false" }),
            ("status", None) => write_canonical(out, &active),
            (_, told) => write_canonical(out, told.unwrap_or(&Value::Null)),
        }
    }
    out.push('}');
}

#[cfg(test)]
mod tests;
