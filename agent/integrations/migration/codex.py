"""Data of Codex in `~/.codex`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from agent.core.config.problem import short_text
from agent.core.store.importing import SessionRecord
from agent.core.store.nodes import title_of
from agent.integrations.migration.reading import (
    Findings,
    ForeignFiles,
    ForeignNote,
    ForeignSession,
    TranscriptBuilder,
    call_of,
    mapping,
    records,
    seconds,
    sequence,
    standard_servers,
    text_of,
)

FOLDER = ".codex"
HEAD = 40

_OWN = (
    "<user_instructions>",
    "<environment_context>",
    "<permissions",
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
)
"""How messages begin that the program wrote in the person's name."""


def look(root: Path) -> Findings:
    """Find all data that can be taken over. Only reads."""
    reader = ForeignFiles(root)
    config = reader.toml(root / "config.toml")
    servers, left = standard_servers(mapping(config.get("mcp_servers")))
    if isinstance(policy := config.get("approval_policy"), str):
        left.append(
            f"Its approval policy is {short_text(policy)}; ours is `approvals.mode`, see docs/permissions.md."
        )
    if reader.files(root / "rules", "*.rules"):
        left.append("Its command rules are programs; write those you need into permissions.yaml.")
    return Findings(
        agent="codex",
        root=root,
        sessions=tuple(_sessions(reader, root)),
        notes=tuple(_notes(reader, root)),
        skills=tuple(path for path in reader.skills(root / "skills") if ".system" not in path.parts),
        servers=servers,
        left_out=(*left, *reader.problems),
    )


def _notes(reader: ForeignFiles, root: Path) -> Iterable[ForeignNote]:
    for name, scope in (("AGENTS.md", "user"), ("memories/MEMORY.md", "memory")):
        if text := (reader.text(root / name) or "").strip():
            yield ForeignNote("user" if scope == "user" else "memory", text, root / name)


def _sessions(reader: ForeignFiles, root: Path) -> Iterable[ForeignSession]:
    for folder in ("sessions", "archived_sessions"):
        for path in reader.files(root / folder, "**/rollout-*.jsonl"):
            try:
                title, workspace, id = _head(path)
                updated = path.stat().st_mtime
            except (OSError, ValueError) as error:
                reader.unreadable(path, error)
                continue
            name = f"codex-{id or path.stem.removeprefix('rollout-')}"
            yield ForeignSession(
                name, title or path.stem, workspace, updated, partial(read_session, path, name)
            )


def _head(path: Path) -> tuple[str, str, str]:
    """Read title, folder and id from the beginning of a session file. Raises `OSError` and `ValueError`."""
    title = workspace = id = ""
    for count, line in enumerate(records(path)):
        kind, item = _item(line)
        if kind == "session_meta":
            workspace, id = str(item.get("cwd") or ""), str(item.get("id") or "")
        elif item.get("type") == "message" and item.get("role") == "user" and (words := _person_text(item)):
            title = title_of(words)
        if count >= HEAD or (title and workspace):
            break
    return title, workspace, id


def read_session(path: Path, name: str) -> SessionRecord | None:
    """Read one session; None if it is empty. Raises `OSError` and `ValueError`."""
    transcript = TranscriptBuilder(name)
    model = ""
    asked: int | None = None
    """The message of the model that calls are added to."""
    thought = ""
    for line in records(path):
        kind, item = _item(line)
        created = seconds(line.get("timestamp"))
        if kind == "session_meta":
            transcript.describe(workspace=str(item.get("cwd") or ""))
        elif kind == "turn_context":
            model = str(item.get("model") or model)
        elif kind == "compacted" and isinstance(text := item.get("message"), str) and text.strip():
            transcript.notice(text, created, to_model=True)
            asked = None
        match item.get("type") if kind == "response_item" else "":
            case "message" if item.get("role") == "user":
                if words := _person_text(item):
                    transcript.user(words, created)
                    asked = None
            case "message" if item.get("role") == "assistant":
                asked = transcript.assistant(_text(item), created, reasoning=thought, model=model)
                thought = ""
            case "reasoning":
                pieces = [text_of(mapping(each).get("text")) for each in sequence(item.get("summary"))]
                thought = "\n\n".join(filter(None, (thought, *pieces)))
            case "function_call" | "custom_tool_call" | "local_shell_call":
                arguments = item.get("arguments", item.get("input", item.get("action")))
                call = call_of(item.get("call_id"), item.get("name") or "shell", arguments)
                if asked is None:
                    asked = transcript.assistant("", created, reasoning=thought, model=model)
                    thought = ""
                transcript.extend(asked, calls=[call])
            case "function_call_output" | "custom_tool_call_output":
                transcript.result(str(item.get("call_id")), _output(item.get("output")), created)
                # What follows is another answer of the model.
                asked = None
    return transcript.build()


def _item(line: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return kind and content of a line. Older files contain only the content."""
    if "payload" in line:
        return str(line.get("type")), mapping(line.get("payload"))
    if line.get("type") in ("message", "reasoning", "function_call", "function_call_output"):
        return "response_item", line
    return ("session_meta", line) if "id" in line and "timestamp" in line else ("", line)


def _person_text(item: dict[str, Any]) -> str:
    text = _text(item)
    return "" if text.lstrip().startswith(_OWN) else text


def _text(item: dict[str, Any]) -> str:
    pieces = []
    for block in sequence(item.get("content")):
        each = mapping(block)
        pieces.append("[image]" if each.get("type") == "input_image" else text_of(each.get("text")))
    return "\n\n".join(filter(None, pieces))


def _output(value: Any) -> str:
    """Return the output of a call as text. Newer files have it as an object or as blocks."""
    if isinstance(value, dict):
        return text_of(value.get("content", value))
    if isinstance(value, list):
        return "\n\n".join(filter(None, (text_of(mapping(each).get("text")) for each in value)))
    return text_of(value)
