"""The `terminal` tool: runs a command in the shell of the task."""

from __future__ import annotations

import secrets as chance
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from tools.context import ToolContext
from tools.kit.threads import on_thread
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, ToolError, error_text
from tools.services.actions import RunCommand
from tools.services.editor import EditorSide
from tools.terminal.backend import CommandPermissions
from tools.terminal.output import OutputWatch
from tools.terminal.shell import TIMED_OUT, Shell, ShellPlace, exit_code_meaning, run_command
from tools.terminal.terminals import BackgroundProcess, Terminals, nothing_refused
from tools.text.safe_text import clean
from tools.text.words import plural

DEFAULT_TIMEOUT = 180
MAX_TIMEOUT = 600
"""The largest time limit in seconds; `terminal.timeout` and `terminal.max_timeout` change both."""

_SUBJECT = 100


async def terminal(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Run a command to its end, or start it in the background."""
    terminals = context.service(Terminals)
    command: str = arguments["command"]
    if not command.strip():
        raise ToolError("The command is empty.")
    if "\0" in command:
        raise ToolError(
            "The command holds a NUL character, which no shell can take; write it as $'\\0' or printf."
        )
    encoded(command)
    background = bool(arguments.get("background"))
    limit = _limit(arguments.get("timeout"), context, background)
    pty = bool(arguments.get("pty"))
    shell = terminals.shell(context)
    async with shell.lock:
        place = shell.place(arguments.get("workdir"))
        # A long command takes a while to read. The gate finds it read.
        permissions = await on_thread(_command_permissions, arguments, context, place)
        await context.permit(
            RunCommand(
                tool="terminal",
                command=command,
                cwd=terminals.permission_folder(place.cwd),
                background=background,
                pty=pty,
                outside=permissions.outside,
                because=terminals.withheld_clauses.get(command, "") if permissions.outside else "",
                network=permissions.network,
            )
        )
        if note := await shell.connect():
            place = replace(place, note=f"{note} {place.note}".strip())
        if background:
            return await _start(arguments, context, shell, place, pty, permissions)
        return await _run(command, context, shell, place, limit, pty, permissions)


def _command_permissions(arguments: Arguments, context: ToolContext, place: ShellPlace) -> CommandPermissions:
    boundary = context.service(Terminals).boundary
    if boundary is None or boundary.level == "none":
        return CommandPermissions()
    if arguments.get("outside"):
        return CommandPermissions(outside=True)
    command, cwd = arguments["command"], place.cwd
    return CommandPermissions(
        network=boundary.asks_for_network(command, cwd),
        hosts=boundary.hosts_named(command, cwd),
        guarded_paths=boundary.guarded_paths(command, cwd),
        needs_git_copies=boundary.needs_git_copies(command, cwd),
        permit=lambda action: context.permit(replace(action, command=command)),
    )


async def _run(
    command: str,
    context: ToolContext,
    shell: Shell,
    place: ShellPlace,
    limit: int,
    pty: bool,
    permissions: CommandPermissions,
) -> dict[str, Any]:
    terminals = context.service(Terminals)
    before, begun = shell.cwd, time.monotonic()
    outcome = await run_command(
        shell,
        place,
        command,
        limit=limit,
        pty=pty,
        spool=context.scratch / f"terminal-{chance.token_hex(4)}.txt",
        secrets=terminals.secrets,
        progress=context.progress,
        permissions=permissions,
        screen_of=context.service(EditorSide).screen(context.call),
    )
    result: dict[str, Any] = {"output": outcome.output.text, "exit_code": outcome.code}
    if outcome.code != TIMED_OUT and (clause := exit_code_meaning(command, outcome.code)):
        result["exit_code_meaning"] = clause
    if outcome.output.spool is not None:
        result["full_output"] = str(outcome.output.spool)
    if shell.cwd != before:
        result["cwd"] = clean(str(shell.cwd))
    notes = [place.note, *outcome.notes]
    boundary = terminals.boundary
    if outcome.code != 0:
        notes.append(terminals.missing_variable_hint(outcome.output.text, shell.variable_names))
        notes.append(await on_thread(partial(shell.size_note, outcome.output.text)))
    if boundary is not None and not permissions.outside:
        look = partial(
            boundary.refusal,
            outcome.output.text,
            network=permissions.network,
            command=command,
            failed=outcome.code != 0,
        )
        notes.append(await on_thread(look))
        if because := boundary.withheld_clause(notes[-1]):
            terminals.withheld_clauses[command] = because
        notes.append(boundary.hosts_refused(begun))
    if note := " ".join(filter(None, notes)):
        result["note"] = note
    return result


async def _start(
    arguments: Arguments,
    context: ToolContext,
    shell: Shell,
    place: ShellPlace,
    pty: bool,
    permissions: CommandPermissions,
) -> dict[str, Any]:
    terminals = context.service(Terminals)
    command: str = arguments["command"]
    table = terminals.processes(context.task)
    boundary = terminals.boundary
    tells_end = bool(arguments.get("notify_on_complete"))
    watch = OutputWatch(arguments.get("watch_patterns") or (), tells_end=tells_end)
    table.make_room()
    child, launch = await shell.start(
        command,
        place,
        pty=pty,
        keeps_input=True,
        keeps_state=False,
        permissions=permissions,
    )
    process = BackgroundProcess(
        child,
        command,
        pty=pty,
        secrets=terminals.secrets,
        watch=watch,
        notify=context.notify,
        on_end=lambda: shell.adopt_state(launch, place),
        refused=boundary.hosts_refused
        if boundary is not None and not permissions.outside
        else nothing_refused,
    )
    table.add(process)
    result = {
        "output": "Started in the background.",
        "exit_code": 0,
        "session_id": process.id,
    } | ({"pid": process.pid} if process.pid else {})
    return result | {"note": place.note} if place.note else result


def encoded(text: str) -> bytes:
    """Return `text` in UTF-8. Raises `ToolError` for invalid text."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolError(
            "The text holds a lone surrogate, half a character; send the whole character."
        ) from None


def timeout_limits(context: ToolContext) -> tuple[int, int]:
    """Return the default and the largest time limit of a command, in seconds."""
    most = int(context.options.get("terminal.max_timeout", MAX_TIMEOUT))
    return min(int(context.options.get("terminal.timeout", DEFAULT_TIMEOUT)), most), most


def _limit(asked: int | None, context: ToolContext, background: bool) -> int:
    usual, most = timeout_limits(context)
    if asked is None or background:
        return usual
    if asked > most:
        raise ToolError(
            f"A timeout of {asked} seconds is above the limit of {most}; "
            "use background=true for what takes longer, then wait for it with the process tool."
        )
    return asked


def _describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    subject = _subject(str(arguments.get("command", "")))
    if result is None or result.get("error"):
        return Display("run", subject, error_text(result))
    output = str(result.get("output", ""))
    if "session_id" in result:
        return Display("run", subject, f"in the background as {result['session_id']}")
    code = result.get("exit_code")
    lines = output.count("\n") + (not output.endswith("\n")) if output else 0
    ending = "timed out" if code == TIMED_OUT else f"exit {code}"
    summary = f"{ending} · {plural(lines, 'line')}"
    return Display("run", subject, summary, TextDetail(output), exit_code=code)


def _subject(command: str) -> str:
    lines = [line for line in clean(command).strip().split("\n") if line.strip()]
    first = " ".join(lines[0].split()) if lines else ""
    return first[:_SUBJECT] + "…" if len(first) > _SUBJECT or len(lines) > 1 else first


def _patch(schema: dict[str, Any], offered: frozenset[str]) -> dict[str, Any]:
    """Remove the parameters of background commands from the schema if the process tool is not offered."""
    if "process" in offered:
        return schema
    properties = schema["parameters"]["properties"]
    kept = {
        name: spec
        for name, spec in properties.items()
        if name not in ("background", "notify_on_complete", "watch_patterns")
    }
    return {
        **schema,
        "description": schema["description"].replace(_BACKGROUND_HINT, ""),
        "parameters": {**schema["parameters"], "properties": kept},
    }


_BACKGROUND_HINT = (
    "\nServers, watchers, anything over 10 minutes: background=true, never `&` or nohup; then process."
)

registry.register(
    name="terminal",
    toolset="terminal",
    schema=tool_schema(
        (
            "Run a bash command. Folder, variables and functions persist between calls. Standard input is "
            "empty: pass -y, -m. Of long output the middle is cut; full_output names the file with all of it."
            + _BACKGROUND_HINT
        ),
        "command",
        command={"type": "string"},
        timeout={
            "type": "integer",
            "minimum": 1,
            "description": "Seconds, default 180, at most 600.",
        },
        workdir={"type": "string", "description": "Folder for this call only."},
        pty={
            "type": "boolean",
            "description": "For programs that need a terminal.",
        },
        background={"type": "boolean"},
        outside={
            "type": "boolean",
            "description": "Only after the sandbox refused something; a person is asked.",
        },
        notify_on_complete={"type": "boolean"},
        watch_patterns={
            "type": "array",
            "items": {"type": "string"},
            "maxItems": 10,
            "description": "Tell you when a line matches (regex).",
        },
    ),
    handler=terminal,
    describe=_describe,
    patch=_patch,
    place=10,
    bundles=("default", "debugging"),
    traits=("for_scripts",),
)
