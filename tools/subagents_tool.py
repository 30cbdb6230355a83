"""The tool by which an agent manages the agents it has started."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from tools.context import Delegates, ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import DiffDetail, Display, TextDetail, ToolError, error_text
from tools.services.actions import MergeCopy
from tools.text.safe_text import clean
from tools.text.words import plural

ACTIONS = (
    "list",
    "wait",
    "send_input",
    "pause",
    "resume",
    "kill",
    "result",
    "diff",
    "merge",
    "discard",
)
LONGEST_WAIT = 600.0
"""The time limit in seconds of one wait."""


async def subagents(arguments: Arguments, context: ToolContext) -> Mapping[str, Any]:
    """Carry out one action of the `subagents` tool."""
    delegates = context.service(Delegates)
    action, id = arguments["action"], str(arguments.get("id") or "").strip()
    text = str(arguments.get("text") or "")
    if not id and action not in ("list", "wait"):
        raise ToolError(f"Say which agent to {action}: its id, as `list` shows it.")
    match action:
        case "list":
            return await delegates.list()
        case "wait":
            wanted = float(arguments.get("timeout") or LONGEST_WAIT)
            return await delegates.wait(id, min(max(wanted, 0.0), LONGEST_WAIT))
        case "send_input":
            return await delegates.send_input(id, text)
        case "pause":
            return await delegates.pause(id)
        case "resume":
            return await delegates.resume(id, text)
        case "kill":
            return await delegates.kill(id)
        case "diff":
            return await delegates.diff(id, _paths(arguments))
        case "merge":
            return await _merge(delegates, id, arguments, context)
        case "discard":
            return await delegates.discard(id)
        case _:
            return await delegates.result(id)


async def _merge(
    delegates: Delegates, id: str, arguments: Arguments, context: ToolContext
) -> Mapping[str, Any]:
    async def permit(agent: str, paths: tuple[Path, ...], removes: tuple[Path, ...]) -> None:
        await context.permit(MergeCopy(tool="subagents", agent=agent, paths=paths, removes=removes))

    conflicts = arguments.get("conflicts") or "keep"
    return await delegates.merge(id, _paths(arguments), conflicts, permit)


def _paths(arguments: Arguments) -> list[str]:
    """Return the paths in the arguments, normalised, without those that mean the whole workspace."""
    named = [str(path).strip() for path in arguments.get("paths") or ()]
    return [str(PurePosixPath(path)) for path in named if path not in ("", ".", "./")]


def _describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    subject = clean(" ".join(f"{arguments.get('action', '')} {arguments.get('id', '')}".split()))
    if result is None or result.get("error"):
        return Display("agents", subject, error_text(result)[:200])
    if isinstance(agents := result.get("agents"), list):
        return Display("agents", subject, plural(len(agents), "agent"))
    if (diff := result.get("diff")) is not None:
        lines = f"{result.get('files', 0)} files · +{result.get('added', 0)} −{result.get('removed', 0)}"
        return Display("agents", subject, lines, DiffDetail(clean(str(diff))))
    if isinstance(merged := result.get("merged"), list):
        left = len(result.get("left_as_they_are", ()))
        summary = f"{len(merged)} merged" + (f" · {left} left as they are" if left else "")
        return Display("agents", subject, summary)
    state = clean(str(result.get("outcome") or result.get("state") or ""))
    detail = clean(str(result.get("summary") or ""))
    return Display("agents", subject, state, TextDetail(detail) if detail else None)


registry.register(
    name="subagents",
    toolset="delegate",
    schema=tool_schema(
        (
            "Look after agents you sent: list, wait (for one or all), result, send_input (steers it; one "
            "that has ended continues), pause, resume (also one that was interrupted or ran out of budget), "
            "kill. For one with isolation `copy`: diff shows what it changed, merge brings all of it or "
            "`paths` into the workspace, discard throws the rest away."
        ),
        "action",
        action={"type": "string", "enum": list(ACTIONS)},
        id={"type": "string"},
        text={"type": "string", "description": "For send_input and resume."},
        timeout={"type": "number", "description": "Seconds to wait."},
        paths={"type": "array", "items": {"type": "string"}, "description": "For diff, merge."},
        conflicts={
            "type": "string",
            "enum": ["keep", "take", "merge"],
            "description": "For merge, files changed on both sides: keep the workspace's (default), "
            "take the copy's, or put both together.",
        },
    ),
    handler=subagents,
    describe=_describe,
    read_only=True,
    place=71,
    bundles=("default",),
    traits=("sends_agents",),
)
