"""Where the router is and how it is spoken to, what its record says, and who answers its questions."""

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
from mcp import Client, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

# Nothing here takes that long; what does is stuck.
LIMIT = 40
PAUSE = 0.05
URL = os.environ["URL"]
# What a person fills in, by the name of the field.
FORM = {
    "name": "Ada",
    "color": "blue",
    "username": "ada",
    "email": "ada@example.com",
    "context": "tests",
    "confirm": True,
    "approve": True,
    "reason": "so be it",
}


@dataclass(frozen=True)
class Place:
    """How the router is reached, and in which era it is spoken to."""

    transport: str
    revision: str

    @property
    def is_modern(self) -> bool:
        return self.revision == "2026-07-28"

    @property
    def config(self) -> str:
        return "router.toml" if self.transport == "http" else "stdio.toml"


@asynccontextmanager
async def connected(
    place: Place, token: str = "APPLY", hook: Callable[..., Awaitable[None]] | None = None, **options: Any
) -> AsyncIterator[Client]:
    """Connects as a program does that has a token, or that starts the router itself."""
    # The newer era is found out, as it is by default.
    options["mode"] = "auto" if place.is_modern else "legacy"
    if place.transport == "stdio":
        with open("stdio.log", "a") as log:
            server = StdioServerParameters(command="./stdio", cwd=".")
            async with Client(stdio_client(server, errlog=log), **options) as client:
                assert client.protocol_version == place.revision, client.protocol_version
                yield client
        return
    headers = {"Authorization": f"Bearer {os.environ[token]}"}
    hooks = {"response": [hook] if hook else []}
    async with httpx2.AsyncClient(headers=headers, timeout=LIMIT, event_hooks=hooks) as http:
        async with Client(streamable_http_client(f"{URL}/mcp", http_client=http), **options) as client:
            assert client.protocol_version == place.revision, client.protocol_version
            yield client


async def api(method: str, path: str, **request: Any) -> Any:
    """Asks the daemon by HTTP, as its administrator."""
    headers = {"Authorization": f"Bearer {os.environ['ADMIN']}"}
    async with httpx2.AsyncClient(base_url=URL, headers=headers, timeout=LIMIT) as http:
        answer = await http.request(method, path, **request)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def router(place: Place, *arguments: str) -> Any:
    """Asks the router's own record, by its own program."""
    command = ["./nexus-router", *arguments, "--config", place.config, "--format", "json"]
    return json.loads((await anyio.run_process(command)).stdout)


async def eventually(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Asks until there is an answer. Every check has its limit, so this needs none."""
    while not (answer := await ask()):
        await anyio.sleep(PAUSE)
    return answer


async def begun(place: Place, tool: str) -> str:
    """Waits for the run of a call to be under way, and returns its id."""

    async def look() -> list[str]:
        listed = await router(place, "runs", "list", "--status", "RUNNING")
        return [run["run_id"] for run in listed["runs"] if run["goal"] == f"call {tool}"]

    [run_id] = await eventually(look)
    return run_id


async def was_cancelled(place: Place, run_id: str) -> None:
    """Waits for a run to be over, and sees that it was cancelled."""

    async def look() -> list[dict[str, Any]]:
        listed = await router(place, "runs", "list", "--status", "FAILED")
        return [run for run in listed["runs"] if run["run_id"] == run_id]

    [run] = await eventually(look)
    assert run["last_failure_reason"] == "cancelled", run


def text(result: types.CallToolResult) -> str:
    [block] = result.content
    return block.text


async def refusal(call: Awaitable[Any]) -> tuple[int, str]:
    """Returns the code of an error, and the router's own."""
    try:
        answer = await call
    except MCPError as error:
        return error.code, (error.data or {}).get("code")
    raise AssertionError(f"this was not refused: {answer}")


async def fill_in(_: Any, params: types.ElicitRequestFormParams) -> types.ElicitResult:
    content = {name: FORM[name] for name in params.requested_schema["properties"]}
    return types.ElicitResult(action="accept", content=content)


async def decline(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


async def disapprove(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"approve": False, "reason": "not today"})


async def sample(_: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    said = types.TextContent(type="text", text=f"{params.max_tokens} tokens")
    return types.CreateMessageResult(role="assistant", model="none", content=said)


async def roots(_: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///srv")])
