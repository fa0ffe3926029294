//! Reads `[evidence]`, and what `[[adapters]]` says of a role.

use std::path::Path;

use crate::config::reader::Section;
use crate::config::settings::{AdapterEntry, EvidenceSettings};
use crate::role::Role;

pub(super) fn evidence(section: &Section<'_>, base: &Path) -> EvidenceSettings {
    EvidenceSettings {
        seal: section.flag("seal", EvidenceSettings::default().seal),
        directory: section.text("directory").map(|text| base.join(text)),
    }
}

/// Reads the role in which an adapter answers.
pub(super) fn of_adapter(section: &Section<'_>, entry: AdapterEntry) -> AdapterEntry {
    let role = section.choice("role", &Role::ALL.map(|role| (role.name(), role)));
    AdapterEntry { role, ..entry }
}
