"""Reads /metrics as Prometheus does, and looks for every row of the table of metrics."""

import glob
import os
import re
import signal
import sys
import time

import httpx
from prometheus_client.openmetrics.parser import text_string_to_metric_families

client = httpx.Client(
    base_url=os.environ["URL"], headers={"Authorization": "Bearer " + os.environ["TOKEN"]}, timeout=20
)


def scrape():
    answer = client.get("/metrics").raise_for_status()
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


# A family whose labels were never used has no samples, and is not told of. These two are used rarely: reloads,
# and what befalls workers, of which one is there after a call, and is killed.
client.post("/v1/reload").raise_for_status()
call = {"tool": "t", "method": "m", "args": {}}
step = {"step_id": "s", "intent": "i", "call": call, "dispatch": {"adapter_id": "echo"}}
run = {"goal": "g", "mode": "apply", "policy": {"allow_apply": True}, "plan_override": [step]}
assert client.post("/v1/runs", json=run).raise_for_status().json()["status"] == "COMPLETED"
workers = [
    int(child)
    for children in glob.glob(f"/proc/{os.environ['DAEMON']}/task/*/children")
    for child in open(children, encoding="ascii").read().split()
]
os.kill(workers[0], signal.SIGKILL)
end = time.monotonic() + 20
found = scrape()
while "nexus_router_adapter_incidents" not in found and time.monotonic() < end:
    time.sleep(0.1)
    found = scrape()

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
