"""Data of OpenCode in `~/.config/opencode` and `~/.local/share/opencode`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
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
    database,
    mapping,
    opencode_servers,
    text_of,
)
from agent.integrations.migration.transcript import (
    Outcome,
    TranscriptBuilder,
    call_of,
    object_in,
    outcome_of,
    seconds,
    total,
)
from agent.safety.permissions.subjects import RuleVerdict

SETTINGS = ".config/opencode"

_EFFECTS = {"edit": "write_file", "read": "read_file", "webfetch": "fetch", "bash": "terminal"}
_REFUSALS: Mapping[str, Outcome] = {
    "rejected permission": "denied",
    "prevents you from using": "denied",
    "aborted": "interrupted",
}
"""Texts in the errors of calls that did not run to their end, each with the outcome."""
Said = tuple[dict[str, Any], list[dict[str, Any]]]
"""A message and its parts."""


def find_data(root: Path, settings: Path) -> Findings:
    """Return all data in OpenCode's data folder and settings folder that can be imported. Only reads."""
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
    """Return the translated permission rules, and a sentence for each rule that cannot be translated.

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
        has = {row[1] for row in connection.execute("PRAGMA table_info(session)")}
        revert = "revert" if "revert" in has else "NULL"
        rows = connection.execute(
            f"SELECT id, title, directory, time_created, time_updated, {revert} FROM session "
            "WHERE parent_id IS NULL ORDER BY time_updated"
        ).fetchall()
    for id, title, folder, created, updated, revert in rows:
        about = {
            "id": str(id),
            "title": str(title or ""),
            "directory": str(folder or ""),
            "time": {"created": created},
            "revert": object_in(revert),
        }
        name = f"opencode-{id}"
        read = partial(_from_database, base, about, name)
        yield ForeignSession(name, str(title or name), str(folder or ""), seconds(updated), read)


def _from_database(base: Path, about: Mapping[str, Any], name: str) -> SessionRecord | None:
    try:
        with closing(database(base)) as connection:
            said = [
                (
                    {**object_in(data), "id": message},
                    [
                        dict(object_in(part))
                        for (part,) in connection.execute(
                            "SELECT data FROM part WHERE message_id = ? ORDER BY id", (message,)
                        )
                    ],
                )
                for message, data in connection.execute(
                    "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id",
                    (about["id"],),
                ).fetchall()
            ]
    except sqlite3.Error as error:
        raise ValueError(str(error)) from error
    return _record(name, about, said)


def _from_files(reader: ForeignFiles, kept: Path, about: dict[str, Any], name: str) -> SessionRecord | None:
    messages = [reader.json(path) for path in reader.files(kept / "message" / about["id"], "*.json")]
    messages = [each for each in messages if isinstance(each.get("id"), str) and "/" not in each["id"]]
    messages.sort(key=lambda each: (seconds(mapping(each.get("time")).get("created")), each["id"]))
    said = [
        (each, [reader.json(path) for path in reader.files(kept / "part" / each["id"], "*.json")])
        for each in messages
    ]
    return _record(name, about, said)


def _record(name: str, about: Mapping[str, Any], said: Iterable[Said]) -> SessionRecord | None:
    # A fork holds copies, with the times of the session that they come from.
    transcript = TranscriptBuilder(name, seconds(mapping(about.get("time")).get("created")))
    transcript.describe(title=str(about.get("title") or ""), workspace=str(about.get("directory") or ""))
    places: dict[str, int] = {}
    end = mapping(about.get("revert")).get("messageID")
    head = tail = None
    for message, parts in said:
        id = str(message.get("id"))
        if id == end:
            head = transcript.here
        places[id] = transcript.here + 1
        for part in parts:
            if part.get("type") == "compaction":
                tail = places.get(str(part.get("tail_start_id")))
        parts = [part for part in parts if not part.get("synthetic")]
        if message.get("role") != "assistant":
            text = "\n\n".join(filter(None, (_text(part) for part in parts)))
            transcript.user(text, seconds(mapping(message.get("time")).get("created")))
        else:
            _answer(transcript, message, parts, tail)
    if head is not None:
        transcript.go_to(head)
    return transcript.build()


def _answer(
    transcript: TranscriptBuilder, message: Mapping[str, Any], parts: list[dict[str, Any]], tail: int | None
) -> None:
    created = seconds(mapping(message.get("time")).get("created"))
    text = "\n\n".join(filter(None, (_text(part) for part in parts)))
    if message.get("summary") is True:
        transcript.compaction(text, created, start=tail)
        return
    model = "/".join(filter(None, (str(message.get("providerID") or ""), str(message.get("modelID") or ""))))
    thought = "\n\n".join(text_of(part.get("text")) for part in parts if part.get("type") == "reasoning")
    tools = [part for part in parts if part.get("type") == "tool"]
    calls = [
        call_of(
            part.get("callID") or part.get("id"), part.get("tool"), mapping(part.get("state")).get("input")
        )
        for part in tools
    ]
    error = mapping(message.get("error"))
    why = text_of(mapping(error.get("data")).get("message")) or text_of(error.get("name"))
    if text or calls or thought or not error:
        number = transcript.assistant(text, created, calls=calls, reasoning=thought, model=model)
        used, cache = mapping(message.get("tokens")), mapping(mapping(message.get("tokens")).get("cache"))
        transcript.spend(
            number,
            input=total(used.get("input"), cache.get("read"), cache.get("write")),
            output=used.get("output"),
            cached=cache.get("read"),
            written=cache.get("write"),
            reasoning=used.get("reasoning"),
            cost=message.get("cost") or None,
        )
        if error.get("name") == "MessageAbortedError":
            transcript.interrupt(number)
    for part, call in zip(tools, calls, strict=True):
        state = mapping(part.get("state"))
        status = state.get("status")
        if status not in ("completed", "error"):
            continue
        result = text_of(state.get("error") if status == "error" else state.get("output"))
        outcome = outcome_of(status, mapping(state.get("metadata")).get("exit"))
        if status == "error":
            told: list[Outcome] = [told for words, told in _REFUSALS.items() if words in result]
            outcome = told[0] if told else outcome
        if part.get("tool") == "invalid":
            outcome = "failed"
        transcript.result(call.id, result, created, outcome=outcome)
    if error:
        transcript.notice(f"OpenCode told an error: {why}", created)


def _text(part: dict[str, Any]) -> str:
    match part.get("type"):
        case "text":
            return text_of(part.get("text"))
        case "file":
            return f"[file {part.get('filename') or ''}]"
    return ""
