"""Has Cedar and Rego decide every request that there is about the frozen roles, and compares them with the program.

The argument is the program. Cedar is asked with the schema and without: a policy that is right only under the schema is
wrong for whoever forgets it. Requests that lack a flag, or have one of another type, are none, and must be denied.
"""

import itertools
import json
import subprocess
import sys

import cedarpy
import regopy

program = sys.argv[1]


def ours(*words, text=None, codes=(0,)):
    done = subprocess.run([program, "role", *words], input=text, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode not in codes:
        raise SystemExit(f"role {words} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


table = json.loads(ours("export", "--format", "json"))
policy = ours("export", "--format", "cedar")
schema = ours("export", "--format", "cedar-schema")
rego = ours("export", "--format", "rego")
validated = cedarpy.validate_policies(policy, schema)
assert validated.validation_passed, validated.errors

known = sorted(action for actions in table["roles"].values() for action in actions)
assert len(known) == 12, known
# What is not in the table, among it the names that a group of actions or of roles might have.
roles = [*table["roles"], "morpheus", "Scout", "scout ", "role", "*", ""]
actions = [*known, "scout_actions", "envoy_actions", "scout", "envoy", "actions", "weekly_proof", "Web_Search", "*", ""]
flags = ["network_requested", "plan_authorized", "policy_gate"]
requests = [
    {"role": role, "action": action, **dict(zip(flags, truths))}
    for role, action, *truths in itertools.product(roles, actions, *[[False, True]] * 3)
]


def cedar_allows(requests, schema):
    asked = [
        {
            "principal": f"Role::{json.dumps(request['role'])}",
            "action": f"Action::{json.dumps(request['action'])}",
            "resource": 'Execution::"e1"',
            "context": {flag: request[flag] for flag in flags if flag in request},
        }
        for request in requests
    ]
    return [answer.allowed for answer in cedarpy.is_authorized_batch(asked, policy, [], schema)]


interpreter = regopy.Interpreter()
interpreter.add_module("roles.rego", rego)


def rego_allows(request):
    interpreter.set_input(request)
    # Bound to a name, because an expression that is false gives no answer at all.
    answer = interpreter.query("allow := data.nexus_router.role.allow")
    assert answer.ok() and len(answer.results) == 1, (request, str(answer))
    allow = answer.results[0].bindings.get("allow")
    assert allow is True or allow is False, (request, str(answer))
    return allow


lines = "\n".join(map(json.dumps, requests))
decided = [json.loads(line)["allow"] for line in ours("decide", "-", text=lines, codes=(1,)).splitlines()]
assert len(decided) == len(requests)
judges = {
    "Cedar with the schema": cedar_allows(requests, schema),
    "Cedar without it": cedar_allows(requests, None),
    "Rego": [rego_allows(request) for request in requests],
}
for judge, answers in judges.items():
    differ = [request for request, one, other in zip(requests, decided, answers, strict=True) if one != other]
    assert not differ, f"{judge} decides {len(differ)} requests otherwise than the program, such as {differ[:3]}"
# 6 of Scout without network; 5 of Envoy without and with both; shell_exec with both only.
assert sum(decided) == 6 * 4 + 5 * (4 + 1) + 2, sum(decided)

# What is allowed is so no longer when a flag is missing, or is no truth value.
broken = []
for request, allowed in zip(requests, decided):
    if allowed:
        for flag in flags:
            rest = {name: value for name, value in request.items() if name != flag}
            broken += [rest, *({**rest, flag: value} for value in [str(request[flag]).lower(), 1, 0, [], {}])]
assert not any(cedar_allows(broken, schema))
assert not any(map(rego_allows, broken))
# Without the schema Cedar looks at a flag only when it has to.
assert not any(cedar_allows([request for request in broken if "network_requested" not in request], None))
print(f"{len(requests)} requests decided alike by Cedar and Rego, {len(broken)} broken ones denied")
