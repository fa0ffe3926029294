"""The official Python SDK against the router: what people write with it works, in both eras of the protocol, over
HTTP and over standard input. It runs in the directory that `sdks` makes, and prints a line for every check."""

import importlib.metadata
import json
import logging
import os
import pathlib
import sys
import traceback
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx2
from jsonschema import Draft202012Validator
from mcp import Client, types
from mcp.client import advertise
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError

from place import (
    LIMIT,
    URL,
    Place,
    api,
    begun,
    connected,
    decline,
    disapprove,
    eventually,
    fill_in,
    refusal,
    roots,
    router,
    sample,
    text,
    was_cancelled,
)
from tasks import TASKS, Detailed, Tasks, about

WATCHED = "test://watched-resource"
# One tool more, as a part of the configuration.
LATER = """
[[tools]]
name = "later"
description = "Was not there before."
adapter = "conformance"
tool = "test_simple_text"
method = "call"
"""


async def lists(place: Place) -> None:
    async with connected(place) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert len(tools) > 30 and list(tools) == sorted(tools), list(tools)
        for tool in tools.values():
            Draft202012Validator.check_schema(tool.input_schema)
        # Nobody may call it, so it is not there.
        assert "test_audio_content" not in tools
        hints = tools["region"].annotations
        assert (hints.read_only_hint, hints.destructive_hint) == (True, False), hints
        assert (hints.idempotent_hint, hints.open_world_hint) == (True, False), hints
        assert tools["region"].output_schema["required"] == ["region"], tools["region"]
        rich = tools["json_schema_2020_12_tool"].input_schema
        assert {"$defs", "allOf", "if", "then", "else"} <= rich.keys(), rich
        resources = [resource.uri for resource in (await client.list_resources()).resources]
        assert resources == ["test://static-binary", "test://static-text", WATCHED], resources
        [template] = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "test://template/{id}/data", template
        prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        arguments = [argument.name for argument in prompts["test_prompt_with_arguments"].arguments]
        assert len(prompts) == 5 and arguments == ["arg1", "arg2"], prompts
        for reference, name in [
            (types.PromptReference(name="test_prompt_with_arguments"), "arg1"),
            (types.ResourceTemplateReference(uri=template.uri_template), "id"),
        ]:
            completion = (await client.complete(reference, {"name": name, "value": ""})).completion
            assert len(completion.values) == 1, completion


async def reads(place: Place) -> None:
    async with connected(place, elicitation_callback=fill_in) as client:
        [said] = (await client.read_resource("test://static-text")).contents
        assert said.text == "This is the content of the static text resource.", said
        [picture] = (await client.read_resource("test://static-binary")).contents
        assert picture.mime_type == "image/png" and picture.blob, picture
        [data] = (await client.read_resource("test://template/7/data")).contents
        assert json.loads(data.text)["id"] == "7", data
        unknown = -32602 if place.is_modern else -32002
        assert (await refusal(client.read_resource("test://nowhere")))[0] == unknown
        given = {"arg1": "a", "arg2": "b"}
        [message] = (await client.get_prompt("test_prompt_with_arguments", given)).messages
        assert message.content.text == "Prompt with arguments: arg1='a', arg2='b'", message
        [message] = (await client.get_prompt("test_input_required_result_prompt")).messages
        assert message.content.text == "Use this context: tests", message
        assert await refusal(client.get_prompt("nobody")) == (-32602, "UNKNOWN_PROMPT")


async def calls(place: Place) -> None:
    progress, log = [], []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, total, message))

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        log.append((params.level, params.data))

    options = {"log_level": "info"} if place.is_modern else {}
    async with connected(place, logging_callback=on_log, **options) as client:
        if not place.is_modern:
            await client.set_logging_level("info")
        assert text(await client.call_tool("test_simple_text")).startswith("This is a simple text")
        mixed = await client.call_tool("test_multiple_content_types")
        assert [block.type for block in mixed.content] == ["text", "image", "resource"], mixed
        # The argument is in a header besides, and the result is held to the schema by the SDK.
        region = await client.call_tool("region", {"region": "eu"})
        assert region.structured_content == {"region": "eu"} and not region.is_error, region
        assert json.loads(text(region)) == {"region": "eu"}, region

        await client.call_tool("test_tool_with_progress", progress_callback=on_progress)
        assert [done for done, *_ in progress] == [0, 50, 100], progress
        assert progress[1][1:] == (100, "Completed step 50 of 100"), progress
        await client.call_tool("test_tool_with_logging")
        assert [level for level, _ in log] == ["info"] * 3, log
        assert log[0][1] == "Tool execution started", log

        failure = await client.call_tool("test_error_handling")
        assert failure.is_error and "intentionally" in text(failure), failure
        misfit = await client.call_tool("region", {"region": 1})
        assert misfit.is_error and text(misfit).startswith("ARGUMENTS_INVALID"), misfit
        assert await refusal(client.call_tool("nothing")) == (-32602, "UNKNOWN_TOOL")
        denied = await refusal(client.call_tool("test_audio_content"))
        assert denied == (-32602, "PERMISSION_DENIED"), denied


async def answers(place: Place) -> None:
    able = {"sampling_callback": sample, "list_roots_callback": roots}
    async with connected(place, elicitation_callback=fill_in, **able) as client:
        form = text(await client.call_tool("test_elicitation", {"message": "Who are you?"}))
        assert 'action=accept, content={"username":"ada","email":"ada@example.com"}' in form, form
        rounds = text(await client.call_tool("test_input_required_result_multi_round"))
        assert rounds == 'name "Ada", color "blue"', rounds
        several = text(await client.call_tool("test_input_required_result_multiple_inputs"))
        assert several == 'name "Ada", greeting 50 tokens, roots [{"uri":"file:///srv"}]', several
    async with connected(place, elicitation_callback=decline) as client:
        form = text(await client.call_tool("test_elicitation", {"message": "Who are you?"}))
        assert "action=decline" in form, form
    async with connected(place) as client:
        # Who has nobody to ask is told so.
        asked = await refusal(client.call_tool("test_elicitation", {"message": "Who are you?"}))
        assert asked[0] == -32021, asked


async def cancels(place: Place) -> None:
    async with connected(place) as client:
        async with anyio.create_task_group() as calling:
            calling.start_soon(client.call_tool, "slow_compute", {"seconds": 60, "label": "x"})
            run_id = await begun(place, "slow_compute")
            calling.cancel_scope.cancel()
        await was_cancelled(place, run_id)
        # The connection is as good as before.
        assert await client.call_tool("test_simple_text")


async def waits(place: Place) -> None:
    """A call that needs an approval, by a client that knows nothing of tasks."""

    async def approvals() -> dict[str, str]:
        """Returns the runs that wait, by the approvals that they wait for."""
        if place.transport == "http":
            listed = await api("GET", "/v1/approvals")
        else:
            listed = await router(place, "approvals", "list", "--db", "local/runs.db")
        return {it["approval_id"]: it["run_id"] for it in listed["approvals"]}

    async def decide(approval_id: str, answer: str) -> None:
        if place.transport == "http":
            await api("POST", f"/v1/approvals/{approval_id}/{answer}", json={"reason": "so be it"})
        else:
            # The run goes on in this process; the one of the client sees what came of it. A run that fails is a no.
            command = ["./nexus-router", "approvals", answer, approval_id, "--db", "local/runs.db"]
            await anyio.run_process([*command, "--config", place.config], check=answer == "approve")

    others = await approvals()

    async def asked() -> list[tuple[str, str]]:
        return [it for it in (await approvals()).items() if it[0] not in others]

    results = []

    async def greet(client: Client) -> None:
        results.append(await client.call_tool("greet", {"name": "Ada"}))

    async with connected(place) as client:
        for answer in ["approve", "deny"]:
            async with anyio.create_task_group() as calling:
                calling.start_soon(greet, client)
                [(approval_id, _)] = await eventually(asked)
                await decide(approval_id, answer)
        assert text(results[0]) == "Hello, Ada!" and not results[0].is_error, results[0]
        assert text(results[1]).startswith("APPROVAL_DENIED") and results[1].is_error, results[1]
        async with anyio.create_task_group() as calling:
            calling.start_soon(greet, client)
            [(approval_id, _)] = await eventually(asked)
            calling.cancel_scope.cancel()
        # The approval outlasts the client that gave up.
        assert [it for it, _ in await asked()] == [approval_id]
        await decide(approval_id, "approve")
        assert not await asked()


async def hears(place: Place) -> None:
    """Changes are told: of a resource that is followed, and of the tools, after a reload."""
    config = pathlib.Path(place.config)
    before = config.read_text()

    async def reload(content: str) -> None:
        fresh = pathlib.Path(f"{place.config}.new")
        fresh.write_text(content)
        fresh.replace(config)
        if place.transport == "http":
            await api("POST", "/v1/reload")
        # Else the router sees by itself that the file has changed.

    told: list[Any] = []

    async def on_message(message: Any) -> None:
        told.append(message)

    async def has_later(client: Client) -> bool:
        return "later" in [tool.name for tool in (await client.list_tools()).tools]

    async with connected(place, message_handler=on_message) as client:
        try:
            assert not await has_later(client)
            if place.is_modern:
                wanted = {"tools_list_changed": True, "resource_subscriptions": [WATCHED]}
                async with client.listen(**wanted) as events:
                    await client.call_tool("test_trigger_resource_update")
                    assert await anext(events) == ResourceUpdated(uri=WATCHED)
                    await reload(before + LATER)
                    assert await anext(events) == ToolsListChanged()
            else:

                async def heard(kind: type) -> None:
                    async def look() -> bool:
                        return any(isinstance(message, kind) for message in told)

                    await eventually(look)

                await client.subscribe_resource(WATCHED)
                await client.call_tool("test_trigger_resource_update")
                await heard(types.ResourceUpdatedNotification)
                await client.unsubscribe_resource(WATCHED)
                await reload(before + LATER)
                await heard(types.ToolListChangedNotification)
            assert await has_later(client)
            assert text(await client.call_tool("later")).startswith("This is a simple text")
        finally:
            await reload(before)
    assert not [message for message in told if isinstance(message, Exception)], told


async def follows(place: Place) -> None:
    """Calls become tasks, which the SDK follows by an extension."""
    extension = Tasks()
    async with connected(place, elicitation_callback=fill_in, extensions=[extension]) as client:
        slow = await client.call_tool("slow_compute", {"seconds": 1, "label": "x"})
        assert text(slow) == "Computed x in 1 seconds", slow
        assert {"working", "completed"} == set(extension.seen), extension.seen
        asked = await client.call_tool("confirm_delete", {"filename": "a.txt"})
        assert text(asked) == "Deleted a.txt" and "input_required" in extension.seen, asked
        assert extension.asked == ["confirm"], extension.asked
        failed = await client.call_tool("failing_job")
        assert failed.is_error and text(failed).startswith("JOB_FAILED"), failed
        assert await refusal(client.call_tool("protocol_error_job")) == (-32603, "BUG_ERROR")

        handle = await client.session.call_tool("slow_compute", {"seconds": 60}, allow_claimed=True)
        await about(client.session, "cancel", task_id=handle.task_id)

        async def cancelled() -> bool:
            task = await about(client.session, "get", Detailed, task_id=handle.task_id)
            return task.status == "cancelled"

        await eventually(cancelled)
        await was_cancelled(place, handle.task_id)
        assert await refusal(about(client.session, "get", task_id="none")) == (-32602, "UNKNOWN_TASK")
    async with connected(place) as client:
        # Who does not know tasks waits for the result.
        assert text(await client.call_tool("slow_compute", {"seconds": 0.5})).startswith("Computed")


async def approves(place: Place) -> None:
    """A call that needs an approval is a task that asks for it."""
    extension = Tasks()
    async with connected(place, elicitation_callback=fill_in, extensions=[extension]) as client:
        assert text(await client.call_tool("greet", {"name": "Ada"})) == "Hello, Ada!"
    [key] = extension.asked
    assert key.startswith("approval-"), key
    async with connected(place, elicitation_callback=disapprove, extensions=[Tasks()]) as client:
        denied = await client.call_tool("greet", {"name": "Ada"})
        assert denied.is_error and "not today" in text(denied), denied


async def has_no_tasks(place: Place) -> None:
    """The older era has none of these tasks, whatever a client says it can."""
    async with connected(place, extensions=[advertise(TASKS)]) as client:
        assert text(await client.call_tool("slow_compute", {"seconds": 0.5})).startswith("Computed")


async def keeps_out(place: Place) -> None:
    """A token that may only read finds nothing, and none at all gets in."""
    async with connected(place, token="READ") as client:
        assert (await client.list_tools()).tools == []
        assert (await client.list_resources()).resources == []
        assert (await client.list_resource_templates()).resource_templates == []
        assert (await client.list_prompts()).prompts == []
        for call in [
            client.call_tool("test_simple_text"),
            client.read_resource("test://static-text"),
            client.get_prompt("test_simple_prompt"),
        ]:
            assert await refusal(call) == (-32000, "SCOPE_MISSING")
    try:
        async with connected(place, token="NOBODY"):
            raise AssertionError("nobody got in")
    except* MCPError:
        pass


async def keeps_sessions_apart(place: Place) -> None:
    sessions = set()

    async def note(response: httpx2.Response) -> None:
        sessions.add(response.headers.get("mcp-session-id"))

    async with connected(place, hook=note) as client:
        [session] = sessions - {None}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        for token, status in [("OTHER", 404), ("READ", 404), ("NOBODY", 401), ("APPLY", 200)]:
            headers = {
                "Authorization": f"Bearer {os.environ[token]}",
                "Accept": "application/json, text/event-stream",
                "Mcp-Session-Id": session,
                "Mcp-Protocol-Version": place.revision,
            }
            async with httpx2.AsyncClient(headers=headers, timeout=LIMIT) as http:
                answer = await http.post(f"{URL}/mcp", json=message)
                assert answer.status_code == status, (token, answer.status_code, answer.text)
                if status != 200:
                    ended = await http.delete(f"{URL}/mcp")
                    assert ended.status_code == status, (token, ended.status_code)
        assert await client.call_tool("test_simple_text")


async def keeps_tasks_apart(place: Place) -> None:
    async with connected(place, extensions=[Tasks()]) as client:
        handle = await client.session.call_tool("slow_compute", {"seconds": 60}, allow_claimed=True)
        for token in ["OTHER", "READ"]:
            async with connected(place, token=token, extensions=[Tasks()]) as other:
                for method in ["get", "update", "cancel"]:
                    params = {"input_responses": {}} if method == "update" else {}
                    asked = about(other.session, method, task_id=handle.task_id, **params)
                    assert await refusal(asked) == (-32602, "UNKNOWN_TASK")
        task = await about(client.session, "get", Detailed, task_id=handle.task_id)
        assert task.status == "working", task
        await about(client.session, "cancel", task_id=handle.task_id)
        await was_cancelled(place, handle.task_id)


def checks(place: Place) -> list[Callable[[Place], Awaitable[None]]]:
    """Returns what is checked in a place."""
    chosen = [lists, reads, calls, answers, cancels, waits, hears]
    chosen += [follows, approves] if place.is_modern else [has_no_tasks]
    if place.transport == "http":
        chosen += [keeps_out, keeps_tasks_apart if place.is_modern else keeps_sessions_apart]
    return chosen


def told(error: BaseException) -> str:
    """Tells what went wrong, and where in our files; what the SDK wraps around it says nothing more."""
    if isinstance(error, BaseExceptionGroup):
        return "\n".join(told(inner) for inner in error.exceptions)
    ours = pathlib.Path(__file__).parent
    lines = [
        f"     {path.name}:{frame.lineno}: {frame.line}"
        for frame in traceback.extract_tb(error.__traceback__)
        if (path := pathlib.Path(frame.filename)).parent == ours
    ]
    return "\n".join([*lines, f"     {type(error).__name__}: {error}"])


async def main() -> None:
    passed, failed = 0, 0
    for transport in ["http", "stdio"]:
        for revision in ["2025-11-25", "2026-07-28"]:
            place = Place(transport, revision)
            for check in checks(place):
                name = f"python {transport} {revision} {check.__name__}"
                try:
                    with anyio.fail_after(LIMIT):
                        await check(place)
                except Exception as error:
                    failed += 1
                    print(f"FAIL {name}\n{told(error)}", file=sys.stderr, flush=True)
                else:
                    passed += 1
                    print(f"pass {name}", flush=True)
    version = importlib.metadata.version("mcp")
    print(f"Python SDK {version}: {passed} of {passed + failed}")
    sys.exit(1 if failed else 0)


# The older era is deprecated, and is spoken on purpose.
warnings.simplefilter("ignore")
# The SDK would have the answer to the end of a session be 200 or 204, where the protocol leaves it open; and what
# comes while it leaves it takes for an error.
logging.getLogger("mcp.client.streamable_http").setLevel(logging.CRITICAL)
anyio.run(main)
