"""Holds every golden payload to the types of the clients that the providers themselves publish.

The arguments are the directory of the golden data and, optionally, the program, whose payloads must be the same.
Types alone pass over much: keys that they do not know unless told otherwise, and lists that are read only when
somebody walks through them. So everything is walked, what was read must equal what was given, and where a client can
be made to send the payload into a wall, what it sends must equal it too. Then payloads are spoiled, each in one way,
and the same judges must complain about every one of them.
"""

import copy
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import anthropic
import httpx
import httpx2
import ollama._types
import openai
import pydantic
import rfc8785
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming as AnthropicMessages
from google import genai
from google.genai import interactions
from google.genai import types as google
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming as OpenAIChat
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming as OpenAIResponses

golden = pathlib.Path(sys.argv[1])
program = sys.argv[2] if len(sys.argv) > 2 else None
bindings = json.loads((golden / "bindings.json").read_text())


class Complaint(Exception):
    """A judge does not take a payload."""


def walked(value):
    """Reads everything: what is only read when it is looked at is looked at."""
    if isinstance(value, dict):
        return {name: walked(member) for name, member in value.items()}
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return [walked(item) for item in value]


def typed(kind):
    adapter = pydantic.TypeAdapter(kind)

    def judge(payload):
        read = walked(adapter.validate_python(copy.deepcopy(payload), extra="forbid", strict=True))
        if read != payload:
            raise Complaint(f"read as {read}")

    return judge


def sent(call):
    """Has a client send the payload, and compares what leaves it."""
    seen = []

    def wall(request):
        seen.append(request)
        return httpx2.Response(400, json={"error": {"message": "a wall", "type": "invalid_request_error"}})

    def judge(payload):
        seen.clear()
        http_client = httpx2.Client(transport=httpx2.MockTransport(wall))
        try:
            call(http_client, copy.deepcopy(payload))
        except (openai.BadRequestError, anthropic.BadRequestError):
            pass
        if len(seen) != 1 or json.loads(seen[0].content) != payload:
            raise Complaint(f"sent as {[request.content for request in seen]}")
        return seen[0]

    return judge


def openai_client(http_client):
    return openai.OpenAI(api_key="none", base_url="http://127.0.0.1:9/v1", max_retries=0, http_client=http_client)


def anthropic_client(http_client):
    return anthropic.Anthropic(api_key="none", base_url="http://127.0.0.1:9", max_retries=0, http_client=http_client)


chat_type, chat_sent = typed(OpenAIChat), sent(lambda http, body: openai_client(http).chat.completions.create(**body))
responses_type, responses_sent = typed(OpenAIResponses), sent(lambda http, body: openai_client(http).responses.create(**body))
messages_type, messages_sent = typed(AnthropicMessages), sent(lambda http, body: anthropic_client(http).messages.create(**body))


# Members of the server alone, with their types.
LLAMA_CPP = {
    "chat_template_kwargs": dict,
    "min_p": (int, float),
    "reasoning_format": str,
    "repeat_last_n": int,
    "repeat_penalty": (int, float),
    "top_k": int,
    "typical_p": (int, float),
}

text_type = typed(interactions.TextContentParam)
function_type = typed(interactions.FunctionParam)
config_type = typed(interactions.GenerationConfigParam)


def interactions_sent(payload):
    """Has Google's client send an interaction into a wall, and returns the request."""
    seen = []

    def wall(request):
        seen.append(request)
        return httpx.Response(400, json={"error": {"message": "a wall", "code": 400}})

    options = google.HttpOptions(httpx_client=httpx.Client(transport=httpx.MockTransport(wall)))
    client = genai.Client(api_key="none", http_options=options)
    try:
        client.interactions.create(**copy.deepcopy(payload))
    except Exception as error:
        # The class is private to the client.
        if type(error).__name__ != "BadRequestError":
            raise
    if len(seen) != 1 or json.loads(seen[0].content) != payload:
        raise Complaint(f"sent as {[request.content for request in seen]}")
    return seen[0]


def judge_chat(payload):
    chat_type(payload)
    assert chat_sent(payload).url.path == "/v1/chat/completions"
    for tool in payload.get("tools", []):
        if tool["function"]["parameters"].get("type") != "object":
            raise Complaint("parameters are no object")


def judge_openai(payload):
    judge_chat(payload)
    # The service refuses what the types allow.
    if payload.get("tools") == []:
        raise Complaint("an empty list of tools")
    if not payload["messages"]:
        raise Complaint("no messages")


def judge_llama_cpp(payload):
    # The server has more members than the client it is compatible with.
    for name, kind in LLAMA_CPP.items():
        if name in payload and not isinstance(payload[name], kind):
            raise Complaint(f"{name} is {payload[name]!r}")
    judge_chat({name: value for name, value in payload.items() if name not in LLAMA_CPP})
    roles = [message["role"] for message in payload["messages"]]
    if roles[-2:] == ["assistant", "assistant"]:
        raise Complaint("two messages of the assistant at the end")


def judge_responses(payload):
    responses_type(payload)
    assert responses_sent(payload).url.path == "/v1/responses"


def judge_anthropic(payload):
    # The client of today has no sampling; the version before has.
    messages_type({name: value for name, value in payload.items() if name not in ("temperature", "top_k", "top_p")})
    request = messages_sent(payload)
    assert request.url.path == "/v1/messages"
    assert request.headers["anthropic-version"] == bindings["anthropic"]["api_version"], request.headers


def dumped(kind, value):
    read = kind.model_validate(copy.deepcopy(value)).model_dump(by_alias=True, exclude_none=True, mode="json")
    if read != value:
        raise Complaint(f"read as {read}")


def judge_gemini(payload):
    if unknown := payload.keys() - {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}:
        raise Complaint(f"unknown {unknown}")
    for content in payload["contents"]:
        dumped(google.Content, content)
        # The types take any role; the service knows two.
        if content["role"] not in ("user", "model"):
            raise Complaint(f"role {content['role']}")
    if "systemInstruction" in payload:
        dumped(google.Content, payload["systemInstruction"])
    for tool in payload["tools"]:
        dumped(google.Tool, tool)
        for declaration in tool["functionDeclarations"]:
            dumped(google.FunctionDeclaration, declaration)
            if not isinstance(declaration.get("name"), str):
                raise Complaint("a declaration without a name")
    if "generationConfig" in payload:
        dumped(google.GenerationConfig, payload["generationConfig"])
    if "toolConfig" in payload:
        dumped(google.ToolConfig, payload["toolConfig"])
        if payload["toolConfig"]["functionCallingConfig"]["mode"] not in list(google.FunctionCallingConfigMode):
            raise Complaint("an unknown mode")


def judge_interactions(payload):
    # The types pass over members and steps that they do not know.
    if unknown := payload.keys() - interactions.CreateModelInteractionParam.__annotations__.keys():
        raise Complaint(f"unknown {unknown}")
    dumped(interactions.CreateModelInteraction, payload)
    steps = {"user_input": interactions.UserInputStepParam, "model_output": interactions.ModelOutputStepParam}
    for step in payload["input"]:
        if unknown := step.keys() - steps[step["type"]].__annotations__.keys():
            raise Complaint(f"unknown {unknown}")
        for content in step["content"]:
            text_type(content)
    for tool in payload["tools"]:
        function_type(tool)
        if not isinstance(tool.get("name"), str):
            raise Complaint("a function without a name")
    if "generation_config" in payload:
        config_type(payload["generation_config"])
    assert interactions_sent(payload).url.path == f"/{bindings['gemini.interactions']['api_version']}/interactions"


def judge_ollama(payload):
    read = ollama._types.ChatRequest.model_validate(copy.deepcopy(payload)).model_dump(exclude_none=True)
    if walked(read) != payload:
        raise Complaint(f"read as {read}")
    for message in payload["messages"]:
        read = ollama._types.Message.model_validate(copy.deepcopy(message)).model_dump(exclude_none=True)
        if read != message:
            raise Complaint(f"read as {read}")
        # The types take any role, and any type of tool.
        if message["role"] not in ("system", "user", "assistant"):
            raise Complaint(f"role {message['role']}")
    for tool in payload["tools"]:
        if tool["type"] != "function":
            raise Complaint(f"a tool of type {tool['type']}")


judges = {
    "openai": judge_openai,
    "openai.responses": judge_responses,
    "anthropic": judge_anthropic,
    "gemini": judge_gemini,
    "gemini.interactions": judge_interactions,
    "ollama": judge_ollama,
    "llama.cpp": judge_llama_cpp,
}


def complains(target, payload):
    try:
        judges[target](payload)
    except (Complaint, pydantic.ValidationError, TypeError, KeyError, AttributeError, ValueError):
        return True
    return False


def spoiled(target, payload):
    """Yields a name and a payload that is wrong in one way."""

    def change(name, edit):
        other = copy.deepcopy(payload)
        edit(other)
        return name, other

    turns = {"openai.responses": "input", "gemini": "contents", "gemini.interactions": "input"}.get(target, "messages")
    content = "parts" if target == "gemini" else "content"
    yield change("unknown member", lambda p: p.update(temprature=1))
    yield change("messages of a number", lambda p: p.update({turns: 5}))
    # Responses may be asked for without any input, by their types.
    if target != "openai.responses":
        yield change("no messages member", lambda p: p.pop(turns))
        yield change("messages of text", lambda p: p.update({turns: "hello there"}))
    yield change("unknown member of a message", lambda p: p[turns][-1].update(nmae="a"))
    role = "type" if target == "gemini.interactions" else "role"
    yield change("unknown role", lambda p: p[turns][-1].update({role: "tester"}))
    yield change("content of a number", lambda p: p[turns][-1].update({content: 5}))
    yield change("content of an unknown part", lambda p: p[turns][-1].update({content: [{"type": "txet", "txet": "a"}]}))
    if target == "gemini.interactions":
        yield change("unknown member of the configuration", lambda p: p["generation_config"].update(topP=1))
        yield change("tool choice of another", lambda p: p["generation_config"].update(tool_choice="required"))
    if target != "gemini":
        yield change("no model", lambda p: p.update(model=5))
    if "system" in payload:
        yield change("system of numbers", lambda p: p.update(system=[5]))
        yield change("system block of another type", lambda p: p["system"][0].update(type="image"))
    if "systemInstruction" in payload:
        yield change("instruction with a member more", lambda p: p["systemInstruction"].update(text="a"))
    if payload.get("tools"):
        tool = payload["tools"][0]
        if target == "gemini":
            yield change("nameless tool", lambda p: p["tools"][0]["functionDeclarations"][0].pop("name"))
            yield change("tool in the shape of another", lambda p: p["tools"][0]["functionDeclarations"][0].update(input_schema={}))
        elif "function" in tool:
            yield change("tool of another type", lambda p: p["tools"][0].update(type="fucntion"))
            yield change("unknown member of a tool", lambda p: p["tools"][0]["function"].update(input_schema={}))
            yield change("nameless tool", lambda p: p["tools"][0]["function"].update(name=5))
        else:
            yield change("unknown member of a tool", lambda p: p["tools"][0].update(parametres={}))
            yield change("nameless tool", lambda p: p["tools"][0].pop("name"))
    if target == "ollama" and payload.get("tools"):
        # Schemas lose what the types do not know.
        def property_of(p):
            return next(iter(p["tools"][0]["function"]["parameters"]["properties"].values()), None)

        if property_of(payload) is not None:
            yield change("keyword that is dropped", lambda p: property_of(p).update(pattern="a"))
            yield change("union that is dropped", lambda p: property_of(p).update(oneOf=[{"type": "string"}]))
    if target == "openai":
        yield change("empty tools", lambda p: p.update(tools=[]))


sums = dict(reversed(line.split("  ", 1)) for line in (golden / "payloads/SHA256SUMS").read_text().splitlines())
count, spoilt = 0, 0
for target, judge in judges.items():
    files = sorted((golden / "payloads" / target).glob("*.json"))
    assert len(files) >= 10, (target, files)
    for file in files:
        text = file.read_bytes()
        assert hashlib.sha256(text).hexdigest() == sums.pop(f"{target}/{file.name}"), file
        payload = json.loads(text)
        assert rfc8785.dumps(payload) == text, f"{file} is not RFC 8785"
        judge(payload)
        count += 1
        for name, other in spoiled(target, payload):
            assert complains(target, other), f"{file.name} for {target}: {name} was passed over: {other}"
            spoilt += 1
assert not sums, sums


def ours(target, document, more=()):
    """Has the program translate a document, with more settings."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        file.write(document)
        file.flush()
        words = [program, "translate", target, file.name, "--config", json.dumps(bindings[target] | dict(more))]
        return subprocess.run(words, capture_output=True, timeout=60, check=False)


made = 0
if program:
    for vector in json.loads((golden / "manifest.json").read_text())["vectors"]:
        for target in judges:
            document = (golden / vector["file"]).read_text(encoding="utf-8")
            own = f'"target_provider_id":"{vector["target_provider_id"]}"'
            if vector["id"].startswith("t_") and vector["target_provider_id"] != target:
                continue
            done = ours(target, document.replace(own, f'"target_provider_id":"{target}"'))
            file = golden / "payloads" / target / f"{vector['id']}.json"
            if file.exists():
                assert done.returncode == 0 and done.stdout == file.read_bytes(), (target, vector["id"], done)
                made += 1
            else:
                assert done.returncode == 1 and b"error[X.nexus." in done.stderr, (target, vector["id"], done)

# Every setting for tools, sampling and reasoning, alone or with those that it needs.
penalties = {"presence_penalty": -2, "frequency_penalty": 2}
local = {"temperature": 3.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "typical_p": 1, "seed": -1} | penalties
local |= {"repeat_penalty": 1.1, "repeat_last_n": -1}
efforts = [{"reasoning_effort": effort} for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max")]
named = {"tool_choice_name": "get_current"}


def words(name, *values):
    return [{name: value} for value in values]


extended = {
    "openai": [{"temperature": 0.5, "top_p": 1, "seed": -5} | penalties, named, {"parallel_tool_calls": False}]
    + words("tool_choice", "auto", "none", "required")
    + efforts,
    "openai.responses": [{"temperature": 0.5, "top_p": 1}, named, {"parallel_tool_calls": True}]
    + words("tool_choice", "auto", "none", "required")
    + words("reasoning_summary", "auto", "concise", "detailed")
    + efforts,
    "anthropic": [
        named | {"disable_parallel_tool_use": True},
        {"tool_choice": "any", "disable_parallel_tool_use": False},
        {"max_tokens": 4096, "thinking": "enabled", "thinking_budget_tokens": 1024, "thinking_display": "omitted"},
        {"thinking": "adaptive", "thinking_display": "summarized"},
    ]
    + words("thinking", "disabled", "between_tools")
    + words("tool_choice", "auto", "none")
    + words("effort", "low", "medium", "high", "xhigh", "max"),
    "gemini": [
        {"temperature": 0.5, "top_p": 1, "top_k": 40, "seed": -5} | penalties,
        named,
        {"thinking_budget": -1, "include_thoughts": True},
    ]
    + words("tool_choice", "ANY", "AUTO", "NONE", "VALIDATED")
    + words("thinking_level", "MINIMAL", "LOW", "MEDIUM", "HIGH"),
    "gemini.interactions": [
        {"temperature": 0.5, "top_p": 1, "seed": -5},
        named,
        {"store": True, "previous_interaction_id": "v1_a"},
    ]
    + words("tool_choice", "any", "auto", "none", "validated")
    + words("thinking_level", "minimal", "low", "medium", "high")
    + words("thinking_summaries", "auto", "none"),
    "ollama": [local, {"think": True}] + words("think_level", "low", "medium", "high"),
    "llama.cpp": [local, {"parallel_tool_calls": True}, {"enable_thinking": False}]
    + words("tool_choice", "auto", "none", "required")
    + words("reasoning_format", "auto", "deepseek", "deepseek-legacy", "none"),
}
tried = 0
if program:
    for target, judge in judges.items():
        name = f"t_a01_target_{target.replace('.', '_')}.json"
        document = (golden / "canonical" / name).read_text(encoding="utf-8")
        usual = json.loads((golden / "payloads" / target / name).read_bytes())
        for more in extended[target]:
            done = ours(target, document, more.items())
            assert done.returncode == 0, (target, more, done)
            payload = json.loads(done.stdout)
            assert rfc8785.dumps(payload) == done.stdout and payload != usual, (target, more)
            judge(payload)
            tried += 1

print(f"{count} payloads pass the types of their providers, {made} are made alike by the program, {tried} settings are understood, {spoilt} spoiled ones are found")
