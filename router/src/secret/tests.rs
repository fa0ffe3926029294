//! Tests of secrets through their public face.

use nexus_router_sdk::redact::{self as sdk, REDACTED};
use proptest::prelude::*;

use super::*;
use crate::json;

fn value(text: &str) -> Value {
    json::parse(text.as_bytes(), json::Limits::REQUEST).unwrap()
}

fn object(text: &str) -> Object {
    value(text).into_object().unwrap()
}

fn hiding(secrets: &[&str]) -> Secrets {
    Secrets::empty().with_hidden_values(secrets.iter().map(|secret| (*secret).to_owned()))
}

fn named(name: &str, secret: &str) -> Secrets {
    let sources = BTreeMap::from([(name.to_owned(), Source::Env("VARIABLE".to_owned()))]);
    Secrets::from_sources(&sources, |_| Some(secret.into())).unwrap()
}

#[test]
fn secrets_come_from_the_environment_and_from_files() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    std::fs::write(&file, "line one\nline two\r\n").unwrap();
    let sources = BTreeMap::from([
        ("A".to_owned(), "env:A_TOKEN".parse::<Source>().unwrap()),
        ("b.key-1".to_owned(), format!("file:{}", file.display()).parse().unwrap()),
    ]);
    let environment = |name: &str| (name == "A_TOKEN").then(|| "from env\n".into());
    let secrets = Secrets::from_sources(&sources, environment).unwrap();
    let args = object(r#"{"list": [{"$secret": "A"}, 1], "key": {"$secret": "b.key-1"}}"#);
    let resolved = secrets.resolve(&args).unwrap();
    assert_eq!(*resolved, object(r#"{"list": ["from env\n", 1], "key": "line one\nline two"}"#));
    assert_eq!(secrets.names().collect::<Vec<_>>(), ["A", "b.key-1"]);
    assert_eq!(format!("{secrets:?}"), r#"{"A", "b.key-1"}"#);
}

#[test]
fn a_token_is_hidden_without_the_scheme_before_it_too() {
    for scheme in ["Bearer", "bearer", "BASIC", "Token", "ApiKey"] {
        let value = format!("{scheme} abcdefg8");
        let configured: serde_json::Value =
            serde_json::json!({ "headers": { "Authorization": value } });
        let configured = configured.as_object().unwrap();
        for secrets in [
            named("KEY", &value),
            hiding(&[&value]),
            Secrets::empty().with_hidden_values(secret_values(configured)),
            Secrets::empty().with_values_of(&named("KEY", &value)),
        ] {
            let shown = secrets.redact_text("you sent abcdefg8").unwrap();
            assert_eq!(shown, format!("you sent {REDACTED}"), "{scheme}");
            let shown = secrets.redact_text(&format!("you sent {value}.")).unwrap();
            assert_eq!(shown, format!("you sent {REDACTED}."), "{scheme}");
        }
    }
    // A short word, several words, and a word that is no scheme.
    for (value, text) in [
        ("Bearer abcdef7", "abcdef7"),
        ("Token of gratitude", "of gratitude"),
        ("Dear abcdefg8", "abcdefg8"),
        ("Bearer", "Bear"),
    ] {
        assert_eq!(hiding(&[value]).redact_text(text), None, "{value}");
    }
}

#[test]
fn secrets_that_cannot_be_used_are_told_without_their_value() {
    let read = |name: &str, source: Source, value: Option<OsString>| {
        let sources = BTreeMap::from([(name.to_owned(), source)]);
        Secrets::from_sources(&sources, |_| value.clone()).unwrap_err()
    };
    let variable = || Source::Env("V".to_owned());
    let error = read("A", variable(), None);
    assert_eq!(error.to_string(), "secret \"A\": the environment variable V is not set");
    assert_eq!(error.code(), "SECRET_UNUSABLE");
    let error = read("A", variable(), Some(" xy\n".into()));
    assert_eq!(error.to_string(), "secret \"A\": the value has fewer than 4 bytes");
    let error = read("A", variable(), Some("x".repeat(70_000).into()));
    assert_eq!(error.to_string(), "secret \"A\": the value has more than 65536 bytes");
    assert!(matches!(read("a b", variable(), None), Error::Name { .. }));
    let missing = tempfile::tempdir().unwrap().path().join("none");
    assert!(matches!(read("A", Source::File(missing), None), Error::Unreadable { .. }));
    for wrong in ["hunter22", "env:", "file:", "ENV:A", ""] {
        let error = wrong.parse::<Source>().unwrap_err();
        assert!(!error.to_string().contains("hunter22") && !error.hint().is_empty());
    }
}

#[test]
fn references_that_lead_nowhere_are_refused_with_their_place() {
    let secrets = named("KNOWN", "value");
    for (args, pointer, code) in [
        (r#"{"a/b": [{"x": {"$secret": "OTHER"}}]}"#, "/a~1b/0/x", "SECRET_UNKNOWN"),
        (r#"{"a": {"$secret": "KNOWN", "b": 1}}"#, "/a", "SECRET_REFERENCE_INVALID"),
        (r#"{"a": {"$secret": 1}}"#, "/a", "SECRET_REFERENCE_INVALID"),
        (r#"{"a": {"$secret": "no name"}}"#, "/a", "SECRET_REFERENCE_INVALID"),
        (r#"{"$secret": "KNOWN"}"#, "", "SECRET_REFERENCE_INVALID"),
    ] {
        let args = object(args);
        let error = secrets.resolve(&args).unwrap_err();
        assert_eq!((error.pointer(), error.code()), (pointer, code), "{args:?}");
    }
    let plain = object(r#"{"a": [{"b": "$secret"}]}"#);
    assert!(matches!(secrets.resolve(&plain).unwrap(), Cow::Borrowed(_)));
}

/// Flaws X1, X2, X4, C8 and P14 of the Python router, with the values it leaked.
#[test]
fn what_the_python_router_recorded_is_hidden() {
    let secrets = hiding(&["tok-SECRET", "qwertz99"]);
    for (recorded, hidden) in [
        // Arguments in the plan and in the request of the call.
        (
            r#"{"call": {"tool": "t", "args": {"token": "tok-SECRET", "max_tokens": 5}}}"#,
            r#"{"call": {"tool": "t", "args": {"token": "[REDACTED]", "max_tokens": 5}}}"#,
        ),
        // An adapter that echoes them, under a key that says nothing, or as a key.
        (r#"{"echo": ["tok-SECRET"]}"#, r#"{"echo": ["[REDACTED]"]}"#),
        (r#"{"seen qwertz99!": 1}"#, r#"{"seen [REDACTED]!": 1}"#),
        // The address with its password in a message.
        (
            r#"{"message": "Failed to connect to http://user:pa55w0rd@127.0.0.1:9/t/m"}"#,
            r#"{"message": "Failed to connect to http://user:[REDACTED]@127.0.0.1:9/t/m"}"#,
        ),
        // Output of a program.
        (r#"{"stdout": "password=x\nok"}"#, r#"{"stdout": "password=[REDACTED]\nok"}"#),
        // What a factory says about a configuration.
        (
            r#"{"message": "Factory 'f' raised: bad token tok-SECRET"}"#,
            r#"{"message": "Factory 'f' raised: bad token [REDACTED]"}"#,
        ),
    ] {
        assert_eq!(secrets.redact(&value(recorded)), Some(value(hidden)), "{recorded}");
        assert_eq!(secrets.redact(&value(hidden)), None, "{hidden}");
    }
}

/// Flaws X6 and X7: what the redactors of the Python router let through, or hid for nothing.
#[test]
fn what_only_looks_secret_stays() {
    let secrets = hiding(&["REDACTED", "CTED", "abc"]);
    for plain in [
        r#"{"max_tokens": 100, "secretary": "Ada", "token": {"$secret": "GITHUB"}, "n": [1, null]}"#,
        r#"{"password": "[REDACTED]", "text": "abc CTED", "tokens": 12, "auth": true}"#,
    ] {
        assert_eq!(secrets.redact(&value(plain)), None, "{plain}");
    }
    let leaked = value(
        r#"{"passwd": "x", "pwd": 1, "aws_access_key_id": "z", "note": "token=abc",
            "a": "Authorization: Basic dXNlcjpwYXNz", "b": "authorization: bearer abc",
            "c": "{\"password\": \"hunter2\"}", "d": "password=\"a b\""}"#,
    );
    let text = json::to_compact(&secrets.redact(&leaked).unwrap());
    for leak in ["\"x\"", ":1", "\"z\"", "=abc", "dXNl", "bearer abc", "hunter2", "a b"] {
        assert!(!text.contains(leak), "{leak}: {text}");
    }
}

#[test]
fn values_are_found_in_every_spelling() {
    let secret = "p/ss wörd\"+17";
    let secrets = hiding(&[secret]);
    for spelled in [
        "p/ss wörd\"+17",
        "p%2Fss%20w%C3%B6rd%22%2B17",
        "p%2fss%20w%c3%b6rd%22%2b17",
        "p/ss+wörd\"+17",
        "p/ss wörd\\\"+17",
        "p/ss w\\u00f6rd\\\"+17",
        "cC9zcyB3w7ZyZCIrMTc=",
        "cC9zcyB3w7ZyZCIrMTc",
        // base64("ada:" + secret), and base64("u:" + secret + "@h")
        "YWRhOnAvc3Mgd8O2cmQiKzE3",
        "dTpwL3NzIHfDtnJkIisxN0Bo",
    ] {
        let text = format!("before {spelled} after");
        let redacted = secrets.redact_text(&text).unwrap_or(text);
        assert!(redacted.contains(REDACTED), "{redacted}");
        assert!(!redacted.contains(&spelled[4..14]), "{redacted}");
        assert!(redacted.starts_with("before ") && redacted.ends_with(" after"), "{redacted}");
    }
    assert_eq!(secrets.redact_text("100% of p/ss, 5%zz"), None);
    // Both alphabets of Base64.
    let secrets = hiding(&["???>>>~~~"]);
    assert_eq!(secrets.redact_text("Pz8/Pj4+fn5+").as_deref(), Some(REDACTED));
    assert_eq!(secrets.redact_text("Pz8_Pj4-fn5-").as_deref(), Some(REDACTED));
}

#[test]
fn overlapping_values_leave_nothing_of_either() {
    let secrets = hiding(&["abcdef", "defghi", "cdef"]);
    assert_eq!(secrets.redact_text("xabcdefghiy").as_deref(), Some("x[REDACTED]y"));
    let pem = "-----BEGIN X-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END X-----";
    let secrets = hiding(&[pem]);
    assert_eq!(secrets.redact_text("got hkiG9w0BAQEFAASC").as_deref(), Some("got [REDACTED]"));
}

#[test]
fn numbers_are_hidden_when_they_are_the_secret() {
    let secrets = hiding(&["123456", "-1.5e+300", "99999999999999999999"]);
    let before = value(r#"[123456, 1234567, 123456.0, -1.5e300, 99999999999999999999, 12]"#);
    let after = value(r#"["[REDACTED]", 1234567, "[REDACTED]", "[REDACTED]", "[REDACTED]", 12]"#);
    assert_eq!(secrets.redact(&before), Some(after));
}

#[test]
fn a_secret_in_the_place_of_a_name_is_hidden() {
    let secrets = named("A", "sk-123456");
    let forged = value(r#"{"x": {"$secret": "sk-123456"}}"#);
    assert_eq!(secrets.redact(&forged), Some(value(r#"{"x": {"$secret": "[REDACTED]"}}"#)));
}

/// Without known values, the rules are those of the SDK, whose tests hold them to the Python router.
fn is_as_in_the_sdk(value: &Value) -> bool {
    let ours = Secrets::empty().redact(value).unwrap_or_else(|| value.clone());
    ours == Value::from(&sdk::value(&value.to_serde()))
}

#[test]
fn golden_values_are_redacted_as_in_the_sdk() {
    let golden = value(include_str!("../../../tests/golden/nexus/redact.json"));
    let cases = ["text", "args"].map(|kind| golden.get(kind).unwrap().as_array().unwrap());
    for case in cases.into_iter().flatten() {
        let input = case.get("in").unwrap();
        assert!(is_as_in_the_sdk(input), "{input:?}");
    }
    assert_eq!(cases.map(<[Value]>::len), [29, 12]);
}

fn any_value() -> impl Strategy<Value = Value> {
    let text = "(token|auth|\\$secret|max_|pwd|=|:| |x|://u:p@h|Bearer |KEY|api){0,4}";
    let leaf = prop_oneof![
        text.prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text, inner), 0..4)
                .prop_map(|members| members.into_iter().collect::<Object>().into()),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_is_redacted_as_in_the_sdk_and_once_for_all(value in any_value()) {
        prop_assert!(is_as_in_the_sdk(&value));
        if let Some(redacted) = Secrets::empty().redact(&value) {
            prop_assert_ne!(&redacted, &value);
            prop_assert_eq!(Secrets::empty().redact(&redacted), None);
        }
    }

    #[test]
    fn a_known_value_never_comes_out(
        secret in "[!-~é]{4,20}",
        other in "[a-z]{4,6}",
        parts in prop::collection::vec("[a-z =:\"%é]{0,6}", 3),
        depth in 0_usize..3,
    ) {
        prop_assume!(!REDACTED.contains(&secret) && !REDACTED.contains(&other));
        let secrets = hiding(&[&secret, &other]);
        let [one, two, three] = &parts[..] else { unreachable!() };
        let mut planted = Value::from(format!("{one}{secret}{two}{other}{three}"));
        for _ in 0..depth {
            let mut object = Object::new();
            object.insert(format!("k{secret}"), vec![planted, one.as_str().into()]);
            planted = object.into();
        }
        let redacted = secrets.redact(&planted).unwrap();
        let mut texts = Vec::new();
        collect_texts(&redacted, &mut texts);
        for text in texts {
            let rest = text.replace(REDACTED, "\0");
            prop_assert!(!rest.contains(&secret) && !rest.contains(&other), "{}", text);
        }
    }

    #[test]
    fn no_encoding_of_a_known_value_comes_out(
        secret in prop_oneof!["[!-~]{5,24}", "[a-zA-Z0-9+/=_-]{5,40}", "[ -~äÖßé€]{8,20}"],
        before in "[a-zA-Z0-9 ]{0,9}",
        after in "[a-zA-Z0-9 ]{0,9}",
    ) {
        prop_assume!(secret.trim() == secret);
        prop_assume!(!REDACTED.to_lowercase().contains(&secret.to_lowercase()));
        let secrets = hiding(&[&secret]);
        for (way, text) in written(&secret, &before, &after) {
            let replaced = secrets.replace_known_text(&text);
            prop_assert!(replaced.is_some(), "{} of {:?}: {}", way, secret, text);
            let replaced = replaced.unwrap();
            let read = read_back(way, &replaced);
            prop_assert!(!contains(&read, secret.as_bytes()), "{}: {}", way, replaced);
            prop_assert!(!contains(&read, secret.to_lowercase().as_bytes()), "{}: {}", way, replaced);
        }
    }

    #[test]
    fn no_text_breaks_it(secret in any::<String>(), text in any::<String>()) {
        let secrets = hiding(&[&secret, "%41%42", "ABCD"]);
        let joined = format!("{text}{secret}%41B%43D%");
        prop_assert!(!secrets.redact_text(&joined).unwrap().contains("%41B%43D"));
    }
}

/// Ways in which another program may write a value, each with a text before and after it.
fn written(secret: &str, before: &str, after: &str) -> Vec<(&'static str, String)> {
    use base64::Engine as _;
    let around = |text: &str| format!("{before}{text}{after}");
    let percent =
        |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02X}")).collect() };
    let some_percent = |text: &str| -> String {
        let plain = |letter: char| letter.is_ascii_alphanumeric();
        text.chars()
            .map(|it| if plain(it) { it.to_string() } else { percent(&it.to_string()) })
            .collect()
    };
    let escaped = |text: &str| -> String {
        text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
    };
    let json = |text: &str| {
        let json = serde_json::to_string(text).unwrap();
        json[1..json.len() - 1].to_owned()
    };
    let hex = |text: &str| -> String { text.bytes().map(|byte| format!("{byte:02x}")).collect() };
    let whole = around(secret);
    let base64 = base64::engine::general_purpose::STANDARD.encode(&whole);
    let url_safe = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&whole);
    vec![
        ("raw", whole.clone()),
        ("upper", around(&secret.to_uppercase())),
        ("lower", around(&secret.to_lowercase())),
        ("json", around(&json(secret))),
        ("json twice", around(&json(&json(secret)))),
        ("unicode escapes", around(&escaped(secret))),
        ("upper unicode escapes", around(&escaped(secret).to_uppercase().replace('U', "u"))),
        ("percent", around(&percent(secret))),
        ("small percent", around(&percent(secret).to_lowercase())),
        ("some percent", around(&some_percent(secret))),
        ("percent twice", around(&percent(&percent(secret)))),
        ("some percent twice", around(&some_percent(&some_percent(secret)))),
        ("percent in json", around(&escaped(&some_percent(secret)))),
        ("hex", around(&hex(secret))),
        ("upper hex", around(&hex(secret).to_uppercase())),
        ("hex of upper", around(&hex(&secret.to_uppercase()))),
        ("base64", base64.clone()),
        ("base64 in percent", some_percent(&base64)),
        (
            "base64 of lower",
            base64::engine::general_purpose::STANDARD.encode(around(&secret.to_lowercase())),
        ),
        ("url-safe base64", url_safe),
        ("base32", base32(whole.as_bytes())),
        ("small base32", base32(whole.as_bytes()).to_lowercase()),
    ]
}

/// Encodes bit by bit: slow, and plainly right.
fn base32(bytes: &[u8]) -> String {
    let bits: Vec<u8> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let digit =
        |bits: &[u8]| (0..5).fold(0, |value, bit| value << 1 | bits.get(bit).copied().unwrap_or(0));
    bits.chunks(5)
        .map(|bits| char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[usize::from(digit(bits))]))
        .collect()
}

/// Undoes one way of writing, as a reader would who looks for a secret.
fn read_back(way: &str, text: &str) -> Vec<u8> {
    // A replaced part reads as bytes that no secret has.
    let text = text.replace(REDACTED, "\0\0\0\0\0\0\0\0");
    let alphabet = |digits: &str, bits: usize, fold: bool| -> Vec<u8> {
        let text = if fold { text.to_uppercase() } else { text.clone() };
        let mut all = Vec::new();
        // Every alignment, because a replaced part may have moved the rest.
        for skipped in 0..8 {
            let values = text.chars().skip(skipped).map(|it| digits.find(it).unwrap_or(0));
            let stream: Vec<usize> =
                values.flat_map(|value| (0..bits).rev().map(move |bit| value >> bit & 1)).collect();
            all.extend(stream.chunks(8).map(|bits| {
                bits.iter().fold(0_u8, |byte, bit| byte << 1 | u8::try_from(*bit).unwrap())
            }));
            all.push(0);
        }
        all
    };
    match way {
        "base64" | "base64 of lower" | "base64 in percent" => {
            alphabet("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 6, false)
        }
        "url-safe base64" => {
            alphabet("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", 6, false)
        }
        "base32" | "small base32" => alphabet("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 5, true),
        _ => text.to_lowercase().into_bytes(),
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[test]
fn every_common_encoding_of_a_value_is_replaced() {
    for secret in
        ["hunter22", "s3cr\"et\\ %41+/", "Pässwörd-ß", "12345", "line one\nline two", "😀😀😀"]
    {
        let secrets = hiding(&[secret]);
        for (way, text) in written(secret, "he said ", " and left") {
            let replaced = secrets.replace_known_text(&text);
            let replaced = replaced.unwrap_or_else(|| panic!("{way} of {secret:?}: {text}"));
            assert!(replaced.contains(REDACTED), "{way}: {replaced}");
            assert!(!contains(&read_back(way, &replaced), secret.as_bytes()), "{way}: {replaced}");
        }
    }
}

#[test]
fn known_values_are_replaced_and_nothing_else() {
    let secrets = hiding(&["hunter22", "123456"]);
    let plain = object(r#"{"password": "x", "token": ["Bearer abc", 12, null], "a": {"n": 1.5}}"#);
    assert_eq!(secrets.replace_known(&plain), None);
    let answer = object(
        r#"{"password": "x", "t": ["HUNTER22!", 123456, 7, "aHVudGVyMjI="], "k 68756e7465723232": {"n": 123456.0}}"#,
    );
    let replaced = object(
        r#"{"password": "x", "t": ["[REDACTED]!", "[REDACTED]", 7, "[REDACTED]="], "k [REDACTED]": {"n": "[REDACTED]"}}"#,
    );
    assert_eq!(secrets.replace_known(&answer), Some(replaced));
    assert_eq!(Secrets::empty().replace_known(&answer), None);
}

#[test]
fn mark_is_never_replaced_by_itself() {
    let secrets = hiding(&["redacted", "ReDaCt", "[REDACTED]"]);
    assert_eq!(secrets.replace_known_text("x [REDACTED] y"), None);
}

fn collect_texts(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(object) => {
            for (key, value) in object.iter() {
                texts.push(key.to_owned());
                collect_texts(value, texts);
            }
        }
        _ => {}
    }
}
