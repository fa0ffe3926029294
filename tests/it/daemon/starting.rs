//! Daemons that must not start, and listeners beyond this machine.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::support::{ADAPTERS, Daemon, Stage, until};
use crate::support::{built_library, copy_program, workspace};

const LISTEN: [&str; 4] = ["--data-dir", "data", "--listen", "127.0.0.1:0"];

/// Holds against each other what a start says, and what it leaves.
fn assert_refused(stage: &Stage, arguments: &[&str], code: &str, said: &[&str]) {
    let run = stage.refused(arguments);
    let told = run.stderr();
    assert_eq!(run.code(), 2, "{told}");
    assert!(told.contains(&format!("error[{code}]: ")), "{told}");
    assert!(told.contains("hint: "), "{told}");
    for said in said {
        assert!(told.contains(said), "{said}: {told}");
    }
    assert_eq!(run.stdout(), "");
    assert!(!stage.path("data").exists(), "something was made: {told}");
}

#[test]
fn a_daemon_that_cannot_start_says_why_and_leaves_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let arguments = ["--data-dir", "data", "--listen", &address];
    assert_refused(&Stage::bare(ADAPTERS), &arguments, "LISTEN_FAILED", &[&address]);

    for (config, code, said) in [
        ("[serverr]\n", "CONFIG_FILE_INVALID", "server"),
        ("[server]\nconections = 1\n", "CONFIG_FILE_INVALID", "connections"),
        ("[server]\nconnections = 'x'\n", "CONFIG_FILE_INVALID", "line 2"),
        ("[server\n", "CONFIG_FILE_INVALID", "router.toml"),
        (
            "[[tools]]\nname = 'x'\ndescription = 'x'\nadapter = 'nobody'\nmethod = 'm'\n",
            "UNKNOWN_ADAPTER",
            "nobody",
        ),
        ("default_adapter = 'nobody'\n", "UNKNOWN_ADAPTER", "nobody"),
    ] {
        assert_refused(&Stage::bare(config), &LISTEN, code, &[said]);
    }
    let missing = "[[listeners]]\ntls_cert = 'no.pem'\ntls_key = 'no.pem'\n";
    assert_refused(&Stage::bare(missing), &LISTEN, "CONFIG_FILE_INVALID", &["no.pem", "line 3"]);
    let stage = Stage::bare("[[listeners]]\ntls_cert = 'bad'\ntls_key = 'bad'\n");
    std::fs::write(stage.path("bad"), "no key").unwrap();
    make_private(&stage.path("bad"));
    assert_refused(&stage, &LISTEN, "TLS_FILES_INVALID", &["bad"]);
    let run = Stage::bare("").refused(&["--listen", "nonsense"]);
    assert!(run.code() == 2 && run.stderr().contains("HOST:PORT"), "{}", run.stderr());
}

#[test]
fn required_adapters_that_are_not_there_end_the_start() {
    for (entry, code, said) in [
        ("ref = 'no_such_library:x'", "LIBRARY_NOT_FOUND", "no_such_library"),
        ("ref = 'bad_adapters:no_such_factory'", "FACTORY_NOT_FOUND", "no_such_factory"),
    ] {
        let stage = Stage::bare(&format!("require_all = true\n[[adapters]]\n{entry}\n"));
        let run = stage.refused(&LISTEN);
        let told = run.stderr();
        assert_eq!(run.code(), 2, "{told}");
        assert!(told.contains(&format!("error[{code}]: ")) && told.contains(said), "{told}");
        assert!(told.contains("hint: "), "{told}");
    }
}

#[test]
fn a_daemon_without_adapters_says_where_to_name_some() {
    let daemon = Stage::bare("").start(&[]);
    let note = "null  (none configured; see [[adapters]] and discover in router.toml)";
    until("the note", || daemon.stdout().contains(note).then_some(()));
}

#[test]
fn a_data_directory_that_cannot_be_written_is_told() {
    let stage = Stage::bare("");
    std::fs::write(stage.path("file"), "").unwrap();
    let run = stage.refused(&["--listen", "127.0.0.1:0", "--data-dir", "file/data"]);
    assert_eq!(run.code(), 2, "{}", run.stderr());
    assert!(run.stderr().contains("file/data"), "{}", run.stderr());
    if rustix::process::geteuid().is_root() {
        // Nothing is closed to this user.
        return;
    }
    std::fs::create_dir(stage.path("closed")).unwrap();
    std::fs::set_permissions(stage.path("closed"), std::fs::Permissions::from_mode(0o500)).unwrap();
    let run = stage.refused(&["--listen", "127.0.0.1:0", "--data-dir", "closed/data"]);
    assert!(run.code() == 2 && run.stderr().contains("closed/data"), "{}", run.stderr());
}

#[test]
fn strangers_are_let_in_only_when_the_operator_says_so_by_name() {
    let anywhere = ["--data-dir", "data", "--listen", "0.0.0.0:0"];
    let (plain, open) = ("--allow-remote-plaintext", "--allow-remote-without-tokens");
    for (more, said) in [
        (&[][..], &["tls_cert and tls_key", "allow_remote_plaintext"][..]),
        (
            &["--no-tokens"],
            &["tls_cert and tls_key", "allow_remote_without_tokens", "tokens = true"],
        ),
        (&["--no-tokens", plain], &["allow_remote_without_tokens"]),
        (&["--no-tokens", open], &["allow_remote_plaintext"]),
    ] {
        let said = [said, &["0.0.0.0", "or listen on 127.0.0.1 alone"]].concat();
        assert_refused(&Stage::bare(""), &[&anywhere[..], more].concat(), "LISTENER_UNSAFE", &said);
    }
    for more in [&[plain][..], &["--no-tokens", plain, open]] {
        let daemon = Daemon::start(ADAPTERS, &[&anywhere[2..], more].concat());
        daemon.assert_alive();
        let refused = daemon.get("/healthz").header("Host", "evil.com");
        refused.refused(403, "HOST_REFUSED");
        assert_eq!(daemon.get("/v1/runs").by_nobody().send().status == 401, more.len() == 1);
    }
}

/// Makes a file readable by its owner alone.
fn make_private(path: &Path) {
    set_mode(path, 0o600);
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns the configuration of a listener whose certificate and key are in a directory.
fn tls_listener(directory: &Path) -> String {
    let golden = workspace().join("tests/golden/tls");
    for name in ["cert.pem", "key.pem"] {
        std::fs::copy(golden.join(name), directory.join(name)).unwrap();
    }
    make_private(&directory.join("key.pem"));
    format!(
        "[[listeners]]\naddress = \"0.0.0.0:0\"\ntls_cert = \"{0}/cert.pem\"\ntls_key = \"{0}/key.pem\"\n",
        directory.display()
    )
}

#[test]
fn rejects_tls_keys_that_others_may_read() {
    let place = tempfile::tempdir().unwrap();
    let key = place.path().join("key.pem");
    let stage = Stage::bare(&tls_listener(place.path()));
    for mode in [0o644, 0o640, 0o604, 0o660] {
        set_mode(&key, mode);
        let (shown, hint) = (format!("{mode:04o}"), format!("chmod 600 {}", key.display()));
        let said = ["router.toml", "listeners[0].tls_key", "line 4", &shown, &hint];
        assert_refused(&stage, &["--listen", "127.0.0.1:0"], "CONFIG_FILE_INVALID", &said);
    }
}

#[test]
fn reload_and_renewal_reject_exposed_tls_keys() {
    let place = tempfile::tempdir().unwrap();
    let key = place.path().join("key.pem");
    let daemon = Daemon::start(&tls_listener(place.path()), &["--listen", "127.0.0.1:0"]);
    let trusting = agent(&[&place.path().join("cert.pem")]);
    let url = format!("https://localhost:{}", daemon.address.port());
    let admin = format!("Bearer {}", daemon.token("admin"));
    let reload = || {
        let request = trusting.post(format!("{url}/v1/reload")).header("Authorization", &admin);
        let mut answer = request.send_empty().unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    };
    assert_eq!(reload().0, 200);
    set_mode(&key, 0o644);
    let (status, told) = reload();
    assert_ne!(status, 200, "{told}");
    for said in ["CONFIG_FILE_INVALID", "key.pem", "0644", "chmod 600", "line 4"] {
        assert!(told.contains(said), "{said}: {told}");
    }
    // New connections look at the files, and keep the key that was accepted before.
    let fresh = || agent(&[&place.path().join("cert.pem")]).get(format!("{url}/healthz")).call();
    until("the refusal of the key", || {
        assert_eq!(fresh().unwrap().status(), 200);
        daemon.stderr().contains("the renewed certificate is refused").then_some(())
    });
    make_private(&key);
    assert_eq!(reload().0, 200);
}

#[test]
fn a_listener_with_a_certificate_speaks_tls() {
    let place = tempfile::tempdir().unwrap();
    let files = place.path();
    let config = tls_listener(files);
    let daemon = Daemon::start(&config, &["--listen", "0.0.0.0:0"]);
    assert!(daemon.stdout().contains("https://0.0.0.0:"), "{}", daemon.stdout());
    let trusting = agent(&[&files.join("cert.pem")]);
    let url = format!("https://localhost:{}", daemon.address.port());
    let mut answer = trusting.get(format!("{url}/healthz")).call().unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.body_mut().read_to_string().unwrap(), "{\"status\":\"ok\"}");
    let bearer = format!("Bearer {}", daemon.token("read"));
    let mut answer =
        trusting.get(format!("{url}/v1/status")).header("Authorization", bearer).call().unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    let status: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status["you"]["name"], "read", "{status}");
    assert_eq!(trusting.get(format!("{url}/v1/status")).call().unwrap().status(), 401);
    // A page that came in the clear does not speak for one that came over TLS.
    let page = trusting.get(format!("{url}/healthz"));
    let page = page.header("Origin", format!("http://localhost:{}", daemon.address.port()));
    assert_eq!(page.call().unwrap().status(), 403);
    assert!(agent(&[]).get(format!("{url}/healthz")).call().is_err());
    // Who does not speak TLS gets no answer, and takes nobody's place.
    let answer = daemon.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    assert_eq!(trusting.get(format!("{url}/healthz")).call().unwrap().status(), 200);
}

/// Makes a client that trusts the certificates in some files.
fn agent(trusted: &[&Path]) -> ureq::Agent {
    let read = |file: &&Path| {
        ureq::tls::Certificate::from_pem(&std::fs::read(file).unwrap()).unwrap().to_owned()
    };
    let trusted = ureq::tls::RootCerts::Specific(Arc::new(trusted.iter().map(read).collect()));
    let tls = ureq::tls::TlsConfig::builder()
        .root_certs(trusted)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    let config = ureq::Agent::config_builder().tls_config(tls).http_status_as_error(false);
    ureq::Agent::new_with_config(config.build())
}

#[test]
fn a_renewed_certificate_is_taken_up_and_a_bad_one_is_not() {
    let golden = workspace().join("tests/golden/tls");
    let place = tempfile::tempdir().unwrap();
    let put = |cert: &str, key: &str| {
        std::fs::copy(golden.join(cert), place.path().join("cert.pem")).unwrap();
        std::fs::copy(golden.join(key), place.path().join("key.pem")).unwrap();
        make_private(&place.path().join("key.pem"));
    };
    put("cert.pem", "key.pem");
    let config = format!(
        "[[listeners]]\ntls_cert = \"{0}/cert.pem\"\ntls_key = \"{0}/key.pem\"\n",
        place.path().display()
    );
    let daemon = Daemon::start(&config, &["--listen", "127.0.0.1:0"]);
    let url = format!("https://localhost:{}/healthz", daemon.address.port());
    // A client for each try: a connection that is kept keeps its certificate.
    let heard = |trusted: &str| agent(&[&golden.join(trusted)]).get(&url).call().is_ok();
    assert!(heard("cert.pem") && !heard("renewed_cert.pem"));
    // A certificate without its key.
    put("renewed_cert.pem", "key.pem");
    until("the refusal", || {
        assert!(heard("cert.pem"));
        daemon.stderr().contains("the renewed certificate is refused").then_some(())
    });
    put("renewed_cert.pem", "renewed_key.pem");
    until("the renewed certificate", || heard("renewed_cert.pem").then_some(()));
    assert!(!heard("cert.pem"));
}

#[test]
fn adapters_are_discovered_where_the_configuration_says_so() {
    let stage = Stage::bare("discover = true\n");
    let adapters = stage.path("adapters");
    std::fs::create_dir(&adapters).unwrap();
    let echo = built_library("nexus_router_adapter_echo");
    std::fs::copy(&echo, adapters.join(echo.file_name().unwrap())).unwrap();
    // Only these: beside the program there are libraries that are broken on purpose.
    let program = stage.path("bin");
    std::fs::create_dir(&program).unwrap();
    copy_program(&program.join("nexus-router"));
    let shown = std::process::Command::new(program.join("nexus-router"))
        .args(["config", "check", "--load", "--format", "json"])
        .current_dir(stage.path(""))
        .env_clear()
        .env("HOME", stage.path("home"))
        .env("NEXUS_ROUTER_ADAPTER_PATH", &adapters)
        .output()
        .unwrap();
    assert!(shown.status.success(), "{shown:?}");
    let listed = std::process::Command::new(program.join("nexus-router"))
        .args(["run", "-", "--db", "runs.db", "--id-only"])
        .current_dir(stage.path(""))
        .env_clear()
        .env("HOME", stage.path("home"))
        .env("NEXUS_ROUTER_ADAPTER_PATH", &adapters)
        .stdin(std::fs::File::open(written(&stage)).unwrap())
        .output()
        .unwrap();
    assert!(listed.status.success(), "{listed:?}");
}

/// Writes a plan for the adapter that is to be discovered, and returns its file.
fn written(stage: &Stage) -> PathBuf {
    let file = stage.path("plan.json");
    std::fs::write(&file, super::support::plan("echo", "t", "m").to_string()).unwrap();
    file
}

#[test]
fn files_that_never_end_are_not_waited_for() {
    let stage = Stage::bare("");
    std::fs::remove_file(stage.path("router.toml")).unwrap();
    pipe(&stage.path("router.toml"));
    assert_refused(&stage, &LISTEN, "CONFIG_FILE_UNREADABLE", &["no regular file"]);
    let stage = Stage::bare("[secrets]\nT = \"file:pipe\"\n");
    pipe(&stage.path("pipe"));
    assert_refused(&stage, &LISTEN, "SECRET_UNUSABLE", &["no regular file"]);
}

fn pipe(path: &Path) {
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, rustix::fs::Mode::RUSR, 0).unwrap();
}

#[test]
fn a_daemon_whose_store_is_taken_away_says_so() {
    let daemon = Daemon::usual();
    assert_eq!(daemon.get("/readyz").send().status, 200);
    let store = daemon.stage.path("data/runs.db");
    std::fs::rename(&store, daemon.stage.path("data/elsewhere.db")).unwrap();
    let problem = daemon.get("/readyz").refused(503, "NOT_READY");
    assert!(problem["detail"].as_str().unwrap().contains("moved or removed"), "{problem}");
}
