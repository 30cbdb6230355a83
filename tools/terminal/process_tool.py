"""The `process` tool: manages background processes of the task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tools.context import ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, ToolError, error_text
from tools.services.actions import SendInput
from tools.terminal.output import LIMIT
from tools.terminal.terminals import MAX_LINES, BackgroundProcess, Terminals
from tools.terminal.tool import encoded, timeout_limits
from tools.text.safe_text import clean, truncate

_COMMAND = 200
_SHOWN_LINES = 2_000

Action = Callable[[BackgroundProcess, Arguments, ToolContext], Awaitable[dict[str, Any]]]


async def process(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Carry out one action on a process, or list all processes. Raises `ToolError`."""
    table = context.service(Terminals).processes(context.task)
    action = arguments["action"]
    if action == "list":
        return {"processes": [_state(one) for one in table.all()]}
    if not arguments.get("session_id"):
        known = ", ".join(one.id for one in table.all()) or "none"
        raise ToolError(f"action {action} needs session_id. Known: {known}.")
    return await _ACTIONS[action](table.get(arguments["session_id"]), arguments, context)


async def _poll(process: BackgroundProcess, arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    state = _state(process)
    news = process.new_output()
    result = state | {"output": truncate(news.text, LIMIT)}
    lost = (
        f"{news.dropped:,} characters before this output are lost; poll more often." if news.dropped else ""
    )
    if note := " ".join(filter(None, (lost, process.refusals()))):
        result["note"] = note
    if process.is_running and (picture := await process.picture()) is not None:
        result["screen"] = picture
    return result


async def _log(process: BackgroundProcess, arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    limit = min(arguments.get("limit") or MAX_LINES, _SHOWN_LINES)
    offset = arguments.get("offset")
    text, first, total = process.log(None if offset is None else max(offset - 1, 0), limit)
    shown = text.count("\n") + bool(text and not text.endswith("\n"))
    showing = f"{first + 1}-{first + shown}" if shown else "none"
    refused = process.refusals(all=True)
    state = _state(process) | ({"note": refused} if refused else {})
    return state | {"output": truncate(text, LIMIT), "total_lines": total, "showing": showing}


async def _wait(process: BackgroundProcess, arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    _, most = timeout_limits(context)
    asked = arguments.get("timeout") or most
    try:
        async with asyncio.timeout(min(asked, most)):
            await process.done.wait()
    except TimeoutError:
        result = await _poll(process, arguments, context) | {"status": "timeout"}
        result["note"] = f"Still running after {min(asked, most)} s. {result.get('note', '')}".rstrip()
    else:
        result = await _poll(process, arguments, context)
    if asked > most:
        result["timeout_note"] = f"The wait was limited to {most} seconds."
    return result


async def _kill(process: BackgroundProcess, arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    if not process.is_running:
        return _state(process) | {"status": "already_exited"}
    await process.kill()
    return _state(process) | {"status": "killed", "output": truncate(process.new_output().text, LIMIT)}


async def _write(process: BackgroundProcess, arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    if arguments.get("data") is None:
        raise ToolError("action write needs data.")
    return await _type(process, arguments["data"], context)


async def _submit(process: BackgroundProcess, arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    # On a terminal the Enter key is a carriage return; programs that read keys see the difference.
    return await _type(process, (arguments.get("data") or "") + ("\r" if process.pty else "\n"), context)


async def _type(process: BackgroundProcess, data: str, context: ToolContext) -> dict[str, Any]:
    raw = encoded(data)
    wanted = SendInput(
        tool="process", process=process.id, data=data, program=process.command, typed=process.typed
    )
    await context.permit(wanted)
    await process.write(raw)
    process.note_typed(data)
    return _state(process) | {"sent": len(data)}


async def _close(process: BackgroundProcess, arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    process.close_input()
    return _state(process) | {"closed": "stdin"}


_ACTIONS: Mapping[str, Action] = {
    "poll": _poll,
    "log": _log,
    "wait": _wait,
    "kill": _kill,
    "write": _write,
    "submit": _submit,
    "close": _close,
}


def _state(process: BackgroundProcess) -> dict[str, Any]:
    state: dict[str, Any] = {
        "session_id": process.id,
        "command": truncate(process.command, _COMMAND),
        "status": "running" if process.is_running else "exited",
        "pid": process.pid,
        "uptime_seconds": round(process.uptime, 1),
    }
    if process.exit_code is not None:
        state["exit_code"] = process.exit_code
    return state


def _describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    verb = str(arguments.get("action", "process"))
    subject = clean(str(arguments.get("session_id") or "processes"))
    if result is None or result.get("error"):
        return Display(verb, subject, error_text(result))
    if "processes" in result:
        running = sum(one["status"] == "running" for one in result["processes"])
        return Display("list", "processes", f"{running} of {len(result['processes'])} running")
    summary = str(result.get("status", ""))
    if "exit_code" in result:
        summary += f" · exit {result['exit_code']}"
    output = result.get("screen") or result.get("output")
    detail = TextDetail(str(output)) if output else None
    return Display(verb, subject, summary, detail, exit_code=result.get("exit_code"))


registry.register(
    name="process",
    toolset="terminal",
    schema=tool_schema(
        (
            "Look after background processes. poll: status and new output. log: output by lines. "
            "wait: until it ends or timeout. kill: it and all it started. write: type data. "
            "submit: data and Enter. close: end its input."
        ),
        "action",
        action={"type": "string", "enum": ["list", *_ACTIONS]},
        session_id={"type": "string"},
        data={"type": "string"},
        timeout={"type": "integer", "minimum": 1, "description": "Seconds."},
        offset={
            "type": "integer",
            "minimum": 0,
            "description": "log: first line; default: the end.",
        },
        limit={"type": "integer", "minimum": 1},
    ),
    handler=process,
    describe=_describe,
    place=11,
    bundles=("default", "debugging"),
)
