//! In-toto statements (version 1): what is said about which bytes.

use std::collections::HashSet;

use super::{Error, MAX_STATEMENT};
use crate::digest::Digest;
use crate::json::{self, Limits, Object, Value};

/// The version of statements.
const TYPE: &str = "https://in-toto.io/Statement/v1";
const LIMITS: Limits = Limits { bytes: MAX_STATEMENT, depth: 64, values: 1_000_000 };

/// Bytes that are spoken of: a name, and their digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// What they are called, mostly the name of a file.
    pub name: String,
    /// Their digest.
    pub sha256: Digest,
}

/// Something that is said about some bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// What it is said about; at least one, each name once.
    pub subjects: Vec<Subject>,
    /// The type of what is said.
    pub predicate_type: String,
    /// What is said: an object.
    pub predicate: Value,
}

impl Subject {
    /// Names some bytes.
    #[must_use]
    pub fn new(name: impl Into<String>, sha256: Digest) -> Self {
        Self { name: name.into(), sha256 }
    }

    pub(super) fn to_value(&self) -> Value {
        let mut digest = Object::with_capacity(1);
        digest.insert("sha256", self.sha256.to_string());
        let mut subject = Object::with_capacity(2);
        subject.insert("digest", digest);
        subject.insert("name", self.name.as_str());
        subject.into()
    }

    /// Reads what [`to_value`](Self::to_value) makes, and nothing else.
    pub(super) fn parse(value: &Value) -> Option<Self> {
        let name = value.get("name")?.as_str()?;
        let sha256 = value.pointer("/digest/sha256")?.as_str()?;
        let subject = Self::new(name, sha256.parse().ok()?);
        (subject.to_value() == *value).then_some(subject)
    }

    pub(super) fn parse_all(values: &[Value]) -> Option<Vec<Self>> {
        values.iter().map(Self::parse).collect()
    }
}

/// Returns what is wrong with a list of named bytes.
pub(super) fn fault_of(subjects: &[Subject]) -> Option<String> {
    let mut names = HashSet::with_capacity(subjects.len());
    for Subject { name, .. } in subjects {
        if name.is_empty() {
            return Some("a name is empty".to_owned());
        }
        if !names.insert(name.as_str()) {
            return Some(format!("the name {name:?} is there twice"));
        }
    }
    None
}

impl Statement {
    /// Returns the bytes that are signed: the text of RFC 8785.
    ///
    /// # Errors
    /// When the values make no statement that could be read again.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        if self.subjects.is_empty() {
            return Err(Error::Statement("it is about nothing".to_owned()));
        }
        if let Some(fault) = fault_of(&self.subjects) {
            return Err(Error::Statement(format!("in its subjects {fault}")));
        }
        if self.predicate_type.is_empty() || self.predicate.as_object().is_none() {
            return Err(Error::Statement("it says nothing: it has no predicate".to_owned()));
        }
        // The members in their order, so that the predicate need not be copied.
        let inexact = |error: json::Inexact| Error::Statement(error.to_string());
        let subjects = self.subjects.iter().map(Subject::to_value).collect::<Vec<_>>();
        let text = format!(
            r#"{{"_type":"{TYPE}","predicate":{},"predicateType":{},"subject":{}}}"#,
            json::to_jcs(&self.predicate).map_err(inexact)?,
            json::to_jcs(&self.predicate_type.as_str().into()).map_err(inexact)?,
            json::to_jcs(&subjects.into()).map_err(inexact)?,
        );
        // Whatever is sealed must be readable for whoever verifies it.
        if text.len() > LIMITS.bytes {
            let (bytes, most) = (text.len(), LIMITS.bytes);
            return Err(Error::Statement(format!("it has {bytes} bytes, and {most} may be")));
        }
        Ok(text.into_bytes())
    }

    /// Reads a statement: exactly what [`to_bytes`](Self::to_bytes) writes.
    ///
    /// # Errors
    /// When it is any other text.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Statement(why.to_owned());
        let value =
            json::parse(bytes, LIMITS).map_err(|error| Error::Statement(error.to_string()))?;
        let mut members = value.into_object().ok_or_else(|| wrong("it is no object"))?;
        if members.get("_type").and_then(Value::as_str) != Some(TYPE) {
            return Err(Error::Statement(format!("its _type is not {TYPE}")));
        }
        let subjects = members.get("subject").and_then(Value::as_array);
        let subjects = subjects.and_then(Subject::parse_all).ok_or_else(|| {
            wrong("its subject is no list of names, each with the SHA-256 digest of its bytes")
        })?;
        let predicate_type = members.get("predicateType").and_then(Value::as_str);
        let predicate_type = predicate_type.ok_or_else(|| wrong("it has no predicateType"))?.into();
        let predicate = members.remove("predicate").ok_or_else(|| wrong("it has no predicate"))?;
        let statement = Self { subjects, predicate_type, predicate };
        if statement.to_bytes()? != bytes {
            return Err(wrong("it is not written in the one form that this program writes"));
        }
        Ok(statement)
    }

    /// Returns the digest of a subject.
    #[must_use]
    pub fn subject(&self, name: &str) -> Option<Digest> {
        self.subjects.iter().find(|subject| subject.name == name).map(|subject| subject.sha256)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Statement {
        let mut predicate = Object::new();
        predicate.insert("b", vec![Value::from(1), Value::Float(0.5), "é\n".into()]);
        predicate.insert("a", Value::Null);
        Statement {
            subjects: vec![Subject::new("x", Digest::of(b"x")), Subject::new("y\"", Digest::ZERO)],
            predicate_type: "https://example.com/p/v1".to_owned(),
            predicate: predicate.into(),
        }
    }

    #[test]
    fn a_statement_reads_back_and_its_text_is_canonical() {
        let bytes = sample().to_bytes().unwrap();
        assert_eq!(Statement::parse(&bytes).unwrap(), sample());
        let value = json::parse(&bytes, Limits::REQUEST).unwrap();
        assert_eq!(json::to_jcs(&value).unwrap().into_bytes(), bytes);
        assert_eq!(sample().subject("x"), Some(Digest::of(b"x")));
        assert_eq!(sample().subject("z"), None);
    }

    #[test]
    fn what_cannot_be_read_again_is_not_written() {
        let mut wrong = [(); 6].map(|()| sample());
        wrong[0].subjects.clear();
        wrong[1].subjects[1].name = "x".to_owned();
        wrong[2].subjects[0].name.clear();
        wrong[3].predicate = Value::Null;
        wrong[4].predicate_type.clear();
        wrong[5].predicate = Object::from_iter([("n".to_owned(), (1_i64 << 54).into())]).into();
        for statement in wrong {
            assert!(matches!(statement.to_bytes(), Err(Error::Statement(_))), "{statement:?}");
        }
        let mut long = sample();
        long.predicate_type = "x".repeat(MAX_STATEMENT);
        assert!(long.to_bytes().unwrap_err().to_string().contains("may be"));
    }

    #[test]
    fn any_other_text_is_refused() {
        let text = String::from_utf8(sample().to_bytes().unwrap()).unwrap();
        let digest = Digest::of(b"x").to_string();
        for (from, to) in [
            ("Statement/v1", "Statement/v0.1"),
            ("{\"_type\"", "{ \"_type\""),
            ("{\"_type\"", "{\"other\":1,\"_type\""),
            ("\"sha256\"", "\"sha512\""),
            ("\"name\":\"x\"", "\"name\":\"x\",\"uri\":\"u\""),
            ("{\"sha256\"", "{\"sha1\":\"00\",\"sha256\""),
            (&digest, &digest.to_uppercase()),
            (&digest, &format!("sha256:{digest}")),
            ("\"predicate\"", "\"predicat\""),
            ("0.5", "0.50"),
            ("\"a\":null,", ""),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            let same = Statement::parse(changed.as_bytes()) == Ok(sample());
            assert!(!same, "{changed}");
        }
        for text in ["", "null", "[]", "{}", "\u{feff}{}"] {
            assert!(Statement::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
