"""Has programs of others verify what the router sealed, and refuse copies that were tampered with.

The arguments are the program, a directory of all that is sealed, the file of an exported run, a directory to work in, and
that of the modules for Node. securesystemslib and in-toto-attestation read the attestations, cryptography and hashlib the
log; @sigstore/verify reads the attestations as bundles of Sigstore; verify.sh reads everything with sha256sum, jq and
openssl. Every bundle must be genuine for all of them, and every tampered copy for none that looks at what was changed.
"""

import base64
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from google.protobuf import json_format
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementMessage
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

program, sealed, run, place, modules = (pathlib.Path(argument).resolve() for argument in sys.argv[1:6])
here = pathlib.Path(__file__).resolve().parent
script = here.parents[1] / "templates" / "verify.sh"
shutil.rmtree(place, ignore_errors=True)
place.mkdir(parents=True)
SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]
shells = [shell for shell in SHELLS if shutil.which(shell[0])]
assert shells[0] == ["dash"], "there is no dash"

trust = json.loads((sealed / "keys" / "trust.json").read_text())
keys = {key["keyid"]: SSlibKey.from_crypto(load_pem_public_key(key["pem"].encode()), keyid=key["keyid"]) for key in trust["attestation_keys"]}
# What an auditor has: the public keys as files, and nothing of the router's.
pems = place / "pems"
pems.mkdir()
for kind in ["attestation", "log"]:
    for number, key in enumerate(trust[f"{kind}_keys"]):
        (pems / f"{kind}.{number}.pub.pem").write_text(key["pem"])
alone = place / "trust.json"
shutil.copy(sealed / "keys" / "trust.json", alone)


def shell(bundle, trusted=alone, with_shell=shells[0]):
    command = [*with_shell, str(script), str(bundle), str(trusted)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, check=False)
    verdict = {0: "GENUINE ", 1: "NOT GENUINE ", 2: "CANNOT TELL "}[done.returncode]
    said = (done.stderr if done.returncode == 2 else done.stdout) or done.stderr
    assert said.startswith(verdict) and said.count("\n") == 1, (command, done)
    return done.returncode, said


def ours(bundle):
    words = ["evidence", "verify"]
    words += ["--trust", str(alone), str(bundle)]
    return subprocess.run([program, *words], capture_output=True, timeout=60, check=False).returncode


def seal_of(bundle):
    if bundle.is_file():
        value = json.loads(bundle.read_text())
        return value["attestation"], value["proof"]
    (line,) = (bundle / "attestation.intoto.jsonl").read_text().splitlines()
    return json.loads(line), (bundle / "inclusion.tlog-proof").read_text()


def attested(envelope):
    """Returns the statement of an envelope, as two libraries read it."""
    read = Envelope.from_dict(json.loads(json.dumps(envelope)))
    read.verify(list(keys.values()), 1)
    message = json_format.ParseDict(json.loads(read.payload), StatementMessage())
    statement = Statement.copy_from_pb(message)
    statement.validate()
    assert statement.pb.predicate_type == "https://in-toto.io/attestation/link/v0.3"
    return read.payload, {subject.name: subject.digest["sha256"] for subject in statement.pb.subject}


def in_log(entry, proof):
    """Holds a proof to RFC 9162 and C2SP, by nothing but hashlib and cryptography."""
    head, _, note = proof.partition("\n\n")
    first, index, *path = head.split("\n")
    assert first == "c2sp.org/tlog-proof@v1" and index.startswith("index "), head
    body, _, signature = note.partition("\n\n")
    origin, size, root = body.split("\n")
    low, high = int(index[6:]), int(size) - 1
    node = hashlib.sha256(b"\0" + entry).digest()
    for other in map(base64.b64decode, path):
        assert high > 0
        if low % 2 or low == high:
            node = hashlib.sha256(b"\1" + other + node).digest()
            while low % 2 == 0 and low:
                low, high = low // 2, high // 2
        else:
            node = hashlib.sha256(b"\1" + node + other).digest()
        low, high = low // 2, high // 2
    assert high == 0 and node == base64.b64decode(root), "the path does not lead to the root"
    dash, name, line = signature.rstrip("\n").split(" ")
    raw = base64.b64decode(line)
    assert dash == "\u2014" and name == origin == trust["origin"] and len(raw) == 68
    for key in trust["log_keys"]:
        last = key["last_size"]
        if key["first_size"] <= int(size) and (last is None or int(size) <= last):
            public = load_pem_public_key(key["pem"].encode())
            assert isinstance(public, Ed25519PublicKey)
            material = b"\1" + public.public_bytes(Encoding.Raw, PublicFormat.Raw)
            assert raw[:4] == hashlib.sha256(name.encode() + b"\n" + material).digest()[:4]
            public.verify(raw[4:], (body + "\n").encode())
            return
    raise AssertionError(f"no key is good for {size} entries")


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check(bundle):
    """Verifies a bundle with everything but verify.sh and Node, and returns its kind."""
    envelope, proof = seal_of(bundle)
    payload, subjects = attested(envelope)
    if bundle.is_file():
        value = json.loads(bundle.read_text())
        covered = {"events": value["events"], "run": value["run"]}
        manifest = hashlib.sha256(json.dumps(covered, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        assert subjects == {f"runs/{value['run']['run_id']}": manifest}, subjects
        kind, spec = "run", None
    else:
        assert subjects == {name: digest(bundle / name) for name in subjects}, subjects
        manifest = subjects["manifest.sha256.json"]
        said = json.loads((bundle / "manifest.sha256.json").read_text())
        for name, listed in said.get("files", {}).items():
            assert digest(bundle / name) == listed, name
        if "exec_spec.json" in subjects:
            kind, spec = "execution", subjects["exec_spec.json"]
        elif "rejection.json" in subjects:
            kind, spec = "rejection", None
        else:
            kind, spec = "verification", said["spec_sha256"]
    entry = {"kind": kind, "manifest_sha256": manifest, "spec_sha256": spec, "statement_sha256": hashlib.sha256(payload).hexdigest()}
    in_log(json.dumps(entry, sort_keys=True, separators=(",", ":")).encode(), proof)
    return kind


def refuses(bundle):
    try:
        check(bundle)
    except (AssertionError, VerificationError, InvalidSignature, ValueError, KeyError, TypeError, OSError):
        return True
    return False


def sigstore(envelopes):
    """Says of each envelope whether @sigstore/verify takes it."""
    asked = [{"envelope": envelope, "keys": {key["keyid"]: key["pem"] for key in trust["attestation_keys"]}} for envelope in envelopes]
    environment = {**os.environ, "NODE_PATH": str(modules)}
    done = subprocess.run(["node", here / "evidence.cjs"], input=json.dumps(asked), capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


evidence = sealed / "evidence"
bundles = sorted(path.parent for path in evidence.rglob("attestation.intoto.jsonl")) + [run]
kinds = {bundle: check(bundle) for bundle in bundles}
assert set(kinds.values()) == {"execution", "rejection", "verification", "run"}, kinds
for bundle in bundles:
    assert ours(bundle) == 0, bundle
    for with_shell in shells:
        for trusted in [alone, pems]:
            code, said = shell(bundle, trusted, with_shell)
            assert code == 0, (with_shell, trusted, said)
assert sigstore([seal_of(bundle)[0] for bundle in bundles]) == [True] * len(bundles)

# One of each kind is tampered with, in every way that somebody without the keys has.
samples = {kind: bundle for bundle, kind in kinds.items()}
largest = [bundle for bundle, kind in kinds.items() if kind == "execution" and (bundle / "volatile" / "removed.json").exists()]
samples.update({"execution": bundle for bundle in largest})
tampered = []


def copied(bundle):
    copy = place / "copies" / str(len(tampered)) / bundle.name
    copy.parent.mkdir(parents=True)
    if bundle.is_file():
        shutil.copy(bundle, copy)
    else:
        shutil.copytree(bundle, copy)
    return copy


def found(copy, what):
    """Has a copy judged, together with all others."""
    tampered.append((copy, what))


def judge(copy, what):
    code, said = shell(copy)
    assert code in (1, 2), f"verify.sh takes {what} for genuine: {said}"
    assert ours(copy) in (1, 2), f"the router takes {what} for genuine"
    return said


def others(kind):
    return [bundle for bundle in bundles if kinds[bundle] == kind and bundle != samples[kind]]


for kind, bundle in samples.items():
    if kind == "run":
        text = bundle.read_bytes()
        # When and where it was exported is nobody's claim, and no digest covers it.
        when, where = text.index(b'"exported_at":"') + 15, text.index(b'"provenance":{"export_method"') + 14
        free = {*range(when, text.index(b'"', when)), *range(where, text.index(b"}", where))}
        for at in sorted({*range(0, len(text), max(1, len(text) // 60)), *range(0, 24), len(text) - 1} - free):
            copy = copied(bundle)
            copy.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
            found(copy, f"a run whose byte {at} was flipped")
        value = json.loads(text)
        for name in ["attestation", "proof", "events", "run", "digests", "chain"]:
            copy = copied(bundle)
            copy.write_text(json.dumps({key: item for key, item in value.items() if key != name}))
            found(copy, f"a run without {name}")
        # The forger computes the digest anew, which takes no key.
        value["run"]["goal"] += "!"
        covered = json.dumps({"events": value["events"], "run": value["run"]}, sort_keys=True, separators=(",", ":"))
        value["digests"]["sha256"] = hashlib.sha256(covered.encode()).hexdigest()
        copy = copied(bundle)
        copy.write_text(json.dumps(value))
        assert refuses(copy)
        found(copy, "a run with another goal and a new digest")
        continue
    files = [file.relative_to(bundle) for file in sorted(bundle.rglob("*")) if file.is_file()]
    for name in files:
        text = (bundle / name).read_bytes()
        spots = {0, len(text) // 3, len(text) // 2, 2 * len(text) // 3, len(text) - 1} if text else set()
        for at in sorted(spots):
            copy = copied(bundle)
            (copy / name).write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
            found(copy, f"a {kind} whose {name} has another byte {at}")
        for what, changed in [("shorter", text[:-1]), ("longer", text + b"\n"), ("doubled", text + text)]:
            if changed != text:
                copy = copied(bundle)
                (copy / name).write_bytes(changed)
                found(copy, f"a {kind} whose {name} is {what}")
        copy = copied(bundle)
        (copy / name).unlink()
        found(copy, f"a {kind} without {name}")
        copy = copied(bundle)
        (copy / name).rename(copy / name.with_name("other.json"))
        found(copy, f"a {kind} whose {name} has another name")
        copy = copied(bundle)
        (copy / name).unlink()
        (copy / name).symlink_to(bundle / name)
        found(copy, f"a {kind} whose {name} is a link")
    for name in ["more.json", "outputs/more.json", "volatile/more.json", "a b", "-n", "new\nline", "\u00e9", "..x", ".hidden"]:
        copy = copied(bundle)
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text("{}")
        found(copy, f"a {kind} with {name!r} added")
    for name in ["outputs", "volatile"]:
        if (bundle / name).is_dir():
            copy = copied(bundle)
            shutil.rmtree(copy / name)
            found(copy, f"a {kind} without {name}")
    copy = copied(bundle)
    (copy / "volatile" / "empty").mkdir(parents=True)
    found(copy, f"a {kind} with an empty directory")
    copy = copied(bundle)
    os.mkfifo(copy / "pipe")
    found(copy, f"a {kind} with a pipe")
    # Seals of other bundles of the same router.
    for other in [candidate for name in samples for candidate in [samples[name], *others(name)] if candidate != bundle and candidate.is_dir()]:
        for names in [["attestation.intoto.jsonl"], ["inclusion.tlog-proof"], ["attestation.intoto.jsonl", "inclusion.tlog-proof"]]:
            copy = copied(bundle)
            for name in names:
                shutil.copy(other / name, copy / name)
            assert refuses(copy)
            found(copy, f"a {kind} with {names} of another")

# What an execution says is changed, and every digest that takes no key is computed anew.
bundle = samples["execution"]
copy = copied(bundle)
(copy / "stdout.txt").write_text("forged")
manifest = json.loads((copy / "manifest.sha256.json").read_text())
manifest["files"]["stdout.txt"] = digest(copy / "stdout.txt")
(copy / "manifest.sha256.json").write_text(json.dumps(manifest, sort_keys=True, separators=(",", ":")))
summary = json.loads((copy / "run_summary.json").read_text())
summary["manifest_sha256"] = digest(copy / "manifest.sha256.json")
(copy / "run_summary.json").write_text(json.dumps(summary, sort_keys=True, separators=(",", ":")))
assert refuses(copy)
found(copy, "an execution with other output and new digests")

with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as judges:
    reasons = list(judges.map(judge, *zip(*tampered)))

# Statements that were changed, and keys that are none: the libraries refuse them too.
envelope, _ = seal_of(bundle)
statement = json.loads(base64.b64decode(envelope["payload"]))
statement["predicate"]["name"] = "envoy/shell_exec"
forged = {**envelope, "payload": base64.b64encode(json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()).decode()}
signature = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
signature[7] ^= 4
resigned = {**envelope, "signatures": [{**envelope["signatures"][0], "sig": base64.b64encode(signature).decode()}]}
retyped = {**envelope, "payloadType": "application/json"}
for changed in [forged, resigned, retyped]:
    try:
        attested(changed)
    except VerificationError:
        continue
    raise AssertionError(f"securesystemslib takes {changed}")
assert sigstore([forged, resigned, retyped, envelope]) == [False, False, False, True]
foreign = place / "foreign"
foreign.mkdir()
for kind in ["attestation", "log"]:
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", foreign / "key.pem"], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", foreign / "key.pem", "-pubout", "-out", foreign / f"{kind}.pub.pem"], check=True)
for one in ["attestation", "log"]:
    mixed = place / f"mixed.{one}"
    shutil.copytree(pems, mixed)
    for file in mixed.glob(f"{one}*.pub.pem"):
        shutil.copy(foreign / f"{one}.pub.pem", file)
    code, said = shell(bundle, mixed)
    assert code == 1 and f"no {one} key" in said, said
    for file in mixed.glob(f"{one}*.pub.pem"):
        file.unlink()
    code, said = shell(bundle, mixed)
    assert code == 2 and f"no {one} key" in said, said
# A key is good for its part of the log, and for no other.
expired = json.loads(alone.read_text())
expired["attestation_keys"][-1]["first_leaf"] = 1 << 40
(place / "expired.json").write_text(json.dumps(expired))
code, said = shell(bundle, place / "expired.json")
assert code == 1 and "trusted for entry" in said, said
for trusted in ["/nowhere", str(script)]:
    assert shell(bundle, trusted)[0] == 2
assert shell("/nowhere")[0] == 2
# Names are names, however they look.
odd = place / "-odd 'name'\n$(id)"
shutil.copytree(bundle, odd)
assert shell(odd)[0] == 0
print(f"{len(bundles)} bundles genuine for all, {len(tampered)} tampered copies for none")
