"""The tasks extension for the official Python SDK, which has a place for extensions, and none for this one."""

from typing import Any, Literal, TypeVar

import anyio
from mcp import types
from mcp.client import ClaimContext, ClientExtension, ClientRequestContext, ClientSession, ResultClaim
from mcp.shared.exceptions import MCPError

TASKS = "io.modelcontextprotocol/tasks"
ResultT = TypeVar("ResultT", bound=types.Result)


class Task(types.Result):
    """What is told of every task."""

    task_id: str
    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None


class Handle(Task):
    """The answer to a call that became a task."""

    result_type: Literal["task"]


class Detailed(Task):
    """How a task does."""

    result_type: Literal["complete"]
    input_requests: dict[str, types.InputRequest] | None = None
    result: types.CallToolResult | None = None
    error: types.ErrorData | None = None


class Params(types.RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class Request(types.Request[Params, str]):
    # Over HTTP the id is in a header besides.
    name_param = "taskId"


async def about(
    session: ClientSession, method: str, result: type[ResultT] = types.EmptyResult, **params: Any
) -> ResultT:
    """Asks something about a task."""
    request = Request(method=f"tasks/{method}", params=Params(**params))
    return await session.send_request(request, result)


class Tasks(ClientExtension):
    """Follows tasks to their end, and remembers how they did and what they asked."""

    identifier = TASKS

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.asked: list[str] = []

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Handle, resolve=self.follow)]

    async def follow(self, handle: Handle, context: ClaimContext) -> types.CallToolResult:
        while True:
            task = await about(context.session, "get", Detailed, task_id=handle.task_id)
            self.seen.append(task.status)
            match task.status:
                case "completed":
                    return task.result
                case "failed":
                    raise MCPError.from_error_data(task.error)
                case "cancelled":
                    raise RuntimeError("the task was cancelled")
                case "input_required":
                    await self.answer(task, context.session)
                case "working":
                    await anyio.sleep(task.poll_interval_ms / 1000)

    async def answer(self, task: Detailed, session: ClientSession) -> None:
        """Has the callbacks of the client answer, as they do when a call asks that is no task."""
        responses = {}
        for key, request in task.input_requests.items():
            self.asked.append(key)
            context = ClientRequestContext(session=session, request_id=key)
            response = await session.dispatch_input_request(context, request)
            responses[key] = response.model_dump(by_alias=True, mode="json", exclude_none=True)
        await about(session, "update", task_id=task.task_id, input_responses=responses)
