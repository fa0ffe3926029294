//! Reading the metadata records of a library. The format is described in `nexus_router_sdk::metadata`.

use nexus_router_sdk::metadata::MAGIC;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longer records are refused; a manifest is a few kilobytes.
const MAX_RECORD: usize = 256 * 1024;

/// More factories in one library are refused.
const MAX_RECORDS: usize = 1000;

/// What a library says of one of its factories, without running.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FactoryRecord {
    /// The number of the ABI that it was built for.
    pub abi: u32,
    /// The version of the SDK that it was built with.
    pub sdk: String,
    /// The package that holds it.
    pub package: String,
    /// The version of that package.
    pub version: String,
    /// The name under which it is exported.
    pub factory: String,
    /// The manifest, if the author gave one. Not checked yet.
    #[serde(default)]
    pub manifest: Option<Value>,
}

/// Reads every record of a metadata section.
///
/// # Errors
/// A text that says what is wrong, and at which byte.
pub(super) fn read_records(section: &[u8]) -> Result<Vec<FactoryRecord>, String> {
    let mut records: Vec<FactoryRecord> = Vec::new();
    let mut at = 0;
    while let Some(padding) = section[at..].iter().position(|byte| *byte != 0) {
        at += padding;
        let head = section.get(at..at + MAGIC.len() + 4);
        let Some((magic, length)) = head.and_then(|head| head.split_first_chunk::<8>()) else {
            return Err(format!("the record at byte {at} is cut off"));
        };
        if *magic != MAGIC {
            return Err(format!("there is no record at byte {at}"));
        }
        let length =
            length.try_into().map_or(usize::MAX, |bytes| u32::from_le_bytes(bytes) as usize);
        if length > MAX_RECORD {
            return Err(format!(
                "the record at byte {at} has {length} bytes; the limit is {MAX_RECORD}"
            ));
        }
        let start = at + MAGIC.len() + 4;
        let Some(text) = section.get(start..start + length) else {
            return Err(format!("the record at byte {at} is cut off"));
        };
        let record: FactoryRecord = serde_json::from_slice(text)
            .map_err(|error| format!("the record at byte {at} is not valid: {error}"))?;
        if records.iter().any(|known| known.factory == record.factory) {
            return Err(format!("two records name the factory '{}'", record.factory));
        }
        records.push(record);
        if records.len() > MAX_RECORDS {
            return Err(format!("there are more than {MAX_RECORDS} records"));
        }
        at = start + length;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(text: &str) -> Vec<u8> {
        let length = u32::try_from(text.len()).unwrap().to_le_bytes();
        [&MAGIC[..], &length, text.as_bytes()].concat()
    }

    fn good(factory: &str) -> Vec<u8> {
        record(&format!(
            r#"{{"abi":1,"sdk":"1.2.0","package":"p","version":"1","factory":"{factory}","manifest":null,"later":1}}"#
        ))
    }

    #[test]
    fn records_with_padding_are_read() {
        let section = [vec![0; 3], good("a"), vec![0; 9], good("b"), vec![0; 2]].concat();
        let records = read_records(&section).unwrap();
        let names: Vec<&str> = records.iter().map(|record| record.factory.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(read_records(&[]).unwrap(), []);
    }

    #[test]
    fn malformed_sections_are_told_with_their_place() {
        let huge = [&MAGIC[..], &u32::MAX.to_le_bytes(), b"{}"].concat();
        for (section, problem) in [
            (b"garbage, not a record".to_vec(), "no record at byte 0"),
            ([good("a"), b"NX".to_vec()].concat(), "is cut off"),
            (good("a")[..40].to_vec(), "is cut off"),
            (huge, "the limit is 262144"),
            (record("{"), "not valid"),
            (record(r#"{"abi":"1"}"#), "not valid"),
            ([good("a"), good("a")].concat(), "two records name the factory 'a'"),
        ] {
            let error = read_records(&section).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    proptest! {
        #[test]
        fn damaged_sections_never_panic(at in 0usize..200, byte: u8, cut in 0usize..300) {
            let mut section = [good("a"), good("b")].concat();
            let at = at % section.len();
            section[at] = byte;
            section.truncate(cut);
            drop(read_records(&section));
        }
    }
}
