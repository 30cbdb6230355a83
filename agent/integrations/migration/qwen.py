"""Data of Qwen Code in `~/.qwen`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.core.store.importing import SessionRecord
from agent.core.store.nodes import title_of
from agent.integrations.migration.parts import add_results, calls_of, words_of
from agent.integrations.migration.reading import (
    Findings,
    ForeignFiles,
    findings_of,
    in_milliseconds,
    mapping,
    records,
    sequence,
    sessions_in,
    standard_servers,
    text_of,
)
from agent.integrations.migration.transcript import TranscriptBuilder, outcome_of, seconds

HEAD = 40
"""The number of lines of a session that are read for its title."""


def find_data(root: Path) -> Findings:
    """Return all data of Qwen Code in `root` that can be imported. Only reads."""
    reader = ForeignFiles(root)
    settings = reader.json(root / "settings.json")
    servers, left = standard_servers(in_milliseconds(mapping(settings.get("mcpServers"))))
    if settings.get("hooks"):
        left.append("Its hooks are other events and forms; see docs/hooks.md for ours.")
    paths = reader.files(root / "projects", "*/chats/*.jsonl")
    sessions = tuple(sessions_in(reader, "qwen", paths, _head, read_session))
    return findings_of("qwen", reader, root, root / "QWEN.md", sessions, servers, left)


def _head(path: Path) -> tuple[str, str, str]:
    title = folder = ""
    for count, line in enumerate(records(path)):
        folder = folder or text_of(line.get("cwd"))
        title = text_of(mapping(line.get("systemPayload")).get("customTitle")) or title
        if not title and line.get("type") == "user":
            title = title_of(words_of(mapping(line.get("message")).get("parts")))
        if count >= HEAD:
            break
    return title, folder, path.stem


def read_session(path: Path, name: str) -> SessionRecord | None:
    """Return one session with its branches; None if it is empty. Raises `OSError` and `ValueError`."""
    transcript = TranscriptBuilder(name)
    placed: dict[str, int] = {}
    """The node made of each line, by the line's uuid."""
    for line in records(path, transcript.left):
        transcript.describe(workspace=text_of(line.get("cwd")))
        # A line without a parent begins a second time, such as after a rewind to the first message.
        parent = placed.get(str(line["parentUuid"]), 0) if line.get("parentUuid") else 0
        if line.get("isSidechain") or line.get("agentId"):
            transcript.left["line of an agent"] += 1
            continue
        at = _add(transcript, line, parent)
        placed[str(line.get("uuid"))] = at
        transcript.go_to(at)
    return transcript.build()


def _add(transcript: TranscriptBuilder, line: dict[str, Any], parent: int) -> int:
    """Add a line after the node `parent`; return the node that the next lines follow."""
    created = seconds(line.get("timestamp"))
    parts = mapping(line.get("message")).get("parts")
    match line.get("type"):
        case "user" if line.get("provenance") in (None, "real_user"):
            return transcript.user(words_of(parts), created, parent) or parent
        case "user":
            text = words_of(parts)
            return transcript.notice(text, created, parent, to_model=True) if text.strip() else parent
        case "assistant":
            number = transcript.assistant(
                words_of(parts),
                created,
                parent,
                calls=calls_of(parts),
                reasoning=words_of(parts, thoughts=True),
                model=text_of(line.get("model")),
            )
            used = mapping(line.get("usageMetadata"))
            transcript.spend(
                number,
                input=used.get("promptTokenCount"),
                output=used.get("candidatesTokenCount"),
                cached=used.get("cachedContentTokenCount"),
                reasoning=used.get("thoughtsTokenCount"),
            )
            return number
        case "tool_result":
            return _result(transcript, line, parts, created, parent)
        case "system":
            return _system(transcript, line, created, parent)
        case other:
            transcript.left[f"line of the kind {str(other)[:40]}"] += 1
    return parent


def _result(
    transcript: TranscriptBuilder, line: dict[str, Any], parts: Any, created: float, parent: int
) -> int:
    told = mapping(line.get("toolCallResult"))
    status = text_of(told.get("status"))
    at = add_results(transcript, parts, created, parent, status)
    outcome = outcome_of(status, mapping(told.get("resultDisplay")).get("exitCode"))
    if outcome != "done" and told.get("callId"):
        transcript.judge(str(told["callId"]), outcome)
    return at


def _system(transcript: TranscriptBuilder, line: dict[str, Any], created: float, parent: int) -> int:
    payload = mapping(line.get("systemPayload"))
    match line.get("subtype"):
        case "custom_title":
            transcript.rename(text_of(payload.get("customTitle")))
        case "chat_compression" if history := sequence(payload.get("compressedHistory")):
            said = [words_of(mapping(each).get("parts")) for each in history]
            return transcript.compaction("\n\n".join(filter(None, said)), created, parent)
        case "parent_session":
            transcript.begins = created
    return parent
