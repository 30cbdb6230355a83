"""Data of Hermes Agent, the predecessor of this program, in its home folder."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from agent.core.config.document import UnusableError, decode
from agent.core.config.document import parse as parse_yaml
from agent.core.config.problem import short_text
from agent.core.store.importing import SessionRecord
from agent.integrations.migration.reading import (
    Findings,
    ForeignFiles,
    ForeignNote,
    ForeignSession,
    database,
    mapping,
    sequence,
    standard_servers,
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
from agent.knowledge.memory.files import parse as parse_entries

_HIDDEN = ("subagent", "tool")
"""Sources of sessions that were not conversations with the user."""


def find_data(root: Path) -> Findings:
    """Return all data of Hermes Agent in `root` that can be imported. Only reads."""
    reader = ForeignFiles(root)
    try:
        config = parse_yaml(
            decode((reader.text(root / "config.yaml") or "").encode()).encode(), "config.yaml"
        ).data
    except UnusableError as error:
        config = {}
        reader.problems.append(f"{short_text(str(root / 'config.yaml'))}: {error.message}")
    servers, left = standard_servers(mapping(config.get("mcp_servers")))
    return Findings(
        agent="hermes",
        root=root,
        sessions=tuple(_sessions(reader, root)),
        notes=tuple(_notes(reader, root)),
        skills=reader.skills(root / "skills"),
        servers=servers,
        left_out=(*left, *reader.problems),
    )


def _notes(reader: ForeignFiles, root: Path) -> Iterable[ForeignNote]:
    for name in ("MEMORY.md", "USER.md"):
        file = root / "memories" / name
        for entry in parse_entries(reader.text(file) or ""):
            yield ForeignNote("user" if name == "USER.md" else "memory", entry, file)


def _sessions(reader: ForeignFiles, root: Path) -> Iterator[ForeignSession]:
    base = root / "state.db"
    if not base.is_file():
        return
    try:
        with closing(database(base)) as connection:
            has = {row[1] for row in connection.execute("PRAGMA table_info(sessions)")}
            folder = "cwd" if "cwd" in has else "''"
            rows = connection.execute(
                f"SELECT id, title, {folder}, started_at, model, source FROM sessions ORDER BY started_at"
            ).fetchall()
    except sqlite3.Error as error:
        reader.unreadable(base, error)
        return
    for id, title, workspace, started, model, source in rows:
        if source in _HIDDEN:
            continue
        name = f"hermes-{id}"
        read = partial(_read, base, str(id), name, str(title or ""), str(workspace or ""), str(model or ""))
        yield ForeignSession(name, str(title or id), str(workspace or ""), seconds(started), read)


def _read(base: Path, id: str, name: str, title: str, workspace: str, model: str) -> SessionRecord | None:
    transcript = TranscriptBuilder(name)
    transcript.describe(title=title, workspace=workspace, model=model)
    try:
        with closing(database(base)) as connection:
            connection.row_factory = sqlite3.Row
            has = {row[1] for row in connection.execute("PRAGMA table_info(messages)")}
            extra = [each for each in ("active", "compacted", "reasoning", "finish_reason") if each in has]
            columns = ", ".join(["role", "content", "tool_call_id", "tool_calls", "timestamp", *extra])
            rows = connection.execute(
                f"SELECT {columns} FROM messages WHERE session_id = ? ORDER BY id", (id,)
            ).fetchall()
            about = dict(connection.execute("SELECT * FROM sessions WHERE id = ?", (id,)).fetchone() or {})
    except sqlite3.Error as error:
        raise ValueError(str(error)) from error
    folded = False
    answer: int | None = None
    for row in map(dict, rows):
        if not row.get("active", 1) and not row.get("compacted"):
            transcript.left["message that was taken back"] += 1
            continue
        if folded and not row.get("compacted"):
            # The rows that follow begin with the summary.
            summary = "The summary stands in the next message."
            transcript.compaction(summary, seconds(row["timestamp"]))
        folded = bool(row.get("compacted"))
        created, text = seconds(row["timestamp"]), _words(row["content"])
        match row["role"]:
            case "user":
                transcript.user(text, created)
            case "assistant":
                calls = [_call(each) for each in _list(row["tool_calls"])]
                thought = text_of(row.get("reasoning"))
                answer = transcript.assistant(text, created, calls=calls, reasoning=thought)
            case "tool":
                transcript.result(str(row["tool_call_id"]), text, created, outcome=_outcome(text))
    _spend(transcript, answer, about)
    return transcript.build()


def _spend(transcript: TranscriptBuilder, answer: int | None, about: Mapping[str, Any]) -> None:
    """Set the tokens and cost of the whole session (no others are recorded) at its last answer."""
    cached, written = about.get("cache_read_tokens"), about.get("cache_write_tokens")
    known = about.get("cost_status") not in (None, "unknown")
    transcript.spend(
        answer,
        input=total(about.get("input_tokens"), cached, written) or None,
        output=about.get("output_tokens") or None,
        cached=cached,
        written=written,
        reasoning=about.get("reasoning_tokens"),
        cost=(about.get("actual_cost_usd") or about.get("estimated_cost_usd")) if known else None,
    )


def _outcome(text: str) -> Outcome:
    found = object_in(text)
    if found.get("status") == "blocked":
        return "denied"
    if found.get("exit_code") == 130:
        return "interrupted"
    return outcome_of("error" if found.get("error") else "", found.get("exit_code"))


def _call(each: Any) -> Any:
    function = mapping(mapping(each).get("function"))
    return call_of(mapping(each).get("id"), function.get("name"), function.get("arguments"))


def _list(text: Any) -> list[Any]:
    try:
        return sequence(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return []


def _words(content: Any) -> str:
    """Return the text of a message. A message with images is a JSON list of parts."""
    if not isinstance(content, str) or not content.startswith(("[{", "\0json")):
        return text_of(content)
    parts = _list(content.removeprefix("\0json:"))
    told = [text_of(mapping(part).get("text")) or "[image]" for part in parts]
    return "\n\n".join(told) if parts else content
