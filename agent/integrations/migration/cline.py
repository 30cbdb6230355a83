"""Data of Cline in `~/.cline`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from agent.core.store.importing import SessionRecord
from agent.core.store.nodes import title_of
from agent.integrations.migration.claude import words_of
from agent.integrations.migration.reading import (
    LARGEST_SESSION,
    Findings,
    ForeignFiles,
    ForeignNote,
    ForeignSession,
    mapping,
    sequence,
    standard_servers,
    text_of,
)
from agent.integrations.migration.transcript import TranscriptBuilder, call_of, outcome_of, seconds

_WRAPPED = re.compile(r"<user_input[^>]*>(.*?)</user_input>", re.DOTALL)
_AROUND = re.compile(r"<(mode_notice|environment_details)>.*?</\1>", re.DOTALL)
"""The texts that the program adds to the user's messages."""


def find_data(root: Path) -> Findings:
    """Return all data of Cline in `root` that can be imported. Only reads."""
    reader = ForeignFiles(root)
    data = root / "data" if (root / "data").is_dir() else root
    settings = reader.json(data / "settings" / "cline_mcp_settings.json")
    servers, left = standard_servers(mapping(settings.get("mcpServers")))
    notes = [
        ForeignNote("user", text.strip(), path)
        for path in reader.files(root / "rules", "*.md")
        if (text := reader.text(path) or "").strip()
    ]
    sessions = tuple(_sessions(reader, data))
    return Findings(
        agent="cline",
        root=root,
        sessions=sessions,
        notes=tuple(notes),
        skills=reader.skills(root / "skills"),
        servers=servers,
        left_out=(*left, *reader.problems),
    )


def _sessions(reader: ForeignFiles, data: Path) -> Iterable[ForeignSession]:
    for path in reader.files(data / "sessions", "*/*.messages.json"):
        id = path.name.removesuffix(".messages.json")
        about = reader.json(path.with_name(f"{id}.json"))
        if about.get("parent_session_id") or about.get("is_subagent") or not reader.is_inside(path):
            continue
        title = text_of(mapping(about.get("metadata")).get("title") or about.get("prompt"))
        updated = seconds(about.get("ended_at")) or seconds(about.get("started_at"))
        name = f"cline-{id}"
        read = partial(_read, ForeignFiles(reader.root), path, about, name)
        yield ForeignSession(name, title_of(title) or id, text_of(about.get("cwd")), updated, read)


def _read(reader: ForeignFiles, path: Path, about: dict[str, Any], name: str) -> SessionRecord | None:
    content = reader.json(path, LARGEST_SESSION)
    if reader.problems:
        raise ValueError(reader.problems[0])
    transcript = TranscriptBuilder(name)
    metadata = mapping(about.get("metadata"))
    transcript.describe(title=title_of(text_of(metadata.get("title"))), workspace=text_of(about.get("cwd")))
    for message in map(mapping, sequence(content.get("messages"))):
        created, said = seconds(message.get("ts")), message.get("content")
        if message.get("role") == "assistant":
            _answer(transcript, message, created)
            continue
        for block in map(mapping, sequence(said)):
            if block.get("type") == "tool_result":
                text, failed = _result(block)
                outcome = outcome_of("error" if failed else "")
                transcript.result(str(block.get("tool_use_id")), text, created, outcome=outcome)
        text = words_of(said)
        told = "\n\n".join(_WRAPPED.findall(text))
        summary = mapping(message.get("metadata")).get("kind") or message.get("kind")
        if summary == "compaction_summary":
            transcript.compaction(text, created)
        else:
            transcript.user((told or _AROUND.sub("", text)).strip(), created)
    transcript.add_cost(metadata.get("totalCost") or None)
    return transcript.build()


def _answer(transcript: TranscriptBuilder, message: dict[str, Any], created: float) -> None:
    blocks = [mapping(block) for block in sequence(message.get("content"))]
    calls = [
        call_of(block.get("id"), block.get("name"), block.get("input"))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    thought = "\n\n".join(
        text_of(block.get("thinking")) for block in blocks if block.get("type") == "thinking"
    )
    model = mapping(message.get("modelInfo"))
    names = filter(None, (text_of(model.get("provider")), text_of(model.get("id"))))
    number = transcript.assistant(
        words_of(message.get("content")), created, calls=calls, reasoning=thought, model="/".join(names)
    )
    used = mapping(message.get("metrics"))
    transcript.spend(
        number,
        input=used.get("inputTokens"),
        output=used.get("outputTokens"),
        cached=used.get("cacheReadTokens"),
        written=used.get("cacheWriteTokens"),
        cost=used.get("cost") or None,
    )


def _result(block: dict[str, Any]) -> tuple[str, bool]:
    """Return the text of a result, and whether the call failed. One call may have run several commands."""
    content = block.get("content")
    rows = [mapping(each) for each in sequence(content)]
    failed = bool(block.get("is_error")) or any(row.get("success") is False for row in rows)
    if any("type" in row for row in rows) or isinstance(content, str):
        return words_of(content), failed
    return text_of(content), failed
