"""Holds bundles of ours to the verifier of AiGentsy, and what that verifier lets pass to ours.

The arguments are the program, and the directory of bundles [default: those of the golden data]. Others than those can
be held to it as well: a directory with earlier.json, later.json and key.json, the public key.
"""

import copy
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

program = pathlib.Path(sys.argv[1]).resolve()
here = pathlib.Path(__file__).resolve().parent
bundles = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else here.parent / "golden" / "signal_bundles"
key = bundles / "key.json"
verifier = pathlib.Path(sys.executable).parent / "aigentsy-verify"


def theirs(path):
    answer = subprocess.run([verifier, "bundle", path, "--json", "--public-key", key], capture_output=True, timeout=60)
    return answer.returncode, json.loads(answer.stdout)


def ours(path):
    command = [program, "contract", "bundle", "verify", path, "--json", "--strict", "--public-key", key]
    answer = subprocess.run(command, capture_output=True, timeout=60)
    return answer.returncode, json.loads(answer.stdout)


def rehashed(bundle):
    names = ["spec_version", "deal_id", "proofs", "events", "merkle_inclusion"]
    text = json.dumps({name: bundle[name] for name in names}, sort_keys=True, separators=(",", ":"))
    return {**bundle, "bundle_hash": hashlib.sha256(text.encode()).hexdigest()}


for name in ["earlier.json", "later.json"]:
    code, report = theirs(bundles / name)
    assert code == 0 and report["verified"], report
    assert report["verification_level"] == "full", report
    code, own = ours(bundles / name)
    assert code == 0 and own["steps"].pop("binding")["passed"], own
    # But for the step that is ours alone, both say the same.
    assert own["steps"] == report["steps"], (own, report)

# An evaluation is changed, and the hash of the bundle computed anew.
changed = copy.deepcopy(json.loads((bundles / "later.json").read_text()))
inputs = changed["proofs"][0]["evidence"]["adapter_evaluation"]["normalized_policy_inputs"]
for field in inputs:
    inputs[field] = not inputs[field]
with tempfile.TemporaryDirectory() as directory:
    path = pathlib.Path(directory) / "changed.json"
    path.write_text(json.dumps(rehashed(changed)))
    code, report = theirs(path)
    assert code == 0, "the verifier of AiGentsy finds it now: weak point 1 is one no longer"
    code, own = ours(path)
    assert code == 1 and not own["steps"]["binding"]["passed"], own

# Clean bundles of others: both verify each, and ours reports how much of it the tree head covers.
recorded = json.loads((here.parent / "golden" / "aigentsy" / "cli_verify_bundle.json").read_text())
foreign = {
    "bundle-anchored-first-event": "anchored_in_part",
    "bundle-anchored-middle": "anchored_in_part",
    "bundle-swarm-dec-anchor-before": "anchored_in_part",
    "bundle-anchor-no-sth": "not_anchored",
    "bundle-anchor-empty-sth": "not_anchored",
}
for case in recorded["cases"]:
    status = foreign.pop(case["id"], None)
    if status is None:
        continue
    with tempfile.TemporaryDirectory() as directory:
        for name, text in case["files"].items():
            (pathlib.Path(directory) / name).write_text(text)
        words = case["steps"][0]["argv"][1:]
        reports = []
        for command in [[verifier, "bundle"], [program, "contract", "bundle", "verify"]]:
            answer = subprocess.run([*command, *words], cwd=directory, capture_output=True, timeout=60)
            assert answer.returncode == 0, (case["id"], answer)
            reports.append(json.loads(answer.stdout))
        anchoring = reports[1].pop("anchoring")
        assert anchoring["status"] == status, (case["id"], anchoring)
        assert reports[0] == reports[1], case["id"]
assert not foreign, foreign

print("2 bundles at level full; what was changed is found by the binding; 5 clean bundles of others verify")
