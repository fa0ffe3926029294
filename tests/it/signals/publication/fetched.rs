//! Manifests that are read over HTTPS: with `--fetch` alone, bounded, and from servers that are whom they say.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::https::{HttpsServer, authority, listen, ok, redirect, repeat, text};
use super::shop::Shop;
use crate::support::Run;

/// A shop with a contract and its manifest, `m.json`.
fn shop() -> (Shop, Vec<u8>) {
    let shop = Shop::new();
    shop.contract("c/a.adapter_contract.json", "acme.a", "1.0.0", &json!({}));
    shop.build("m.json", &["c"]);
    let manifest = std::fs::read(shop.path("m.json")).unwrap();
    (shop, manifest)
}

/// Lists the manifest at a URL, and trusts the servers of the tests.
fn list(shop: &Shop, url: &str, more: &[&str]) -> Run {
    let authority = authority();
    let words = ["list", "--manifest", url, "--fetch", "--ca", text(&authority)];
    shop.run(&[&words[..], more].concat())
}

/// Asserts that a URL cannot be listed, for a reason, with a hint, within ten seconds.
#[track_caller]
fn assert_refused(shop: &Shop, url: &str, more: &[&str], reason: &str) {
    let begun = Instant::now();
    let run = list(shop, url, more);
    assert_eq!((run.code(), run.stdout()), (2, String::new()), "{url}: {}", run.stderr());
    assert!(run.stderr().contains(reason), "{url}: {reason}: {}", run.stderr());
    assert!(run.stderr().contains("hint: "), "{url}: {}", run.stderr());
    assert!(begun.elapsed() < Duration::from_secs(10), "{url}: {:?}", begun.elapsed());
}

/// Counts the connections to a port without TLS.
fn count_connections() -> (u16, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    let count = move |_| {
        counter.fetch_add(1, Relaxed);
    };
    (listen(count), connections)
}

#[test]
fn fetched_manifest_is_treated_as_the_same_file() {
    let (shop, manifest) = shop();
    let document = std::fs::read(shop.path("publishers/acme.json")).unwrap();
    let server = HttpsServer::start(move |path, stream| match path {
        "/m.json" => ok(stream, &manifest),
        _ => ok(stream, &document),
    });
    let (url, key, ca) = (server.url("/m.json"), shop.key(), authority());
    let network = ["--fetch", "--ca", text(&ca)];
    let trust = ["--public-key-base64", &key];

    let from_file = shop.yes(&[&["list", "--manifest", "m.json"], &trust[..]].concat());
    for option in ["--manifest", "--from"] {
        let words = [&["list", option, &url], &trust[..], &network].concat();
        assert_eq!(shop.yes(&words), from_file);
    }

    let strict = ["--require-signature", "--strict"];
    let from_file = shop.verify("m.json", &[&trust[..], &strict].concat());
    let fetched = shop.verify(&url, &[&trust[..], &strict, &network].concat());
    assert_eq!(fetched, from_file);
    assert_eq!((fetched.0, &fetched.1["verified"]), (0, &json!(true)));

    let address = server.url("/publisher.json?token=hush");
    let publisher = ["--fetch-publisher", "--from-publisher-document", &address];
    let (code, report) = shop.verify(&url, &[&publisher[..], &network].concat());
    assert_eq!((code, &report["manifest_signature_status"]), (0, &json!("ok")));
    assert_eq!(report["publisher_document_used"], server.url("/publisher.json"));

    let hash = shop.read("m.json")["contracts"][0]["contract_hash"].as_str().unwrap().to_owned();
    let pin = ["pin", "--id", "acme.a", "--version", "1.0.0", "--hash", &hash];
    shop.yes(&[&pin[..], &trust, &["--manifest", "m.json", "--out", "file.json"]].concat());
    let words = [&pin[..], &trust, &["--manifest", &url, "--out", "net.json"], &network].concat();
    shop.yes(&words);
    assert_eq!(shop.read("net.json"), shop.read("file.json"));
    assert_eq!(shop.read("net.json")["pinned_adapters"][0]["entry_signature_status"], "ok");
    // Whose signature does not hold is not pinned, wherever it was read.
    let other = shop.keygen("other.pem", "other", "other.json")["public_key_base64"].clone();
    let other = ["--public-key-base64", other.as_str().unwrap()];
    shop.no(&[&pin[..], &other, &["--manifest", &url, "--out", "net.json"], &network].concat());
    // With --fetch, files are files.
    shop.yes(&[&["list", "--manifest", "m.json"], &network[..]].concat());
}

#[test]
fn nothing_is_fetched_without_the_option() {
    let (shop, manifest) = shop();
    let server = HttpsServer::of(manifest);
    let url = server.url("/m.json?token=hush");
    let hash = "a".repeat(64);
    let pin = ["pin", "--id", "acme.a", "--version", "1.0.0", "--hash", &hash, "--manifest", &url];
    for words in [&["list", "--manifest", &url][..], &["list", "--from", &url], &pin] {
        let run = shop.run(words);
        assert_eq!(run.code(), 2, "{words:?}: {}", run.stdout());
        let told = run.stderr();
        assert!(told.contains("nothing is fetched without --fetch"), "{told}");
        assert!(told.contains("hint: add --fetch") && !told.contains("hush"), "{told}");
    }
    let (code, report) = shop.verify(&url, &[]);
    assert_eq!((code, &report["ok"]), (1, &json!(false)));
    let error = report["error"].as_str().unwrap();
    assert!(error.starts_with("NetworkRefused: ") && error.contains("without --fetch"), "{error}");
    let (code, report) = shop.verify("m.json", &["--fetch-publisher"]);
    let error = report["error"].as_str().unwrap();
    assert!(code == 1 && error.starts_with("publisher_document_fetch_failed: "), "{error}");
    assert!(error.contains("without --fetch"), "{error}");
    // Where only files are read, the option is not advised.
    let key = shop.key();
    let words = ["pins", "check", "--manifest", &url, "--public-key-base64", &key];
    std::fs::write(shop.path("pinned_adapters.json"), r#"{"pinned_adapters": []}"#).unwrap();
    let run = shop.run(&words);
    assert!(run.code() == 2 && !run.stderr().contains("--fetch"), "{}", run.stderr());
    assert!(run.stderr().contains("only files are read here"), "{}", run.stderr());
    let words = ["--previous", &url, "--public-key-base64", &key];
    let run = shop.run(&[&["manifest", "verify", "m.json"], &words[..]].concat());
    assert!(run.code() == 2 && run.stderr().contains("only files"), "{}", run.stderr());
    assert_eq!(server.seen(), Vec::<String>::new());
    // The other options mean nothing alone.
    for more in [&["--ca", "ca.pem"][..], &["--fetch-timeout", "5"]] {
        assert_eq!(shop.run(&[&["list", "--manifest", "m.json"], more].concat()).code(), 2);
    }
}

#[test]
fn certificates_must_lead_to_a_trusted_authority() {
    let (shop, manifest) = shop();
    let server = HttpsServer::of(manifest.clone());
    let refused = "the certificate of the server is refused";
    let words = ["list", "--manifest", &server.url("/"), "--fetch"];
    let run = shop.run(&words);
    assert!(run.code() == 2 && run.stderr().contains(refused), "{}", run.stderr());
    assert!(run.stderr().contains("--ca"), "{}", run.stderr());
    // Another authority.
    let other = crate::support::workspace().join("adapters/http/tests/tls/ca.pem");
    let run = shop.run(&[&words[..], &["--ca", text(&other)]].concat());
    assert!(run.code() == 2 && run.stderr().contains(refused), "{}", run.stderr());
    assert_eq!(server.seen(), Vec::<String>::new());
    // A certificate of another host: this one is for localhost, not for its address.
    let files = ["adapters/http/tests/tls/server.pem", "adapters/http/tests/tls/server.key.pem"];
    let server = HttpsServer::start_as(files[0], files[1], move |_, stream| ok(stream, &manifest));
    let list = |url: &str| shop.run(&["list", "--manifest", url, "--fetch", "--ca", text(&other)]);
    assert_eq!(list(&server.url("/")).code(), 0);
    let run = list(&format!("https://127.0.0.1:{}/", server.port));
    assert!(run.code() == 2 && run.stderr().contains(refused), "{}", run.stderr());
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn unusable_authority_files_are_named() {
    let (shop, manifest) = shop();
    let server = HttpsServer::of(manifest);
    std::fs::write(shop.path("empty.pem"), "").unwrap();
    let broken = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
    std::fs::write(shop.path("broken.pem"), broken).unwrap();
    std::fs::write(shop.path("huge.pem"), vec![b'a'; 2 << 20]).unwrap();
    for file in ["gone.pem", "empty.pem", "broken.pem", "huge.pem", "key.pem", "."] {
        let words = ["list", "--manifest", &server.url("/"), "--fetch", "--ca", file];
        let run = shop.run(&words);
        assert_eq!(run.code(), 2, "{file}: {}", run.stdout());
        let told = format!("cannot use the certificates in {file}: ");
        assert!(run.stderr().contains(&told), "{file}: {}", run.stderr());
        let (code, report) = shop.verify(&server.url("/"), &["--fetch", "--ca", file]);
        let error = report["error"].as_str().unwrap();
        assert!(code == 1 && error.contains(&told), "{file}: {error}");
    }
    assert_eq!(server.seen(), Vec::<String>::new());
}

#[test]
fn other_schemes_and_urls_are_refused() {
    let (shop, _) = shop();
    let (plain, connections) = count_connections();
    for (url, reason) in [
        (&*format!("http://localhost:{plain}/m.json"), "its scheme is not https"),
        (&*format!("http://127.0.0.1:{plain}/m.json"), "its scheme is not https"),
        ("ftp://localhost/m.json", "its scheme is not https"),
        ("file:///etc/passwd", "it is not a URL with a host"),
        ("https://", "it is not a URL with a host"),
        ("https://local host/", "it is not a URL with a host"),
        ("https://ada:hush@localhost/", "it holds credentials, which are not sent"),
    ] {
        assert_refused(&shop, url, &[], reason);
        assert!(!list(&shop, url, &[]).stderr().contains("hush"), "{url}");
    }
    assert_eq!(connections.load(Relaxed), 0);
    for seconds in ["0", "601", "-1", "x"] {
        let run = list(&shop, "https://localhost/", &["--fetch-timeout", seconds]);
        assert_eq!(run.code(), 2, "{seconds}");
    }
}

#[test]
fn only_a_whole_document_is_an_answer() {
    let (shop, manifest) = shop();
    let server = HttpsServer::start(move |path, stream| {
        let answer = |head: &str| format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n");
        let text = match path.split('?').next().unwrap() {
            "/404" => answer("404 Not Found\r\nContent-Length: 0"),
            "/500" => answer("500 Oh\r\nContent-Length: 0"),
            "/204" => answer("204 No Content"),
            "/304" => answer("304 Not Modified"),
            "/301" => answer("301 Moved\r\nContent-Length: 0"),
            "/html" => answer("200 OK\r\nContent-Length: 6") + "<html>",
            "/empty" => answer("200 OK\r\nContent-Length: 0"),
            "/array" => answer("200 OK\r\nContent-Length: 2") + "[]",
            "/entries" => answer("200 OK\r\nContent-Length: 16") + r#"{"contracts": 5}"#,
            "/short" => answer("200 OK\r\nContent-Length: 99999") + "{}",
            "/gzip" => {
                answer("200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4") + "\x1f\u{0}ab"
            }
            "/cut" => answer("200 OK\r\nTransfer-Encoding: chunked") + "5\r\n{\"con",
            "/odd" => "nonsense\r\n\r\n".to_owned(),
            "/nothing" => String::new(),
            _ => return ok(stream, &manifest),
        };
        drop(stream.write_all(text.as_bytes()));
    });
    let ca = authority();
    assert_eq!(list(&shop, &server.url("/good"), &[]).code(), 0);
    for (path, reason) in [
        ("/404?token=hush", "the server answered 404 Not Found"),
        ("/500", "the server answered 500 Internal Server Error"),
        ("/204", "the server answered 204 No Content"),
        ("/304", "the server answered 304 Not Modified"),
        ("/301", "cannot fetch https://localhost:"),
        ("/html", " is not JSON: "),
        ("/empty", " is not JSON: "),
        ("/gzip", " is not JSON: "),
        ("/short", "the request failed: "),
        ("/cut", "the request failed: "),
        ("/odd", "the request failed: "),
        ("/nothing", "the request failed: "),
    ] {
        assert_refused(&shop, &server.url(path), &[], reason);
        let run = list(&shop, &server.url(path), &[]);
        assert!(!run.stderr().contains("hush"), "{}", run.stderr());
    }
    // What is JSON and no manifest gets the answer that a file of it gets.
    for path in ["/array?token=hush", "/entries?token=hush"] {
        let url = server.url(path);
        let run = list(&shop, &url, &[]);
        assert!(run.code() == 1 && !run.stderr().contains("hush"), "{path}: {}", run.stderr());
        for format in ["human", "github", "json"] {
            let words =
                ["manifest", "verify", &url, "--fetch", "--ca", text(&ca), "--format", format];
            let run = shop.run(&words);
            assert_eq!(run.code(), 1, "{path} {format}");
            let told = run.stdout() + &run.stderr();
            assert!(!told.contains("hush"), "{path} {format}: {told}");
        }
    }
    let error = |path: &str| {
        let words = ["--fetch", "--ca", text(&ca)];
        let (code, report) = shop.verify(&server.url(path), &words);
        assert_eq!((code, &report["ok"]), (1, &json!(false)), "{path}");
        report["error"].as_str().unwrap().to_owned()
    };
    assert!(error("/404").starts_with("HTTPError: https://localhost:"), "{}", error("/404"));
    assert!(error("/404").ends_with("; check the URL in a browser"), "{}", error("/404"));
    assert!(error("/html").starts_with("JSONDecodeError: "), "{}", error("/html"));
    assert!(error("/array").starts_with("TypeError: "), "{}", error("/array"));
    assert!(error("/cut").starts_with("URLError: "), "{}", error("/cut"));
}

#[test]
fn redirects_are_bounded_and_stay_on_https() {
    let (shop, manifest) = shop();
    let (plain, connections) = count_connections();
    let server = HttpsServer::start(move |path, stream| {
        match path.strip_prefix("/after/").map(|count| count.parse::<usize>().unwrap()) {
            Some(0) => ok(stream, &manifest),
            Some(count) => redirect(stream, &format!("/after/{}", count - 1)),
            None => match path {
                "/loop" => redirect(stream, "/loop"),
                "/plain" => redirect(stream, &format!("http://localhost:{plain}/m.json")),
                "/file" => redirect(stream, "file:///etc/passwd"),
                "/script" => redirect(stream, "javascript:alert(1)"),
                _ => redirect(stream, "https://localhost:1/"),
            },
        }
    });
    for count in [1, 5] {
        let run = list(&shop, &server.url(&format!("/after/{count}")), &[]);
        assert_eq!(run.code(), 0, "{count}: {}", run.stderr());
    }
    let seen = server.seen().len();
    assert_eq!(seen, 2 + 6);
    assert_refused(&shop, &server.url("/after/6"), &[], "redirected more than 5 times");
    assert_refused(&shop, &server.url("/loop"), &[], "redirected more than 5 times");
    assert_eq!(server.seen().len(), seen + 6 + 6);
    assert_refused(&shop, &server.url("/plain"), &[], "redirected to a URL that is not https");
    assert_eq!(connections.load(Relaxed), 0);
    for path in ["/file", "/script", "/closed"] {
        assert_refused(&shop, &server.url(path), &[], "cannot fetch https://localhost:");
    }
}

#[test]
fn large_answers_are_cut_off() {
    let (shop, manifest) = shop();
    let mut padded: Value = serde_json::from_slice(&manifest).unwrap();
    padded["padding"] = "x".repeat(4 << 20).into();
    let padded = serde_json::to_vec(&padded).unwrap();
    let server = HttpsServer::start(move |path, stream| {
        let begin = |stream: &mut super::https::TlsStream, head: &str| {
            drop(stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}").as_bytes()));
        };
        match path {
            "/padded" => return ok(stream, &padded),
            "/length" => begin(stream, "Content-Length: 99999999999\r\n\r\n{"),
            "/endless" => begin(stream, "Connection: close\r\n\r\n{\"a\":\""),
            "/chunked" => begin(stream, "Transfer-Encoding: chunked\r\n\r\n"),
            _ => begin(stream, ""),
        }
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        let piece = match path {
            "/chunked" => chunk.as_bytes(),
            "/head" => b"X-More: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n",
            _ => &[b'x'; 0x10000],
        };
        repeat(stream, piece, Duration::ZERO);
    });
    assert_eq!(list(&shop, &server.url("/padded"), &[]).code(), 0);
    for path in ["/length", "/endless", "/chunked"] {
        assert_refused(&shop, &server.url(path), &[], "the answer has more than 16 MiB");
    }
    assert_refused(&shop, &server.url("/head"), &[], "the request failed: ");
}

#[test]
fn slow_answers_are_given_up_on() {
    let (shop, _) = shop();
    let pause = Duration::from_millis(50);
    let server = HttpsServer::start(move |path, stream| match path {
        "/silent" => std::thread::sleep(Duration::from_secs(5)),
        "/head" => repeat(stream, b"H", pause),
        "/redirect" => {
            let head = "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 9999999\r\n\r\n";
            drop(stream.write_all(head.as_bytes()));
            repeat(stream, b"x", pause);
        }
        _ => {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n"));
            repeat(stream, b" ", pause);
        }
    });
    let wait = ["--fetch-timeout", "1"];
    let reason = "the answer took longer than 1 s";
    for path in ["/silent", "/body", "/redirect"] {
        assert_refused(&shop, &server.url(path), &wait, reason);
    }
    // A status line that goes on and on is none, or not yet.
    let run = list(&shop, &server.url("/head"), &wait);
    assert_eq!(run.code(), 2, "{}", run.stderr());
    // Nothing but TCP, bytes that are no TLS, and one byte of a TLS record at a time.
    let silent = listen(|_| std::thread::sleep(Duration::from_secs(5)));
    assert_refused(&shop, &format!("https://localhost:{silent}/"), &wait, reason);
    let dripping = listen(move |mut socket| {
        drop(socket.write_all(&[22, 3, 3, 0x3f, 0xff]));
        repeat(&mut socket, &[2], pause);
    });
    assert_refused(&shop, &format!("https://localhost:{dripping}/"), &wait, reason);
    let plain = listen(|mut socket| drop(socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n{}")));
    assert_refused(&shop, &format!("https://localhost:{plain}/"), &[], "the request failed: ");
    let closed = listen(drop);
    assert_refused(&shop, &format!("https://localhost:{closed}/"), &[], "the request failed: ");
    let wait = ["--fetch-timeout", "5"];
    assert_refused(&shop, "https://name.invalid/", &wait, "cannot fetch https://name.invalid/");
}
