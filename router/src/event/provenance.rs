//! The record of what a run was asked and what came of it, as a digest.

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::object_text::ObjectText;
use crate::digest::Digest;

/// What was asked and what came of it, as a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance<'a> {
    /// The id of the record, which is that of the event.
    pub prov_id: Hyphenated,
    /// The run.
    pub run_id: &'a str,
    /// The digest.
    pub digest: Digest,
}

impl Provenance<'_> {
    /// The id of the method by which it is made.
    const METHOD: &'static str = "nexus-router.provenance.record_v0_1";

    /// Appends the canonical text: no artifacts, and one record.
    pub fn write(&self, out: &mut String) {
        out.push_str("{\"artifacts\":[],\"records\":[{\"digests\":[");
        let mut digest = ObjectText::open(out);
        digest.text("alg", "sha256").text("artifact_id", &format!("run:{}", self.run_id));
        digest.digest("value", self.digest);
        digest.close();
        out.push_str("],\"inputs\":[],\"method_id\":\"");
        out.push_str(Self::METHOD);
        out.push_str("\",\"outputs\":[],\"prov_id\":\"");
        out.push_str(self.prov_id.encode_lower(&mut Uuid::encode_buffer()));
        out.push_str("\"}]}");
    }
}
