"""Data of OpenCode in `~/.config/opencode` and `~/.local/share/opencode`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from agent.core.config.problem import short_text
from agent.core.store.importing import SessionRecord
from agent.integrations.migration.reading import (
    Findings,
    ForeignFiles,
    ForeignNote,
    ForeignRule,
    ForeignSession,
    TranscriptBuilder,
    call_of,
    database,
    mapping,
    opencode_servers,
    seconds,
    text_of,
)
from agent.safety.permissions.rules import RuleVerdict

FOLDER = ".local/share/opencode"
SETTINGS = ".config/opencode"

_EFFECTS = {"edit": "write_file", "read": "read_file", "webfetch": "fetch", "bash": "terminal"}
Said = tuple[dict[str, Any], list[dict[str, Any]]]
"""A message and its parts."""


def look(root: Path, settings: Path) -> Findings:
    """Find all data that can be taken over, in OpenCode's data folder and settings folder. Only reads."""
    reader, config_reader = ForeignFiles(root), ForeignFiles(settings)
    config: dict[str, Any] = {}
    for name in ("config.json", "opencode.json", "opencode.jsonc"):
        config |= config_reader.json(settings / name)
    servers, left = opencode_servers(mapping(config.get("mcp")))
    rules, not_rules = _rules(config.get("permission"))
    told = settings / "AGENTS.md"
    text = (config_reader.text(told) or "").strip()
    return Findings(
        agent="opencode",
        root=root,
        sessions=tuple(_sessions(reader, root)),
        notes=(ForeignNote("user", text, told),) if text else (),
        skills=config_reader.skills(settings / "skill", settings / "skills"),
        servers=servers,
        rules=tuple(rules),
        left_out=(*left, *not_rules, *reader.problems, *config_reader.problems),
    )


def _rules(given: Any) -> tuple[list[ForeignRule], list[str]]:
    """Translate permission rules; return them, and a sentence for each rule that cannot be translated.

    OpenCode applies the last matching rule, Hermes the strictest. A rule that allows everything is therefore
    left out.
    """
    rules: list[ForeignRule] = []
    left: list[str] = []
    if isinstance(given, str):
        return [], [
            f"Its permission for everything is {short_text(given)}; ours is chosen with `approvals.mode`."
        ]
    for tool, value in mapping(given).items():
        patterns = value if isinstance(value, dict) else {"*": value}
        for pattern, verdict in patterns.items():
            original = f"{tool} {pattern}: {verdict}"
            effect = _EFFECTS.get(tool)
            fits = verdict in ("allow", "ask", "deny") and (pattern != "*" or verdict == "deny")
            if effect is None or not fits or "(" in pattern:
                left.append(f"The permission {short_text(original)} has no counterpart here.")
                continue
            told: RuleVerdict = "allow" if verdict == "allow" else "ask" if verdict == "ask" else "deny"
            rules.append(ForeignRule(effect if pattern == "*" else f"{effect}({pattern})", told, original))
    return rules, left


def _sessions(reader: ForeignFiles, root: Path) -> Iterable[ForeignSession]:
    base = root / "opencode.db"
    if base.is_file():
        try:
            yield from _in_database(base)
        except sqlite3.Error as error:
            reader.unreadable(base, error)
    kept = root / "storage"
    for path in reader.files(kept / "session", "*/*.json"):
        about = reader.json(path)
        if about.get("parentID") or not isinstance(about.get("id"), str):
            continue
        name = f"opencode-{about['id']}"
        time = mapping(about.get("time"))
        updated = seconds(time.get("updated") or time.get("created"))
        read = partial(_from_files, ForeignFiles(root), kept, about, name)
        title, folder = str(about.get("title") or name), str(about.get("directory") or "")
        yield ForeignSession(name, title, folder, updated, read)


def _in_database(base: Path) -> Iterator[ForeignSession]:
    with closing(database(base)) as connection:
        rows = connection.execute(
            "SELECT id, title, directory, time_updated FROM session "
            "WHERE parent_id IS NULL ORDER BY time_updated"
        ).fetchall()
    for id, title, folder, updated in rows:
        name = f"opencode-{id}"
        read = partial(_from_database, base, str(id), name, str(title or ""), str(folder or ""))
        yield ForeignSession(name, str(title or name), str(folder or ""), seconds(updated), read)


def _from_database(base: Path, id: str, name: str, title: str, folder: str) -> SessionRecord | None:
    try:
        with closing(database(base)) as connection:
            said = [
                (
                    _object(data) | {"id": message},
                    [
                        _object(part)
                        for (part,) in connection.execute(
                            "SELECT data FROM part WHERE message_id = ? ORDER BY id", (message,)
                        )
                    ],
                )
                for message, data in connection.execute(
                    "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", (id,)
                ).fetchall()
            ]
    except sqlite3.Error as error:
        raise ValueError(str(error)) from error
    return _record(name, title, folder, said)


def _from_files(reader: ForeignFiles, kept: Path, about: dict[str, Any], name: str) -> SessionRecord | None:
    messages = [reader.json(path) for path in reader.files(kept / "message" / about["id"], "*.json")]
    messages = [each for each in messages if isinstance(each.get("id"), str) and "/" not in each["id"]]
    messages.sort(key=lambda each: (seconds(mapping(each.get("time")).get("created")), each["id"]))
    said = [
        (each, [reader.json(path) for path in reader.files(kept / "part" / each["id"], "*.json")])
        for each in messages
    ]
    return _record(name, str(about.get("title") or ""), str(about.get("directory") or ""), said)


def _record(name: str, title: str, folder: str, said: Iterable[Said]) -> SessionRecord | None:
    transcript = TranscriptBuilder(name)
    transcript.describe(title=title, workspace=folder)
    for message, parts in said:
        created = seconds(mapping(message.get("time")).get("created"))
        parts = [part for part in parts if not part.get("synthetic")]
        text = "\n\n".join(filter(None, (_text(part) for part in parts)))
        if message.get("role") != "assistant":
            transcript.user(text, created)
            continue
        model = "/".join(
            filter(None, (str(message.get("providerID") or ""), str(message.get("modelID") or "")))
        )
        thought = "\n\n".join(text_of(part.get("text")) for part in parts if part.get("type") == "reasoning")
        tools = [part for part in parts if part.get("type") == "tool"]
        calls = [
            call_of(
                part.get("callID") or part.get("id"),
                part.get("tool"),
                mapping(part.get("state")).get("input"),
            )
            for part in tools
        ]
        transcript.assistant(text, created, calls=calls, reasoning=thought, model=model)
        for part, call in zip(tools, calls, strict=True):
            state = mapping(part.get("state"))
            failed = state.get("status") == "error"
            result = text_of(state.get("error") if failed else state.get("output"))
            transcript.result(call.id, result, created, failed=failed)
    return transcript.build()


def _text(part: dict[str, Any]) -> str:
    match part.get("type"):
        case "text":
            return text_of(part.get("text"))
        case "file":
            return f"[file {part.get('filename') or ''}]"
    return ""


def _object(text: Any) -> dict[str, Any]:
    try:
        return mapping(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return {}
