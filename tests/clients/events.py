"""Follows a run as an EventSource does, loses the connection, and goes on with Last-Event-ID."""

import json
import os

import httpx
from httpx_sse import connect_sse

STEPS = 200
READ_FIRST = 7

client = httpx.Client(
    base_url=os.environ["URL"],
    headers={"Authorization": "Bearer " + os.environ["TOKEN"]},
    timeout=60,
)
call = {"tool": "greeter", "method": "hello", "args": {}}
plan = [{"step_id": f"s{n}", "intent": "greet", "call": call} for n in range(STEPS)]
request = {
    "goal": "be followed",
    "mode": "apply",
    "policy": {"allow_apply": True, "max_steps": STEPS},
    "dispatch": {"adapter_id": "echo"},
    "plan_override": plan,
}
accepted = client.post("/v1/runs", params={"wait": "false"}, json=request)
assert accepted.status_code == 202, accepted.text
path = accepted.headers["location"] + "/events"

events = []
with connect_sse(client, "GET", path) as source:
    for event in source.iter_sse():
        events.append(event)
        if len(events) == READ_FIRST:
            break  # The connection is lost in the middle.

with connect_sse(client, "GET", path, headers={"Last-Event-ID": events[-1].id}) as source:
    for event in source.iter_sse():
        if event.event == "end":
            break
        events.append(event)
    else:
        raise AssertionError("the stream ended without saying that the run is over")

numbers = [int(event.id) for event in events]
assert numbers == list(range(len(events))), "nothing is missing and nothing comes twice"
kinds = [event.event for event in events]
assert kinds[0] == "RUN_STARTED" and kinds[-1] == "RUN_COMPLETED", (kinds[0], kinds[-1])
assert kinds.count("STEP_COMPLETED") == STEPS, kinds.count("STEP_COMPLETED")
for event in events:
    assert json.loads(event.data)["type"] == event.event

# There is nothing more; 204 tells an EventSource not to connect again.
over = client.get(path, headers={"Last-Event-ID": str(numbers[-1])})
assert over.status_code == 204, over.status_code
print(f"{len(events)} events over two connections, none lost and none twice")
