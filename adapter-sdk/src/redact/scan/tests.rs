//! Tests of the scanner, also against the oracle.

use super::super::{glance, oracle, text, text_if_secret};
use super::*;
use proptest::prelude::*;

#[test]
fn pairs_lose_their_values() {
    for (input, expected) in [
        ("PASSWD: x y", "PASSWD=[REDACTED] y"),
        ("db.password = 'it\\'s' z", "db.password=[REDACTED] z"),
        ("cfg['secret'] = \"x y\";", "cfg['secret'] = '[REDACTED]';"),
        ("api key: abc", "api key=[REDACTED]"),
        ("access key id = abc", "access key id=[REDACTED]"),
        ("password => 'x', a", "password=[REDACTED], a"),
        ("token=Bearer abc d", "token=[REDACTED] d"),
        ("{\"token\":123,\"x\":1}", "{\"token\":\"[REDACTED]\",\"x\":1}"),
        ("{\"secrets\": [\"a\", {\"b\": 1}], \"x\": 1}", "{\"secrets\": \"[REDACTED]\", \"x\": 1}"),
        ("{\"m\":\"token=abc\",\"x\":1}", "{\"m\":\"token=[REDACTED]\",\"x\":1}"),
        ("{\"password\": \"cut o", "{\"password\": \"[REDACTED]\""),
        (
            r#"{"j":"{\"pwd\":\"a\\\"b c\",\"x\":1}"}"#,
            r#"{"j":"{\"pwd\":\"[REDACTED]\",\"x\":1}"}"#,
        ),
        ("run --password 'a b' --x 1", "run --password [REDACTED] --x 1"),
        ("Cookie: a=1; sid=2\nnext", "Cookie=[REDACTED]\nnext"),
        ("-H \"Cookie: a=1; b=2\" url", "-H \"Cookie=[REDACTED]\" url"),
        (
            "private_key=-----BEGIN PRIVATE KEY-----\nab\n-----END PRIVATE KEY-----\nx",
            "private_key=[REDACTED]\nx",
        ),
        ("tokens=abc", "tokens=[REDACTED]"),
    ] {
        assert_eq!(text(input), expected, "{input}");
    }
}

#[test]
fn what_is_no_secret_stays() {
    for input in [
        "max_tokens=100 tokens=512 tokens_used: 7",
        "the secretary: Ada; token_type=bearer",
        "if token == nil",
        "auth: failed",
        "Bearer authentication is required",
        "Basic usage: tool --token <TOKEN>",
        "unexpected end of file at 12:30",
        "-----BEGIN CERTIFICATE-----\nab\n-----END CERTIFICATE-----",
        "https://example.com:8080/a@b?page=2#top http://[::1]:80/",
        "größe=ß password=",
    ] {
        assert_eq!(text(input), input);
    }
}

#[test]
fn urls_lose_their_secrets() {
    for (input, expected) in [
        ("http://ada:pw@h/x", "http://ada:[REDACTED]@h/x"),
        ("http://ada:p/w?1@h/x", "http://ada:[REDACTED]@h/x"),
        ("http://ada:cut-o", "http://ada:[REDACTED]"),
        ("ada:pw@h:80/x", "ada:[REDACTED]@h:80/x"),
        ("https://secret:x-oauth-basic@h", "https://[REDACTED]:[REDACTED]@h"),
        (
            "h/p?api%5Fkey=a&b=1&sig=c#access_token=d&e=2",
            "h/p?api%5Fkey=[REDACTED]&b=1&sig=[REDACTED]#access_token=[REDACTED]&e=2",
        ),
        ("postgres://u:p@h/db?sslmode=require", "postgres://u:[REDACTED]@h/db?sslmode=require"),
    ] {
        assert_eq!(url(input), expected, "{input}");
    }
    assert_eq!(
        text("see 'https://a:b@h/?token=c&d=e', then f"),
        "see 'https://a:[REDACTED]@h/?token=[REDACTED]&d=e', then f"
    );
}

#[test]
fn known_tokens_and_keys_go() {
    let pem = "a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b";
    assert_eq!(text(pem), "a [REDACTED] b");
    assert_eq!(text("a -----BEGIN PRIVATE KEY-----\nMIIE"), "a [REDACTED]");
    let tokens = "ghp_0123456789abcdef AKIAABCDEFGHIJKLMNOP eyJhbGciOi.eyJzdWIiOi.abc-_def x";
    assert_eq!(text(tokens), "[REDACTED] [REDACTED] [REDACTED] x");
    assert_eq!(text("sent Basic dXNlcjpwYXNz."), "sent Basic [REDACTED]");
}

/// Text made of what the scanner looks for, in any order.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        "(password|token|Authorization|cookie|api|key|tokens|auth|bearer|Basic|sig|x)",
        "[=:\"'`\\\\\\[\\]{}&#?/@,;<> \t\n.%_-]{1,2}",
        "(://|--|-----BEGIN PRIVATE KEY-----|-----END |=>|\\[REDACTED\\]|5F|é|\u{a0}|1)",
    ];
    prop::collection::vec(fragment, 0..24).prop_map(|parts| parts.concat())
}

/// Fragments that lead the scanner from one rule into another.
fn hostile_fragments() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        "(password|Token|AUTHORIZATION|cookie|api|key|keys|tokens|auth|bearer|Basic|sig|signature|id|id2|x|pwd)",
        "(access key id|api key|db pass|max_tokens|tokens_used|secret_name|client-secret|a\\.token|monkey)",
        "[=:\"'`\\\\\\[\\]{}&#?/@,;<> \t\n.%_-]{1,3}",
        "(://|--|-----BEGIN |-----BEGIN PRIVATE KEY-----|-----END |-----|=>|:=|==|::|\\[REDACTED\\]|%5F|%6b|é|\u{a0}|\u{212a})",
        "(ghp_|GHP_|AKIA|eyJ|sk-ant-|xoxb-|Asia)[A-Za-z0-9.]{0,18}",
        "(dXNlcjpwYXNz|1|-1.5|true|null|credentials|of| a | )",
    ];
    prop::collection::vec(fragment, 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn results_equal_those_of_the_oracle(input in hostile_fragments(), other in fragments()) {
        for input in [&input, &other, &format!("{input}{other}"), &input.repeat(6)] {
            prop_assert_eq!(
                text_if_secret(input),
                oracle::text_if_secret(input),
                "{}", input
            );
            prop_assert_eq!(url(input), oracle::url(input), "{}", input);
        }
    }

    #[test]
    fn redacting_twice_changes_nothing(input in fragments()) {
        let once = text(&input);
        prop_assert_eq!(text(&once), once.as_str());
        let once = url(&input);
        prop_assert_eq!(url(&once), once.as_str());
    }

    #[test]
    fn what_is_plain_at_a_glance_is_plain(
        input in fragments(), tail in "[a-zA-Z0-9_.:=@% -]{0,24}", token in "(ghp_|AKIA|eyJ)?[A-Z.]{16}"
    ) {
        for input in [&input, &tail, &token, &format!("{tail} {token}"), &format!("{input}{tail}")] {
            if glance::is_plain_text(input) {
                prop_assert_eq!(super::text(input), None, "{}", input);
            }
        }
    }

    #[test]
    fn no_text_breaks_it(input in any::<String>()) {
        let once = text(&input);
        prop_assert_eq!(text(&once), once);
        drop(url(&input));
    }

    #[test]
    fn a_planted_secret_never_comes_out(
        secret in "[A-Za-z0-9!$%^*+/_.,;:?@#][A-Za-z0-9!$%^*+/_.,;:?@#-]{10,24}",
        template in prop::sample::select(vec![
            "x password=* y", "pwd: *", "API-KEY: '*'", "{\"a\":1,\"clientSecret\": \"*\"}",
            "Bearer *", "bearer *\n", "Authorization: Basic * x", "authorization: *",
            "{\\\"token\\\":\\\"*\\\"}", "cookie: a=1; b=*; c", "--passphrase * x",
            "private_key = \"a * b\"", "passwd => *", "secret: [1, \"*\"]",
        ]),
        around in fragments(),
    ) {
        let planted = template.replace('*', &secret);
        let output = text(&format!("{around}\n\n{planted}"));
        prop_assert!(!output.contains(&secret), "{}", output);
        prop_assert!(!text(&planted).contains(&secret));
    }

    #[test]
    fn a_planted_secret_in_a_url_never_comes_out(secret in "[A-Za-z0-9!$%*+_.-]{10,24}") {
        for template in ["https://u:*@h", "https://h/?a=1&access_token=*&b=2", "/p?password=*"] {
            prop_assert!(!url(&template.replace('*', &secret)).contains(&secret));
        }
    }
}

#[test]
fn long_texts_take_no_longer_than_they_are() {
    for unit in [
        "token=",
        "auth=",
        "a://b:c",
        "Bearer ",
        "basic /basic",
        "\"token\":\"",
        "password=[",
        "\\\"",
        "-----BEGIN PRIVATE KEY",
        "Cookie: \"",
        "key ",
        "a-",
        "api key id ",
        "[{",
        "tokens=\"",
        "eyJ",
        "AKIA",
        "ghp_",
        "sk-",
    ] {
        // A quadratic scan of this would take minutes.
        let input = format!("x{}", unit.repeat(1_000_000 / unit.len()));
        assert!(text(&input).len() <= input.len() + REDACTED.len() * 200_000);
    }
}
