"""Reads /metrics as Prometheus does, and looks for every row of the table of metrics."""

import os
import re
import sys

import httpx
from prometheus_client.openmetrics.parser import text_string_to_metric_families

headers = {"Authorization": "Bearer " + os.environ["TOKEN"]}
# A family whose labels were never used has no samples, and is not told of. This one is used rarely.
httpx.post(os.environ["URL"] + "/v1/reload", headers=headers, timeout=20).raise_for_status()
answer = httpx.get(os.environ["URL"] + "/metrics", headers=headers, timeout=20)
answer.raise_for_status()
found = {family.name: family for family in text_string_to_metric_families(answer.text)}

table = open(sys.argv[1], encoding="utf-8").read().split("pub const METRICS", 1)[1]
rows = re.findall(r'row\(\s*"(\w+)",\s*"(\w+)",', table)
assert len(rows) > 20, "the table is read by its form, which has changed"
for name, kind in rows:
    # A parser names the family, which lacks the ending of its samples.
    family = found.get(re.sub("_(total|info)$", "", name))
    assert family is not None, f"{name} is missing"
    assert family.type == kind, f"{name} is a {family.type}, not a {kind}"
    assert family.documentation, f"{name} has no help"
unknown = len(found) - len(rows)
assert unknown == 0, f"{unknown} families are not in the table: {sorted(found)}"
samples = [sample for family in found.values() for sample in family.samples]
runs = [s for s in samples if s.name == "nexus_router_run_duration_seconds_count"]
assert sum(s.value for s in runs) >= 1, "the first run was counted"
print(f"{len(found)} families, {len(samples)} samples")
