//! DSSE envelopes (version 1.0.2) with one Ed25519 signature, each as one line of JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Error, MAX_STATEMENT};
use crate::json::{self, Limits, Object, Value};
use crate::key::{PublicKey, Signature, SigningKey};
use crate::python_text;

/// The type of payload of in-toto statements.
pub const IN_TOTO: &str = "application/vnd.in-toto+json";
/// The kind of bundle in which Sigstore's programs take envelopes.
const SIGSTORE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// An envelope is as long as its payload in base64, and its names.
const LIMITS: Limits = Limits { bytes: MAX_STATEMENT.div_ceil(3) * 4 + 4096, depth: 3, values: 8 };

/// Some bytes, what they are, and who signed both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    payload_type: String,
    payload: Vec<u8>,
    keyid: String,
    signature: Signature,
}

/// Returns what is signed: the type and the bytes, each after its length.
#[must_use]
pub fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

impl Envelope {
    /// Signs some bytes. The key is named by its [fingerprint](PublicKey::fingerprint).
    #[must_use]
    pub fn sign(payload_type: &str, payload: Vec<u8>, key: &SigningKey) -> Self {
        let signature = key.sign(&pae(payload_type, &payload));
        let keyid = key.public().fingerprint().to_string();
        Self { payload_type: payload_type.to_owned(), payload, keyid, signature }
    }

    /// Reads an envelope: exactly what [`to_line`](Self::to_line) writes. Nothing of it is verified.
    ///
    /// # Errors
    /// When it is any other text.
    pub fn parse(line: &[u8]) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Envelope(why.to_owned());
        if !line.ends_with(b"\n") {
            return Err(wrong("the line does not end with a newline"));
        }
        let value =
            json::parse(line, LIMITS).map_err(|error| Error::Envelope(error.to_string()))?;
        let text = |value: &Value, name: &str| {
            let text = value.get(name).and_then(Value::as_str);
            text.map(str::to_owned)
                .ok_or_else(|| Error::Envelope(format!("it has no text {name:?}")))
        };
        let signatures = value.get("signatures").and_then(Value::as_array);
        let [signature] = signatures.unwrap_or_default() else {
            return Err(wrong("it has not exactly one signature"));
        };
        let payload = STANDARD.decode(text(&value, "payload")?);
        let envelope = Self {
            payload_type: text(&value, "payloadType")?,
            payload: payload.map_err(|_| wrong("its payload is no base64"))?,
            keyid: text(signature, "keyid")?,
            signature: text(signature, "sig")?.parse().map_err(|_| {
                wrong("its signature is not the base64 of the 64 bytes that one of Ed25519 has")
            })?,
        };
        if envelope.payload.len() > MAX_STATEMENT {
            let (bytes, most) = (envelope.payload.len(), MAX_STATEMENT);
            return Err(Error::Envelope(format!(
                "its payload has {bytes} bytes, and {most} may be"
            )));
        }
        // Members that are not known, blanks, other orders and other escapes: all of them are another text.
        if envelope.to_line().as_bytes() != line {
            return Err(wrong("it is not written in the one form that this program writes"));
        }
        Ok(envelope)
    }

    /// Reads a file of envelopes, one in each line.
    ///
    /// # Errors
    /// When there is none, there are more than `most`, or one is no envelope.
    pub fn parse_lines(text: &[u8], most: usize) -> Result<Vec<Self>, Error> {
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let count = lines.clone().take(most + 1).count();
        if count == 0 || count > most {
            let found = if count == 0 { "none".to_owned() } else { format!("more than {most}") };
            return Err(Error::Envelope(format!(
                "there must be 1 to {most} lines, and are {found}"
            )));
        }
        lines.map(Self::parse).collect()
    }

    /// Returns the envelope as one line, with its newline. The text is that of RFC 8785.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = json::to_compact(&self.to_value());
        line.push('\n');
        line
    }

    fn to_value(&self) -> Value {
        let mut signature = Object::with_capacity(2);
        signature.insert("keyid", self.keyid.as_str());
        signature.insert("sig", self.signature.to_string());
        let mut envelope = Object::with_capacity(3);
        envelope.insert("payload", STANDARD.encode(&self.payload));
        envelope.insert("payloadType", self.payload_type.as_str());
        envelope.insert("signatures", vec![signature.into()]);
        envelope.into()
    }

    /// Returns the same envelope in a bundle as Sigstore's programs take them: the key is only named, and none of their
    /// logs has it.
    #[must_use]
    pub fn to_sigstore_bundle(&self) -> String {
        let mut hint = Object::new();
        hint.insert("hint", self.keyid.as_str());
        let mut times = Object::new();
        times.insert("rfc3161Timestamps", Vec::new());
        let mut material = Object::new();
        material.insert("publicKey", hint);
        material.insert("timestampVerificationData", times);
        material.insert("tlogEntries", Vec::new());
        let mut bundle = Object::new();
        bundle.insert("dsseEnvelope", self.to_value());
        bundle.insert("mediaType", SIGSTORE);
        bundle.insert("verificationMaterial", material);
        json::to_compact(&bundle.into())
    }

    /// Verifies the signature, and returns the key that made it.
    ///
    /// The name of the key is not signed, and only says which key to try; but one that names no key of these, or another
    /// than the one that signed, was changed.
    ///
    /// # Errors
    /// When none of these keys made it.
    pub fn verify(&self, keys: &[PublicKey]) -> Result<PublicKey, Error> {
        let named = keys.iter().find(|key| key.fingerprint().to_string() == self.keyid);
        let Some(key) = named else {
            let keyid = python_text::visible(&self.keyid);
            return Err(Error::UnknownKey { keyid, keys: keys.to_vec() });
        };
        if key.verifies(&pae(&self.payload_type, &self.payload), &self.signature) {
            Ok(*key)
        } else {
            Err(Error::BadSignature(*key))
        }
    }

    /// Returns the bytes.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Returns what the bytes are.
    #[must_use]
    pub fn payload_type(&self) -> &str {
        &self.payload_type
    }

    /// Returns what the envelope names its key by, which is not verified.
    #[must_use]
    pub fn keyid(&self) -> &str {
        &self.keyid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attest::test::{key, other_key};

    /// What <https://github.com/secure-systems-lab/dsse> says of three envelopes: type, payload, what is signed, and the
    /// signature by the first key of RFC 8032.
    const VECTORS: [(&str, &str, &str, &str); 3] = [
        (
            IN_TOTO,
            r#"{"_type":"https://in-toto.io/Statement/v1"}"#,
            r#"DSSEv1 28 application/vnd.in-toto+json 43 {"_type":"https://in-toto.io/Statement/v1"}"#,
            "2WAfaHm5jluo0w+0rk8uVkluELJYWjSmU9x7EUzx+AyteDGJ4/nqyJXfmAUVFIAoQafWm7AxBZNw5M9ixNHiCA==",
        ),
        (
            "application/vnd.exämple+json",
            r#"{"_type":"https://in-toto.io/Statement/v1"}"#,
            r#"DSSEv1 29 application/vnd.exämple+json 43 {"_type":"https://in-toto.io/Statement/v1"}"#,
            "xmSk/ug66ysT7ayhkCIjhAq42zgZXSsEWuzUaNL7w2eGAdF/NU6/fRXPtmfN+5DNSAs5/i2lUnHjbbjPsu0tAw==",
        ),
        (
            IN_TOTO,
            "",
            "DSSEv1 28 application/vnd.in-toto+json 0 ",
            "gSggCAaTLTYyRH6FIDBem6meyIynsYy8RTHVzwx9tnTb7Bg/1jMWnuVgI/gffqmbsC2VX5/jHfkkDqsj7CDbDg==",
        ),
    ];

    #[test]
    fn the_vectors_of_dsse_come_out_as_they_say() {
        let hello = pae("http://example.com/HelloWorld", b"hello world");
        assert_eq!(hello, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
        let (key, mut other) = (key(), 0);
        for (payload_type, payload, signed, signature) in VECTORS {
            assert_eq!(pae(payload_type, payload.as_bytes()), signed.as_bytes());
            let envelope = Envelope::sign(payload_type, payload.into(), &key);
            assert_eq!(envelope.signature.to_string(), signature);
            assert_eq!(envelope.verify(&[key.public()]), Ok(key.public()));
            // The same signature with another type is none.
            let mut swapped = envelope.clone();
            swapped.payload_type.push('x');
            other += usize::from(swapped.verify(&[key.public()]).is_err());
        }
        assert_eq!(other, 3);
    }

    #[test]
    fn a_line_reads_back_and_its_text_is_canonical() {
        let envelope = Envelope::sign(IN_TOTO, b"\x00\xff{}".to_vec(), &key());
        let line = envelope.to_line();
        assert_eq!(Envelope::parse(line.as_bytes()).unwrap(), envelope);
        let value = json::parse(line.as_bytes(), LIMITS).unwrap();
        assert_eq!(line, format!("{}\n", json::to_jcs(&value).unwrap()));
        assert_eq!((envelope.payload(), envelope.payload_type()), (&b"\x00\xff{}"[..], IN_TOTO));
        assert_eq!(envelope.keyid(), key().public().fingerprint().to_string());
    }

    #[test]
    fn every_change_of_a_line_is_refused() {
        let (key, other) = (key().public(), other_key().public());
        let line = Envelope::sign(IN_TOTO, b"{\"a\":1}".to_vec(), &self::key()).to_line();
        let believed = |line: &[u8]| {
            Envelope::parse(line).and_then(|envelope| envelope.verify(&[other, key])).is_ok()
        };
        assert!(believed(line.as_bytes()));
        let mut tried = 0;
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut changed = line.clone().into_bytes();
                changed[at] ^= 1 << bit;
                assert!(!believed(&changed), "bit {bit} of byte {at}");
                tried += 1;
            }
            for change in [&line[..at], &line[at + 1..]] {
                assert!(!believed(change.as_bytes()), "cut at {at}");
            }
            for added in [" ", "\n", "A", "\"", ","] {
                let changed = format!("{}{added}{}", &line[..at], &line[at..]);
                assert!(!believed(changed.as_bytes()), "{added:?} at {at}");
            }
            let removed = [&line[..at], &line[at + 1..]].concat();
            assert!(!believed(removed.as_bytes()), "without byte {at}");
        }
        assert_eq!(tried, 8 * line.len());
        assert!(!believed(format!("{line}\n").as_bytes()));
    }

    #[test]
    fn other_keys_are_named_and_refused() {
        let envelope = Envelope::sign(IN_TOTO, b"{}".to_vec(), &key());
        let (ours, other) = (key().public(), other_key().public());
        let error = envelope.verify(&[other]).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(&ours.fingerprint().to_string()), "{said}");
        assert!(said.contains(&other.fingerprint().to_string()), "{said}");
        assert!(matches!(envelope.verify(&[]), Err(Error::UnknownKey { .. })));
        // Signed by one and named after the other.
        let mut lying = envelope;
        lying.keyid = other.fingerprint().to_string();
        assert_eq!(lying.verify(&[ours, other]), Err(Error::BadSignature(other)));
    }

    #[test]
    fn what_is_no_envelope_is_refused_with_a_reason() {
        let line = Envelope::sign(IN_TOTO, b"{}".to_vec(), &key()).to_line();
        let twice = line.replacen("\"signatures\":[", "\"signatures\":[{},", 1);
        let more = line.replacen("{\"payload\"", "{\"other\":1,\"payload\"", 1);
        let url_safe = Envelope::sign(IN_TOTO, b"\xff\xff\xff".to_vec(), &key()).to_line();
        let url_safe = url_safe.replacen("////", "____", 1);
        let deep = format!("{}1{}\n", "[".repeat(100_000), "]".repeat(100_000));
        for (text, reason) in [
            ("", "newline"),
            ("{}", "newline"),
            ("{}\n", "one signature"),
            ("[]\n", "one signature"),
            (twice.as_str(), "one signature"),
            (more.as_str(), "one form"),
            (url_safe.as_str(), "no base64"),
            (deep.as_str(), "levels"),
        ] {
            let said = Envelope::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(said.contains(reason), "{text:.80}: {said}");
        }
        let long = vec![b' '; LIMITS.bytes + 1];
        assert!(Envelope::parse(&[&long[..], b"\n"].concat()).is_err());
    }

    #[test]
    fn a_file_has_a_line_for_each_envelope() {
        let one = Envelope::sign(IN_TOTO, b"1".to_vec(), &key()).to_line();
        let two = Envelope::sign(IN_TOTO, b"2".to_vec(), &other_key()).to_line();
        let both = format!("{one}{two}");
        let read = Envelope::parse_lines(both.as_bytes(), 2).unwrap();
        assert_eq!(read.iter().map(Envelope::payload).collect::<Vec<_>>(), [b"1", b"2"]);
        assert!(Envelope::parse_lines(both.as_bytes(), 1).is_err());
        assert!(Envelope::parse_lines(b"", 1).is_err());
        assert!(Envelope::parse_lines(format!("{one}\n").as_bytes(), 2).is_err());
        assert!(Envelope::parse_lines(both.trim_end().as_bytes(), 2).is_err());
    }

    #[test]
    fn a_bundle_of_sigstore_has_the_same_envelope() {
        let envelope = Envelope::sign(IN_TOTO, b"{}".to_vec(), &key());
        let bundle = json::parse(envelope.to_sigstore_bundle().as_bytes(), LIMITS_OF_TEST).unwrap();
        assert_eq!(bundle.get("dsseEnvelope"), Some(&envelope.to_value()));
        let hint = bundle.pointer("/verificationMaterial/publicKey/hint").and_then(Value::as_str);
        assert_eq!(hint, Some(envelope.keyid()));
    }

    const LIMITS_OF_TEST: Limits = Limits::REQUEST;
}
