"""Has programs of others verify what the router sealed, and refuse copies that were tampered with.

The arguments are the program, a directory of all that is sealed, the file of an exported run, that of one that nests deeply,
a directory to work in, and that of the modules for Node. securesystemslib and in-toto-attestation read the attestations, cryptography and hashlib the
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

program, sealed, run, deep, place, modules = (pathlib.Path(argument).resolve() for argument in sys.argv[1:7])
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


def ours(bundle, trusted=alone):
    words = ["evidence", "verify"]
    words += ["--trust", str(trusted), str(bundle)]
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
# Copies of runs that say the same in other words: the router reads them, verify.sh cannot tell.
reworded = []


def copied(bundle):
    copy = place / "copies" / str(len(tampered) + len(reworded)) / bundle.name
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


def judge_reworded(copy, what):
    code, said = shell(copy)
    assert code == 2 and "byte for byte" in said, f"verify.sh says of {what}: {said}"
    assert ours(copy) == 0, f"the router does not take {what} for genuine"


def written(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def without(item, name):
    return {other: value for other, value in item.items() if other != name}


def inserted(text):
    """Returns a text with characters that shells drop."""
    spots = [0, len(text) // 2, len(text)]
    return [(f"{added!r} at {at}", text[:at] + added + text[at:]) for added in ["\n", "\0"] for at in spots]


def envelopes(envelope):
    """Returns envelopes with such characters, each as canonical as the first."""
    (signature,) = envelope["signatures"]
    for name in ["payload", "payloadType"]:
        for what, text in inserted(envelope[name]):
            yield f"{what} of {name}", written({**envelope, name: text})
    for name in signature:
        for what, text in inserted(signature[name]):
            yield f"{what} of {name}", written({**envelope, "signatures": [{**signature, name: text}]})


def respell(bundle):
    """Writes a run in other ways, of which some are the same to programs that read JSON, and some to some of them."""
    text = bundle.read_bytes()
    value = json.loads(text)

    def one(old, new):
        assert old in text, old
        return text.replace(old, new, 1)

    for what, changed in {
        "another last digit": one(b"9007199254740991", b"9007199254740990"),
        "an integer beyond 2^53": one(b"9007199254740991", b"9007199254740993"),
        "3.0": one(b'"seq":3,', b'"seq":3.0,'),
        "3e0": one(b'"seq":3,', b'"seq":3e0,'),
        "03": one(b'"seq":3,', b'"seq":03,'),
        "a fraction that is lost": one(b'"seq":3,', b'"seq":3.00000000000000000001,'),
        "a mark in front": b"\xef\xbb\xbf" + text,
        "a NUL at its end": text + b"\0",
        "itself after it": text + text,
        "two of seq": one(b'"seq":3,', b'"seq":4,"seq":3,'),
        "two of run": one(b',"run":{', b',"run":{},"run":{'),
        "another run at its end": text[:-2] + b',"run":{}}\n',
        "two of digests": one(b'],"run":{', b'],"digests":{"sha256":""},"run":{'),
        "two of alg": one(b'"alg":"sha256"', b'"alg":"sha256","alg":"sha256"'),
        "one more member": text[:-2] + b',"more":""}\n',
    }.items():
        copy = copied(bundle)
        copy.write_bytes(changed)
        found(copy, f"a run with {what}")
    for name, start in [("sha256", b',"digests":{"sha256":"'), ("head", b'"alg":"sha256","head":"'), ("proof", b',"proof":"')]:
        at = text.rindex(start) + len(start)
        old = json.loads(text[at - 1 : text.index(b'"', at) + 1])
        for what, new in inserted(old):
            copy = copied(bundle)
            copy.write_bytes(text[: at - 1] + json.dumps(new).encode() + text[text.index(b'"', at) + 1 :])
            found(copy, f"a run with {what} of {name}")
    for name in ["chain", "digests", "exported_at"]:
        copy = copied(bundle)
        copy.write_bytes(json.dumps(without(value, name), separators=(",", ":")).encode() + b"\n")
        found(copy, f"a run without {name}")
    start, end = text.rindex(b',"attestation":') + 15, text.rindex(b',"proof":')
    assert written(value["attestation"]) == text[start:end]
    for what, changed in envelopes(value["attestation"]):
        copy = copied(bundle)
        copy.write_bytes(text[:start] + changed + text[end:])
        found(copy, f"a run with {what}")
    for what, changed in {
        "indented": json.dumps(value, indent=1).encode(),
        "with its members in another order": json.dumps(dict(reversed(value.items())), separators=(",", ":")).encode() + b"\n",
        "with a blank in an event": one(b'"seq":3,', b'"seq": 3,'),
        "with a blank in front": b" " + text,
        "without a newline": text[:-1],
        "with another newline": text[:-1] + b"\r\n",
        "with a letter as an escape": one(b'"goal":"l', b'"goal":"\\u006c'),
        "with a letter for an escape": one(b"\\u00fc", "\u00fc".encode()),
        "with an escape in its proof": one(b',"proof":"c', b',"proof":"\\u0063'),
        "with another provenance": one(b'"provenance":{"export_method"', b'"provenance":{"by":"","export_method"'),
    }.items():
        copy = copied(bundle)
        copy.write_bytes(changed)
        reworded.append((copy, f"a run {what}"))


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
        for name in ["attestation", "proof", "events", "run", "digests"]:
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
        respell(bundle)
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
    for what, changed in envelopes(seal_of(bundle)[0]):
        copy = copied(bundle)
        (copy / "attestation.intoto.jsonl").write_bytes(changed + b"\n")
        found(copy, f"a {kind} with {what}")
    for what, changed in inserted(seal_of(bundle)[1]):
        copy = copied(bundle)
        (copy / "inclusion.tlog-proof").write_text(changed)
        found(copy, f"a {kind} with {what} of its proof")
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

# What jq does not read is not for that forged; what is forged is not genuine for nesting deeply.
assert check(deep) == "run" and ours(deep) == 0
for with_shell in shells:
    code, said = shell(deep, with_shell=with_shell)
    assert code == 0 or code == 2 and "too deeply" in said, said
copy = copied(deep)
copy.write_bytes(deep.read_bytes().replace(b'"goal":"nest"', b'"goal":"next"'))
found(copy, "a run with another goal that nests deeply")

with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as judges:
    reasons = list(judges.map(judge, *zip(*tampered)))
    list(judges.map(judge_reworded, *zip(*reworded)))

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
stranger = {kind: (foreign / f"{kind}.pub.pem").read_text() for kind in ["attestation", "log"]}
material = {kind: base64.b64decode(pem.split("\n")[1]) for kind, pem in stranger.items()}
origin = trust["origin"]
identity = hashlib.sha256(origin.encode() + b"\n\1" + material["log"][12:]).hexdigest()[:8]
foreign_key = {"first_leaf": 0, "keyid": hashlib.sha256(material["attestation"]).hexdigest(), "last_leaf": None, "pem": stranger["attestation"]}
foreign_log = {"first_size": 0, "last_size": None, "pem": stranger["log"], "vkey": f"{origin}+{identity}+{base64.b64encode(bytes([1]) + material['log'][12:]).decode()}"}
(key,), (log,) = trust["attestation_keys"], trust["log_keys"]
FAR = 1 << 40


def trusting(keys=(key,), logs=(log,), **members):
    return {"attestation_keys": list(keys), "log_keys": list(logs), "origin": origin, "version": 1, **members}


def judge_trust(item):
    number, (what, value, codes, said_of_it) = item
    file = place / f"trust.{number}.json"
    file.write_bytes(value if isinstance(value, bytes) else json.dumps(value, indent=1).encode())
    code, said = shell(bundle, file)
    assert code in codes and said_of_it in said, f"verify.sh says with a trust.json with {what}: {said}"
    assert ours(bundle, file) in codes, f"the router does not agree about a trust.json with {what}"


assert trusting() == trust
plain = written(trust)
followed = [{**key, "last_leaf": FAR}, {**foreign_key, "first_leaf": FAR + 1}]
followed_log = [{**log, "last_size": FAR + 1}, {**foreign_log, "first_size": FAR + 2}]
trusts = [
    ("its members in another order", json.dumps(dict(reversed(trust.items()))).encode() + b"\r\n\t", [0], ""),
    ("escapes", plain.replace(b"version", b"\\u0076ersion"), [0], ""),
    ("keys that come later", trusting(followed, followed_log), [0], ""),
    ("a key that came later", trusting([{**foreign_key, "last_leaf": FAR}, {**key, "first_leaf": FAR + 1}]), [1], "trusted for entry"),
    ("a log key that came later", trusting(logs=[{**foreign_log, "last_size": FAR}, {**log, "first_size": FAR + 1}]), [1], "trusted for"),
]
refused = {
    "a number that is a string": trusting([{**key, "first_leaf": "0"}]),
    "a size that is a string": trusting(logs=[{**log, "first_size": "0"}]),
    "no last_leaf": trusting([without(key, "last_leaf")]),
    "no last_size": trusting(logs=[without(log, "last_size")]),
    "no keyid": trusting([without(key, "keyid")]),
    "no vkey": trusting(logs=[without(log, "vkey")]),
    "one more member": trusting(more=None),
    "one more member of a key": trusting([{**key, "more": None}]),
    "one more member of a log key": trusting(logs=[{**log, "more": None}]),
    "a last key that is closed": trusting([{**key, "last_leaf": FAR}]),
    "a last log key that is closed": trusting(logs=[{**log, "last_size": FAR}]),
    "a key after an open one": trusting([key, {**foreign_key, "first_leaf": FAR}]),
    "a gap": trusting([{**key, "last_leaf": FAR}, {**foreign_key, "first_leaf": FAR + 2}]),
    "a first key that comes later": trusting([{**key, "first_leaf": 1}]),
    "a number beyond 2^53": trusting([{**key, "last_leaf": 1 << 53}, {**foreign_key, "first_leaf": (1 << 53) + 1}]),
    "two keys replaced by one entry": trusting(followed, [{**log, "last_size": FAR}, {**foreign_log, "first_size": FAR + 1}]),
    "a key twice": trusting([{**key, "last_leaf": FAR}, {**key, "first_leaf": FAR + 1}]),
    "a vkey of another key": trusting(logs=[{**log, "vkey": foreign_log["vkey"]}]),
    "a keyid of another key": trusting([{**key, "keyid": foreign_key["keyid"]}]),
    "another origin": trusting(origin="other"),
    "a PEM text with something before it": trusting([{**key, "pem": "key\n" + key["pem"]}]),
    "no keys": trusting([]),
    "no log keys": trusting(logs=[]),
    "another version": trusting(version=2),
    "a fraction": plain.replace(b'"version":1', b'"version":1.0'),
    "a fraction that is lost": plain.replace(b'"version":1', b'"version":1.00000000000000000001'),
    "a zero in front": plain.replace(b'"version":1', b'"version":01'),
    "an exponent": plain.replace(b'"first_leaf":0', b'"first_leaf":0e0'),
    "a member twice": plain.replace(b'"first_leaf":0', b'"first_leaf":9,"first_leaf":0'),
    "a mark in front": b"\xef\xbb\xbf" + plain,
    "itself after it": plain + plain,
    "a line in a string": plain.replace(b"\\n", b"\n", 1),
}
for name in ["keyid", "pem"]:
    refused.update({f"{what} of {name}": trusting([{**key, name: text}]) for what, text in inserted(key[name])})
for name in ["vkey", "pem"]:
    refused.update({f"{what} of {name} of the log": trusting(logs=[{**log, name: text}]) for what, text in inserted(log[name])})
refused.update({f"{what} of origin": trusting(origin=text) for what, text in inserted(origin)})
trusts += [(what, value, [2], "") for what, value in refused.items()]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as judges:
    list(judges.map(judge_trust, enumerate(trusts)))
for trusted in ["/nowhere", str(script)]:
    assert shell(bundle, trusted)[0] == 2
assert shell("/nowhere")[0] == 2
# Names are names, however they look.
odd = place / "-odd 'name'\n$(id)"
shutil.copytree(bundle, odd)
assert shell(odd)[0] == 0
print(f"{len(bundles)} bundles genuine for all, {len(tampered)} tampered copies for none, {len(refused)} of {len(trusts)} trust.json refused")
