"""Calls of tools that take more than one request: an address to open first, and tools that run as tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types.jsonrpc import URL_ELICITATION_REQUIRED

from agent.integrations.mcp.host.faults import CallFaultError

Ask = Callable[[str, Any], Awaitable[Any]]
Progress = Callable[[float, float | None, str | None], Awaitable[None]]

MOST_ADDRESSES = 5
"""Addresses that one call may ask a person to open."""
KEPT_FOR = 3_600_000
"""Milliseconds a server is asked to keep a task."""
_PACE = (0.2, 5.0)
"""Seconds between two looks at a task, at least and at most."""


def tools_run_as_tasks(client: Client, tools: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Which of the tools in a list can only be called as a task."""
    if client.server_capabilities.tasks is None:
        return frozenset()
    wanted = [tool for tool in tools if (tool.get("execution") or {}).get("taskSupport") == "required"]
    return frozenset(str(tool.get("name")) for tool in wanted)


async def with_addresses(call: Callable[[], Awaitable[Any]], ask: Ask) -> Any:
    """Call; where the server wants addresses opened first, have that done and call once more."""
    try:
        return await call()
    except MCPError as error:
        if error.code != URL_ELICITATION_REQUIRED:
            raise
        wanted = _addresses(error)
    for each in wanted:
        answer = await ask("elicit", {**each, "mode": "url"})
        if answer.get("action") != "accept":
            raise CallFaultError("it wants an address to be opened first, and nobody did that")
    return await call()


async def call_as_task(
    client: Client, name: str, arguments: Mapping[str, Any], told_of: Progress
) -> dict[str, Any]:
    """Call a tool that works as a task, and wait for its result. Cancelling cancels the task."""
    # The package's own check of answers does not know tasks.
    send = client.session._dispatcher.send_raw_request
    params = {"name": name, "arguments": dict(arguments), "task": {"ttl": KEPT_FOR}}
    started = types.CreateTaskResult.model_validate(await send("tools/call", params, {}), by_name=False)
    task = started.task
    watching = asyncio.create_task(_watch(client, task, told_of))
    try:
        # The answer comes when the task has ended, and questions of the task on the way.
        return dict(await send("tasks/result", {"taskId": task.task_id}, {}))
    except asyncio.CancelledError:
        with suppress(Exception):
            async with asyncio.timeout(1.0):
                await send("tasks/cancel", {"taskId": task.task_id}, {})
        raise
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(client: Client, task: types.Task, told_of: Progress) -> None:
    """Tell what a task says of itself, until it is cancelled."""
    request = types.GetTaskRequest(params=types.GetTaskRequestParams(task_id=task.task_id))
    said, count = "", 0
    while True:
        least, most = _PACE
        await asyncio.sleep(min(max((task.poll_interval or 1_000) / 1_000, least), most))
        try:
            task = await client.session.send_request(request, types.GetTaskResult)
        except MCPError:
            return
        if task.status_message and task.status_message != said:
            said, count = task.status_message, count + 1
            await told_of(count, None, said)


def _addresses(error: MCPError) -> list[dict[str, Any]]:
    """The addresses an error asks for. Raises `CallFaultError` where it names none."""
    data = error.error.data
    listed = data.get("elicitations") if isinstance(data, Mapping) else None
    found = [dict(each) for each in listed or [] if isinstance(each, Mapping) and each.get("url")]
    if not found or len(found) > MOST_ADDRESSES:
        raise CallFaultError("it wants addresses to be opened first, and does not say which")
    return found
