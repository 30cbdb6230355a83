"""Data of Pi in `~/.pi/agent`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.core.store.importing import SessionRecord
from agent.core.store.nodes import title_of
from agent.integrations.migration.reading import (
    Findings,
    ForeignFiles,
    findings_of,
    mapping,
    records,
    sequence,
    sessions_in,
    text_of,
)
from agent.integrations.migration.transcript import TranscriptBuilder, call_of, outcome_of, seconds, total

HEAD = 40
"""The number of lines of a session that are read for its title."""


def find_data(root: Path) -> Findings:
    """Return all data of Pi in `root` that can be imported. Only reads."""
    reader = ForeignFiles(root)
    paths = reader.files(root / "sessions", "*/*.jsonl")
    sessions = tuple(sessions_in(reader, "pi", paths, _head, read_session))
    left = ["Its extensions are programs; see docs/plugins.md for ours."] * bool(
        reader.files(root / "extensions", "*")
    )
    return findings_of("pi", reader, root, root / "AGENTS.md", sessions, None, left)


def _head(path: Path) -> tuple[str, str, str]:
    title = folder = id = ""
    for count, line in enumerate(records(path)):
        said = mapping(line.get("message"))
        if line.get("type") == "session":
            folder, id = str(line.get("cwd") or ""), str(line.get("id") or "")
        elif line.get("type") == "session_info":
            title = text_of(line.get("name")) or title
        elif not title and said.get("role") == "user":
            title = title_of(_words(said.get("content")))
        if count >= HEAD:
            break
    return title, folder, id


def read_session(path: Path, name: str) -> SessionRecord | None:
    """Return one session with its branches; None if it is empty. Raises `OSError` and `ValueError`."""
    transcript = TranscriptBuilder(name)
    placed: dict[str, int] = {}
    """The node made of each entry, by the entry's id."""
    for line in records(path, transcript.left):
        kind = line.get("type")
        if kind == "session":
            transcript.describe(workspace=str(line.get("cwd") or ""))
            # A fork begins with copies of what was said in another session.
            transcript.begins = seconds(line.get("timestamp")) if line.get("parentSession") else 0.0
            continue
        # The first version of the format has no parents: each entry follows the one before.
        parent = placed.get(str(line["parentId"]), 0) if "parentId" in line else transcript.here
        at = _add(transcript, line, parent, placed)
        placed[str(line.get("id"))] = at
        if kind not in ("label", "usage"):
            transcript.go_to(at)
    return transcript.build()


def _add(transcript: TranscriptBuilder, line: dict[str, Any], parent: int, placed: dict[str, int]) -> int:
    """Add an entry after the node `parent`; return the node that the next entries follow."""
    created = seconds(line.get("timestamp"))
    match line.get("type"):
        case "message":
            return _message(transcript, mapping(line.get("message")), created, parent)
        case "compaction":
            start = placed.get(str(line.get("firstKeptEntryId")))
            return transcript.compaction(text_of(line.get("summary")), created, parent, start)
        case "branch_summary":
            summary = f"Summary of the branch that was left:\n{text_of(line.get('summary'))}"
            return transcript.notice(summary, created, parent, to_model=True)
        case "custom_message":
            return transcript.notice(_words(line.get("content")), created, parent, to_model=True)
        case "context_edit":
            transcript.left["change of what is sent to the model"] += 1
        case "session_info":
            transcript.rename(text_of(line.get("name")))
        case "model_change":
            transcript.describe(model=text_of(line.get("modelId")))
        case "label" | "usage" | "custom" | "thinking_level_change":
            pass
        case other:
            transcript.left[f"entry of the kind {str(other)[:40]}"] += 1
    return parent


def _message(transcript: TranscriptBuilder, said: dict[str, Any], created: float, parent: int) -> int:
    content = said.get("content")
    match said.get("role"):
        case "user":
            return transcript.user(_words(content), created, parent) or parent
        case "assistant":
            return _answer(transcript, said, created, parent)
        case "toolResult":
            outcome = outcome_of("error" if said.get("isError") else "")
            call = str(said.get("toolCallId"))
            return transcript.result(call, _words(content), created, parent, outcome=outcome) or parent
        case "bashExecution":
            text = f"$ {text_of(said.get('command'))}\n{text_of(said.get('output'))}"
            sent = not said.get("excludeFromContext")
            return transcript.notice(text, created, parent, to_model=sent)
        case "custom" | "hookMessage":
            return transcript.notice(_words(content), created, parent, to_model=True)
    return parent


def _answer(transcript: TranscriptBuilder, said: dict[str, Any], created: float, parent: int) -> int:
    blocks = [mapping(block) for block in sequence(said.get("content"))]
    calls = [
        call_of(block.get("id"), block.get("name"), block.get("arguments"))
        for block in blocks
        if block.get("type") == "toolCall"
    ]
    thought = "\n\n".join(
        text_of(block.get("thinking")) for block in blocks if block.get("type") == "thinking"
    )
    text, error = _words(blocks), text_of(said.get("errorMessage"))
    if not (text or calls or thought) and error:
        return transcript.notice(f"Pi told an error: {error}", created, parent)
    model = "/".join(filter(None, (text_of(said.get("provider")), text_of(said.get("model")))))
    number = transcript.assistant(text, created, parent, calls=calls, reasoning=thought, model=model)
    if said.get("stopReason") == "aborted":
        transcript.interrupt(number)
    used = mapping(said.get("usage"))
    cached, written = used.get("cacheRead"), used.get("cacheWrite")
    transcript.spend(
        number,
        input=total(used.get("input"), cached, written),
        output=used.get("output"),
        cached=cached,
        written=written,
        reasoning=used.get("reasoning"),
        cost=mapping(used.get("cost")).get("total") or None,
    )
    return number


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    pieces = [
        "[image]" if mapping(block).get("type") == "image" else text_of(mapping(block).get("text"))
        for block in sequence(content)
    ]
    return "\n\n".join(filter(None, pieces))
