"""Data of Gemini CLI in `~/.gemini`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.core.store.importing import SessionRecord
from agent.core.store.nodes import title_of
from agent.integrations.migration.parts import add_results, result_of, words_of
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
from agent.integrations.migration.transcript import TranscriptBuilder, call_of, seconds

HEAD = 40
"""The number of lines of a session that are read for its title."""


def find_data(root: Path) -> Findings:
    """Return all data of Gemini CLI in `root` that can be imported. Only reads."""
    reader = ForeignFiles(root)
    settings = reader.json(root / "settings.json")
    servers, left = standard_servers(in_milliseconds(mapping(settings.get("mcpServers"))))
    if settings.get("hooks"):
        left.append("Its hooks are other events and forms; see docs/hooks.md for ours.")
    paths = [
        *reader.files(root / "tmp", "*/chats/session-*.json"),
        *reader.files(root / "tmp", "*/chats/session-*.jsonl"),
    ]
    # Each resume leaves another file with the id of the session, which holds next to nothing.
    by_size = sorted((path for path in paths if reader.is_inside(path)), key=lambda path: path.stat().st_size)
    found = {each.id: each for each in sessions_in(reader, "gemini", by_size, _head, read_session)}
    sessions = tuple(sorted(found.values(), key=lambda each: each.updated))
    return findings_of("gemini", reader, root, root / "GEMINI.md", sessions, servers, left)


def _workspace(path: Path) -> str:
    """Return the folder in which the sessions next to this one ran; empty if it is not recorded."""
    mark = path.parents[1] / ".project_root"
    if mark.is_symlink() or not mark.is_file():
        return ""
    with mark.open(encoding="utf-8", errors="replace") as lines:
        return lines.read(4_096).strip()


def _lines(path: Path, transcript: TranscriptBuilder | None = None) -> Iterator[dict[str, Any]]:
    """Yield the records of a session; the single object of an older file is split into such records."""
    for line in records(path, transcript.left if transcript else None):
        messages = sequence(line.get("messages"))
        yield {name: value for name, value in line.items() if name != "messages"}
        yield from map(mapping, messages)


def _head(path: Path) -> tuple[str, str, str]:
    title = id = ""
    for count, line in enumerate(_lines(path)):
        id = id or text_of(line.get("sessionId"))
        change = mapping(line.get("$set"))
        title = text_of(change.get("summary") or line.get("summary")) or title
        for each in (line, *map(mapping, sequence(change.get("messages")))):
            if not title and each.get("type") == "user":
                title = title_of(words_of(each.get("content")))
        if count >= HEAD:
            break
    return title, _workspace(path), id


def read_session(path: Path, name: str) -> SessionRecord | None:
    """Return one session; None if it is empty. Rewound messages remain as a branch.

    Raises `OSError` and `ValueError`.
    """
    transcript = TranscriptBuilder(name)
    transcript.describe(workspace=_workspace(path))
    messages: dict[str, dict[str, Any]] = {}
    """All messages that were ever in the session, in their latest form, by id."""
    parents: dict[str, str] = {}
    order: list[str] = []
    """The ids of the messages of the current branch."""
    folds: dict[str, list[str]] = {}
    """The messages that a compaction kept of the branch, by the first message after it."""

    def add(message: dict[str, Any]) -> None:
        id = text_of(message.get("id")) or f"line {len(messages)}"
        if messages.get(id, message).get("type") != message.get("type"):
            # After a resume, the results of an answer stand there once more, under its id.
            return
        if (before := messages.get(id, {})).get("toolCalls") and not message.get("toolCalls"):
            message = {**message, "toolCalls": before["toolCalls"]}
        if id not in messages:
            parents[id] = order[-1] if order else ""
        if id not in order:
            order.append(id)
        messages[id] = message

    for line in _lines(path, transcript):
        change = mapping(line.get("$set"))
        transcript.rename(text_of(change.get("summary") or line.get("summary")))
        if "type" in line:
            add(line)
        elif isinstance(target := line.get("$rewindTo"), str):
            del order[order.index(target) if target in order else 0 :]
        elif isinstance(changed := change.get("messages"), list):
            answered = {call for message in messages.values() for call in _answered(message)}
            # After a resume, the results of an answer stand there once more, under ids of their own.
            changed = [
                each
                for each in map(mapping, changed)
                if text_of(each.get("id")) in messages or not answered.issuperset(_answered(each) or ("",))
            ]
            now = [text_of(each.get("id")) for each in changed]
            gone = [id for id in order if id not in now]
            fresh = [id for id in now if id not in messages]
            if gone and fresh:
                folds[fresh[0]] = [id for id in order if id in now]
            elif gone:
                order = [id for id in order if id in now]
            for each in changed:
                add(each)
    places = {"": 0}
    for id, message in messages.items():
        places[id] = _add(transcript, message, places.get(parents[id], 0), id in folds, folds.get(id), places)
    if order:
        transcript.go_to(places[order[-1]])
    return transcript.build()


def _answered(message: Mapping[str, Any]) -> set[str]:
    """Return the ids of the calls whose results are in a message with the role of the user."""
    parts = map(mapping, sequence(message.get("content")))
    return {
        text_of(mapping(part["functionResponse"]).get("id")) for part in parts if "functionResponse" in part
    }


def _add(
    transcript: TranscriptBuilder,
    message: dict[str, Any],
    parent: int,
    folded: bool,
    kept: list[str] | None,
    places: dict[str, int],
) -> int:
    """Add a message after the node `parent`; return the node that the next messages follow."""
    created, content = seconds(message.get("timestamp")), message.get("content")
    match message.get("type"):
        case "user" if folded:
            start = min((places[id] for id in kept or () if id in places), default=None)
            return transcript.compaction(words_of(content), created, parent, start)
        case "user":
            at = add_results(transcript, content, created, parent)
            return transcript.user(words_of(content), created, at) or at
        case "gemini":
            return _answer(transcript, message, created, parent)
        case "info" | "warning" | "error":
            return transcript.notice(words_of(content), created, parent)
        case other:
            transcript.left[f"entry of the kind {str(other)[:40]}"] += 1
    return parent


def _answer(transcript: TranscriptBuilder, message: dict[str, Any], created: float, parent: int) -> int:
    tools = [mapping(call) for call in sequence(message.get("toolCalls"))]
    calls = [call_of(call.get("id"), call.get("name"), call.get("args")) for call in tools]
    thought = "\n\n".join(
        ": ".join(filter(None, (text_of(each.get("subject")), text_of(each.get("description")))))
        for each in map(mapping, sequence(message.get("thoughts")))
    )
    at = transcript.assistant(
        words_of(message.get("content")),
        created,
        parent,
        calls=calls,
        reasoning=thought,
        model=text_of(message.get("model")),
    )
    used = mapping(message.get("tokens"))
    transcript.spend(
        at,
        input=used.get("input"),
        output=used.get("output"),
        cached=used.get("cached"),
        reasoning=used.get("thoughts"),
    )
    for call in tools:
        answers = [mapping(mapping(part).get("functionResponse")) for part in sequence(call.get("result"))]
        response = next((each.get("response") for each in answers if each), None)
        status = text_of(call.get("status"))
        if response is None and status in ("", "executing", "scheduled", "awaiting_approval", "validating"):
            continue
        text, outcome = result_of(response if response is not None else call.get("resultDisplay"), status)
        ended = seconds(call.get("timestamp")) or created
        at = transcript.result(str(call.get("id")), text, ended, at, outcome=outcome) or at
    return at
