"""Judges what the conformance suite wrote: every scored scenario passes, and of the others all but those that
are known not to. Arguments: the directory of the requirements, and the revisions, each a directory of results."""

import json
import pathlib
import re
import sys

import yaml

# Scenarios without a score that are known not to pass, by revision, each with the reason.
KNOWN: dict[tuple[str, str], str] = {}

requirements = pathlib.Path(sys.argv[1])
told = []
wrong = []
summary = []
for revision in sys.argv[2:]:
    required = yaml.safe_load((requirements / f"{revision}.yaml").read_text())
    scored = required["server"]
    others = {
        entry["scenario"]: entry["reason"]
        for entry in required["not_scored"]
        if entry["leg"] == "server"
    }
    results = {}
    for file in pathlib.Path(revision).glob("*/checks.json"):
        # The directory is called server-NAME-TIME.
        name = re.fullmatch(r"server-(.+?)-\d{4}-\d\d-\d\dT[\d-]+Z", file.parent.name)
        assert name, file.parent.name
        results[name[1]] = json.loads(file.read_text())

    passed = {"scored": 0, "others": 0}
    warned = 0
    for scenario in [*scored, *others]:
        checks = results.pop(scenario, None)
        failures = [check for check in checks or [] if check["status"] == "FAILURE"]
        warnings = [check for check in checks or [] if check["status"] == "WARNING"]
        passes = checks is not None and not failures
        reason = f" ({others[scenario]})" if scenario in others else ""
        known = KNOWN.pop((revision, scenario), None)
        note = f" - known: {known}" if known else ""
        told.append(f"{'pass' if passes else 'FAIL'} {revision} {scenario}{reason}{note}")
        if checks is None:
            told.append("     it left no result")
        for check in [*failures, *warnings]:
            told.append(f"     {check['status']} {check['id']}: {check.get('errorMessage', '')}")
        warned += len(warnings)
        passed["others" if scenario in others else "scored"] += passes
        if known and scenario not in others:
            wrong.append(f"{revision} {scenario} is scored, and nothing excuses it")
        elif known and passes:
            wrong.append(f"{revision} {scenario} is known not to pass, and passes")
        elif not known and not passes:
            wrong.append(f"{revision} {scenario} does not pass")
    wrong += [f"{revision} {scenario} is in no requirement" for scenario in results]
    summary.append(
        f"{revision}: {passed['scored']} of {len(scored)},"
        f" and {passed['others']} of {len(others)} without a score, {warned} warnings"
    )

wrong += [f"{revision} {scenario} is known and was not run" for revision, scenario in KNOWN]
if wrong:
    sys.exit("\n".join([*told, *wrong]))
print("\n".join([*told, "; ".join(summary)]))
