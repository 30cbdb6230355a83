"""The `checkpoint` tool: names a position, lists later changes, and restores files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tools.context import ToolContext
from tools.files.diffs import shorten_diff
from tools.registry import Arguments, registry, tool_schema
from tools.results import DiffDetail, Display, ToolError, error_text
from tools.services.actions import RestoreFiles
from tools.services.checkpoints import Checkpoints
from tools.text.safe_text import clean
from tools.text.words import plural

ACTIONS = ("save", "list", "restore", "diff", "branch")
SHOWN = 50
"""The maximum number of paths named in a result; the others are only counted."""

_DONE = {"save": "saved", "restore": "taken back", "branch": "branched"}


async def checkpoint(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Carry out one action of the `checkpoint` tool."""
    points = context.service(Checkpoints)
    name, path = (str(arguments.get(key, "")).strip() for key in ("name", "path"))
    match arguments["action"]:
        case "save":
            saved = await points.save(name)
            return {"saved": saved.name, "step": saved.step}
        case "list":
            return await _list(points)
        case "diff":
            return await _diff(points, name, path)
        case "branch":
            if not name:
                raise ToolError("A branch needs a name; give it a word or two.")
            return {"branch": name, "note": await points.branch(name)}
        case _:
            hunks = tuple(arguments.get("hunks") or ())
            if hunks and not path:
                raise ToolError("Hunks are those of one file; give its path, and diff with that path first.")
            return await _restore(points, name, path, hunks, context)


async def _list(points: Checkpoints) -> dict[str, Any]:
    found = await points.list()
    return {
        "step": found.position,
        "earliest": found.first,
        "checkpoints": [{"name": each.name, "step": each.step} for each in found.saved],
        "steps": [
            {"step": each.number, "what": each.label, "time": _iso(each.created), "files": each.files}
            for each in found.steps
        ],
    }


async def _diff(points: Checkpoints, name: str, path: str) -> dict[str, Any]:
    found = await points.diff(name, path)
    return {
        "since_step": found.step,
        "files": found.files,
        "added": found.added,
        "removed": found.removed,
        "diff": shorten_diff(found.diff),
        **_reasons("not_shown", found.left_out),
    }


async def _restore(
    points: Checkpoints, name: str, path: str, hunks: tuple[int, ...], context: ToolContext
) -> dict[str, Any]:
    async def permit(position: int, paths: tuple[Path, ...], removes: tuple[Path, ...]) -> None:
        await context.permit(RestoreFiles(tool="checkpoint", position=position, paths=paths, removes=removes))

    back = await points.restore(name, permit, path, hunks)
    result: dict[str, Any] = {"restored_to_step": back.position, "files": len(back.restored)}
    if back.step is not None:
        result |= {"step": back.step, "paths": list(back.restored[:SHOWN])}
    result |= _reasons("left_as_they_are", back.left)
    if back.step is not None:
        result["note"] = f"Files changed on disk; read them again. `restore {back.step - 1}` undoes this."
    elif not back.left:
        result["note"] = "All files are as they were at that step already."
    return result


def _reasons(key: str, items: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    if not items:
        return {}
    shown: dict[str, Any] = {key: [{"path": path, "reason": reason} for path, reason in items[:SHOWN]]}
    return shown | ({f"{key}_total": len(items)} if len(items) > SHOWN else {})


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(timespec="seconds")


def _describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    action = str(arguments.get("action", ""))
    subject = clean(" ".join(f"{action} {arguments.get('name', '')} {arguments.get('path', '')}".split()))
    if result is None or result.get("error"):
        return Display("checkpoint", subject, error_text(result))
    files = result.get("files", 0)
    counted = plural(files, "file")
    if action == "diff":
        lines = f"{counted} · +{result.get('added', 0)} −{result.get('removed', 0)}"
        return Display("checkpoint", subject, lines, DiffDetail(clean(str(result.get("diff", "")))))
    if action == "list":
        return Display("checkpoint", subject, f"{len(result.get('checkpoints', ()))} saved")
    left = len(result.get("left_as_they_are", ()))
    summary = counted + (f" · {left} left as they are" if left else "") if action == "restore" else ""
    return Display("checkpoint", subject, summary or _DONE.get(action, ""))


registry.register(
    name="checkpoint",
    toolset="checkpoint",
    schema=tool_schema(
        (
            "Name the present place (save), list places and steps, see what changed in files since (diff), "
            "take files back to it (restore), or leave a branch of the conversation here (branch). Every "
            "step that changes files is kept anyway; save before trying something risky. What others "
            "changed since is never overwritten. A restore is a step too and can be undone."
        ),
        "action",
        action={"type": "string", "enum": list(ACTIONS)},
        name={
            "type": "string",
            "description": "A name; for diff and restore also the number of a step (state after it).",
        },
        path={"type": "string", "description": "diff, restore: only this file or folder."},
        hunks={
            "type": "array",
            "items": {"type": "integer", "minimum": 1},
            "description": "restore: only these hunks of the file, as diff with path numbers them.",
        },
    ),
    handler=checkpoint,
    describe=_describe,
    place=60,
    bundles=("default",),
    traits=("whole_session", "takes_back"),
)
