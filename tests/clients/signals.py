"""Has the AiGentsy tools judge what `nexus-router contract` makes, and it what they make.

Arguments: the program, and a directory to work in.
"""

import functools
import http.server
import json
import os
import pathlib
import ssl
import subprocess
import sys
import threading

program, place = sys.argv[1], pathlib.Path(sys.argv[2])
place.mkdir(parents=True, exist_ok=True)
program = str(pathlib.Path(program).resolve())


def run(words, code=0, **variables):
    environment = {**os.environ, **variables}
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=60, check=False, env=environment)
    if done.returncode != code:
        raise SystemExit(f"{words} ended with {done.returncode}, not {code}: {done.stdout}{done.stderr}")
    return done.stdout


def ours(*words, code=0):
    return run([program, "contract", *words], code)


def theirs(*words, code=0):
    return run(["aigentsy", "adapter", *words], code)


def read(name):
    return json.loads((place / name).read_text())


def write(name, value):
    (place / name).write_text(json.dumps(value))


# A contract of either program is one for the other, with the same hashes.
for name, scaffold, lint in [("ours", ours, theirs), ("theirs", theirs, ours)]:
    scaffold("scaffold", "--id", f"acme.{name}.v0", "--version", "1.0.0", "--fields", "tests_passed,reviewed", "--out", name)
    report = json.loads(lint("lint", f"{name}/adapter_contract.json"))
    assert report["ok"] and not report["errors"] and not report["warnings"], report
    assert report["contract_hash"] == read(f"{name}/adapter_contract.json")["contract_hash"]

# An entry that they attest is signed here, for a publisher of its own, and stands in a manifest with those made here.
for publisher in ["acme", "other"]:
    words = ["--publisher-id", publisher, "--publisher-key-id", "k1", "--document", f"{publisher}.json"]
    ours("keygen", f"{publisher}.pem", *words)
key = read("acme.json")["public_key_base64"]
attested = theirs("attest", "theirs/adapter_contract.json", "--publisher-id", "acme", "--publisher-key-id", "k1")
(place / "attested.json").write_text(attested)
(place / "theirs.entry.json").write_text(ours("sign", "attested.json", "--key", "acme.pem"))
build = ["manifest", "build", "ours", "theirs.entry.json", "--key", "acme.pem", "--publisher-id", "acme"]
ours(*build, "--publisher-key-id", "k1", "--valid-for", "30", "--out", "manifest.json")

# They verify it, with the key and with our publisher document.
for words in [
    ["--public-key-base64", key],
    ["--fetch-publisher", "--from-publisher-document", "acme.json"],
]:
    report = json.loads(theirs("manifest", "verify", "manifest.json", *words))
    assert report["ok"] and report["manifest_hash_status"] == report["manifest_signature_status"] == "ok", report
    assert report["entry_count"] == 2
    for entry in report["entries"]:
        assert entry["entry_hash_status"] == entry["entry_signature_status"] == "ok", entry
ours("manifest", "verify", "manifest.json", "--public-key-base64", key, "--require-signature", "--require-freshness")
other = read("other.json")["public_key_base64"]
for tool in [ours, theirs]:
    tool("manifest", "verify", "manifest.json", "--public-key-base64", other, code=1)
assert "acme.ours.v0@1.0.0" in theirs("list", "--manifest", "manifest.json")

# Both pin the same, and either goes on with the pin file of the other.
for entry in read("manifest.json")["contracts"]:
    words = ["--id", entry["adapter_id"], "--version", entry["adapter_version"], "--hash", entry["contract_hash"]]
    words += ["--manifest", "manifest.json", "--public-key-base64", key]
    for tool, file in [(ours, "a.json"), (theirs, "b.json")]:
        tool("pin", *words, "--out", file)
        tool("pin", *words, "--out", "shared.json")
assert read("a.json")["pinned_adapters"] == read("b.json")["pinned_adapters"]
assert read("a.json")["pinned_adapters"] == read("shared.json")["pinned_adapters"]
gate = ["pins", "check", "--pins", "b.json", "--manifest", "manifest.json", "--public-key-base64", key]
ours(*gate, "ours", "theirs")

# Both read the manifest from an HTTPS server that a certificate of the tests makes trusted.
tls = pathlib.Path(__file__).resolve().parent.parent / "golden" / "tls"
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=place)
handler.func.log_message = lambda *_: None
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(tls / "cert.pem", tls / "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"https://localhost:{server.server_port}/manifest.json"
certificate = str(tls / "cert.pem")
network = ["--fetch", "--ca", certificate]
listed = [
    ours("list", "--from", url, *network),
    run(["aigentsy", "adapter", "list", "--from", url], SSL_CERT_FILE=certificate),
]
for text in listed:
    assert "acme.ours.v0@1.0.0" in text, text
assert [text.split("NOTE: ")[0] for text in listed] == [listed[0].split("NOTE: ")[0]] * 2, listed
words = ["manifest", "verify", url, "--public-key-base64", key]
reports = [
    json.loads(ours(*words, *network)),
    json.loads(run(["aigentsy", "adapter", *words], SSL_CERT_FILE=certificate)),
]
for name in ["ok", "manifest_hash_status", "manifest_signature_status", "entries"]:
    assert reports[0][name] == reports[1][name], (name, reports)
ours("list", "--from", url, code=2)
server.shutdown()

# What was changed is found by both.
manifest = read("manifest.json")
manifest["contracts"][0]["status"] = "revoked"
write("changed.json", manifest)
for tool in [ours, theirs]:
    tool("manifest", "verify", "changed.json", "--public-key-base64", key, code=1)
print("contracts, entries, manifests and pins are the same for both")
