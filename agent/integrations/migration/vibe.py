"""Data of Mistral Vibe in `~/.vibe`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from agent.core.store.importing import SessionRecord
from agent.core.store.nodes import title_of
from agent.integrations.migration.reading import (
    LARGEST_SESSION,
    Findings,
    ForeignFiles,
    ForeignSession,
    findings_of,
    listed_servers,
    mapping,
    records,
    sequence,
    text_of,
)
from agent.integrations.migration.transcript import (
    TranscriptBuilder,
    call_of,
    object_in,
    outcome_of,
    seconds,
)


def find_data(root: Path) -> Findings:
    """Return all data of Mistral Vibe in `root` that can be imported. Only reads."""
    reader = ForeignFiles(root)
    config = reader.toml(root / "config.toml")
    servers, left = listed_servers(config.get("mcp_servers"))
    sessions = tuple(_sessions(reader, root / "logs" / "session"))
    return findings_of("vibe", reader, root, root / "AGENTS.md", sessions, servers, left)


def _sessions(reader: ForeignFiles, kept: Path) -> Iterable[ForeignSession]:
    for path in [*reader.files(kept, "unified/*/meta.json"), *reader.files(kept, "session_*/meta.json")]:
        about = reader.json(path)
        if about.get("parent_session_id") and not about.get("title") and "unified" in path.parts:
            # The session of an agent; forks of a person have a title.
            continue
        id = text_of(about.get("session_id")) or path.parent.name
        name = f"vibe-{id}"
        folder = text_of(mapping(about.get("environment")).get("working_directory"))
        updated = seconds(about.get("end_time")) or seconds(about.get("start_time"))
        read = partial(_read, ForeignFiles(reader.root), path.parent, about, name)
        title = text_of(about.get("title")) or _preview(reader, path.parent)
        yield ForeignSession(name, title_of(title) or id, folder, updated, read)


def _preview(reader: ForeignFiles, folder: Path) -> str:
    """Return the beginning of a session's first message; empty if it cannot be read."""
    generation = text_of(reader.json(folder / "CURRENT").get("generation"))
    if not generation.isdigit():
        return ""
    state = reader.json(folder / "generations" / generation / "projection-state.json", LARGEST_SESSION)
    return text_of(mapping(mapping(state.get("snapshot")).get("session")).get("preview"))


def _read(reader: ForeignFiles, folder: Path, about: dict[str, Any], name: str) -> SessionRecord | None:
    transcript = TranscriptBuilder(name)
    config = mapping(about.get("config"))
    transcript.describe(
        title=title_of(text_of(about.get("title"))),
        workspace=text_of(mapping(about.get("environment")).get("working_directory")),
        model=text_of(config.get("model_name") or config.get("active_model")),
    )
    if (folder / "CURRENT").is_file():
        _unified(reader, folder, transcript)
    elif reader.is_inside(folder / "messages.jsonl"):
        for message in records(folder / "messages.jsonl", transcript.left):
            _old_message(transcript, message, seconds(about.get("start_time")))
    if reader.problems:
        raise ValueError(reader.problems[0])
    return transcript.build()


def _unified(reader: ForeignFiles, folder: Path, transcript: TranscriptBuilder) -> None:
    """Add the newest snapshot of a session and the journal of later entries. Raises `ValueError`."""
    generation = text_of(reader.json(folder / "CURRENT").get("generation"))
    if not generation.isdigit():
        raise ValueError("its CURRENT names no generation")
    place = folder / "generations" / generation
    manifest = reader.json(place / "manifest.json")
    times = _times(reader, folder, manifest, place)
    checkpoint = reader.json(place / "checkpoint.json")
    if checkpoint.get("compaction_count"):
        transcript.left["part of the conversation that was compacted"] += 1
    context = mapping(checkpoint.get("context"))
    held = [*sequence(context.get("messages")), *_chunks(reader, folder, manifest.get("checkpoint"))]
    for entry in map(mapping, held):
        message = mapping(entry.get("message", entry))
        content = message.get("content")
        match message.get("role"):
            case "user":
                transcript.user(_words(content), next(times, 0.0))
            case "assistant":
                _answer(transcript, sequence(content), 0.0)
            case "tool":
                text = _words(content)
                code = object_in(text).get("returncode")
                outcome = outcome_of(message.get("outcome"), code)
                transcript.result(str(message.get("tool_call_id")), text, 0.0, outcome=outcome)
    segment = Path(text_of(mapping(manifest.get("recovery_journal_segment")).get("path"))).name
    journal = folder / "journal" / segment
    if segment and journal.exists() and reader.is_inside(journal):
        for record in records(journal, transcript.left):
            given = mapping(mapping(record.get("payload")).get("input"))
            created = seconds(mapping(given.get("determinism")).get("time_unix_ms"))
            _command(transcript, mapping(given.get("command")), created)


def _chunks(reader: ForeignFiles, folder: Path, part: Any) -> Iterator[Any]:
    """Yield the entries in the chunks of one part of a snapshot, in order."""
    for name in sequence(mapping(part).get("chunks")):
        if not isinstance(name, str) or not name.isalnum():
            continue
        text = reader.text(folder / "chunks" / f"{name}.json", LARGEST_SESSION)
        # A chunk is a list; wrapped, it is read like any object.
        yield from sequence(object_in(f'{{"all": {text or "[]"}}}').get("all"))


def _times(reader: ForeignFiles, folder: Path, manifest: dict[str, Any], place: Path) -> Iterator[float]:
    """Yield the times of the user's messages, which only the displayed history records."""
    history = mapping(mapping(reader.json(place / "projection-state.json").get("snapshot")).get("history"))
    entries = [
        *sequence(history.get("entries")),
        *_chunks(reader, folder, manifest.get("projection_state")),
    ]
    for entry in map(mapping, entries):
        if entry.get("type") == "message" and entry.get("role") == "user":
            yield seconds(entry.get("createdAt"))


def _command(transcript: TranscriptBuilder, command: dict[str, Any], created: float) -> None:
    """Add the messages that one entry of the journal describes."""
    result = mapping(command.get("result"))
    match command.get("type"):
        case "user_message":
            transcript.user(_words(command.get("content")), created)
        case "completion_succeeded":
            number = _answer(transcript, sequence(result.get("parts")), created)
            used = mapping(result.get("usage"))
            transcript.spend(
                number,
                input=used.get("input_tokens"),
                output=used.get("output_tokens"),
                cached=used.get("cached_input_tokens"),
                written=used.get("cache_write_tokens"),
                reasoning=used.get("reasoning_tokens"),
            )
        case "tool_succeeded" | "tool_failed" | "tool_cancelled" as kind:
            told = result.get("structured_content")
            text = text_of(told) if told is not None else _words(result.get("content"))
            status = {"tool_failed": "error", "tool_cancelled": "cancelled"}.get(kind, result.get("type"))
            outcome = outcome_of(status, mapping(told).get("returncode"))
            text = text or text_of(result.get("message") or command.get("error"))
            transcript.result(str(command.get("call_id")), text, created, outcome=outcome)


def _answer(transcript: TranscriptBuilder, parts: list[Any], created: float) -> int:
    blocks = [mapping(part) for part in parts]
    calls = []
    for block in blocks:
        if block.get("type") == "tool_call":
            given = mapping(block.get("arguments"))
            arguments = block.get("arguments_json", given.get("value", given.get("raw")))
            calls.append(call_of(block.get("id"), block.get("name"), arguments))
    thought = "\n\n".join(
        text_of(block.get("text")) for block in blocks if block.get("type") in ("reasoning", "thinking")
    )
    return transcript.assistant(_words(blocks), created, calls=calls, reasoning=thought)


def _old_message(transcript: TranscriptBuilder, message: dict[str, Any], begun: float) -> None:
    """Add a message in the form of version 2, which is that of chat completions."""
    text = _words(message.get("content"))
    match message.get("role"):
        case "user":
            transcript.user(text, begun)
        case "assistant":
            calls = []
            for call in map(mapping, sequence(message.get("tool_calls"))):
                function = mapping(call.get("function"))
                calls.append(call_of(call.get("id"), function.get("name"), function.get("arguments")))
            thought = text_of(message.get("reasoning_content"))
            transcript.assistant(text, begun, calls=calls, reasoning=thought)
        case "tool":
            failed = text.lstrip().startswith("<tool_error>")
            outcome = outcome_of("error" if failed else "")
            transcript.result(str(message.get("tool_call_id")), text, begun, outcome=outcome)


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    pieces = []
    for block in map(mapping, sequence(content)):
        match block.get("type"):
            case "text":
                pieces.append(text_of(block.get("text")))
            case "image" | "image_url":
                pieces.append("[image]")
    return "\n\n".join(filter(None, pieces))
