"""Data of Codex in `~/.codex`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
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
    codex_servers,
    mapping,
    records,
    sequence,
    sessions_in,
    text_of,
)
from agent.integrations.migration.transcript import (
    Outcome,
    TranscriptBuilder,
    call_of,
    object_in,
    outcome_of,
    seconds,
)

HEAD = 40

_OWN = (
    "<user_instructions>",
    "<environment_context>",
    "<permissions",
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
)
"""The beginnings of messages that the program wrote as the user."""


def find_data(root: Path) -> Findings:
    """Return all data of Codex in `root` that can be imported. Only reads."""
    reader = ForeignFiles(root)
    config = reader.toml(root / "config.toml")
    servers, left = codex_servers(mapping(config.get("mcp_servers")))
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
    paths = [
        path
        for folder in ("sessions", "archived_sessions")
        for path in reader.files(root / folder, "**/rollout-*.jsonl")
    ]
    by_id = {path.stem[-36:]: path for path in paths if reader.is_inside(path)}
    return sessions_in(reader, "codex", paths, _head, partial(read_session, others=by_id))


def _head(path: Path) -> tuple[str, str, str]:
    """Return title, folder and id from the beginning of a session file. Raises `OSError` and `ValueError`."""
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


Line = dict[str, Any]


def read_session(path: Path, name: str, others: Mapping[str, Path] | None = None) -> SessionRecord | None:
    """Return one session; None if it is empty. Raises `OSError` and `ValueError`.

    `others` are the files of all sessions by id: a fork contains only what came after it, and names the
    session with the beginning.
    """
    transcript = TranscriptBuilder(name)
    lines = _whole(path, others or {}, transcript, set())
    _Reading(transcript).run(lines)
    return transcript.build()


def _whole(
    path: Path, others: Mapping[str, Path], transcript: TranscriptBuilder, seen: set[Path]
) -> Iterator[Line]:
    """Yield the lines of a session, those before a fork first."""
    seen.add(path)
    for number, line in enumerate(records(path, transcript.left)):
        kind, item = _item(line)
        base = mapping(item.get("history_base"))
        if number == 0 and kind == "session_meta":
            transcript.begins = transcript.begins or seconds(item.get("timestamp") or line.get("timestamp"))
            yield line
        if number == 0 and base:
            other = others.get(str(base.get("thread_id")))
            end = base.get("end_ordinal_exclusive")
            if other is None or other in seen or not other.is_file():
                transcript.left["beginning, which stands in a session that is gone"] += 1
            else:
                before = _whole(other, others, transcript, seen)
                for at, each in enumerate(before):
                    ordinal = each.get("ordinal", at)
                    if isinstance(end, int) and isinstance(ordinal, int) and ordinal >= end:
                        break
                    yield each
        if number or kind != "session_meta":
            yield line


_ENDED = re.compile(r"(?:Chunk ID: .*\n)?Wall time: .*\n(?:Process exited with code (-?\d+)|aborted by user)")


class _Reading:
    """One pass over the lines of a session."""

    def __init__(self, transcript: TranscriptBuilder) -> None:
        self._transcript = transcript
        self._model = ""
        self._asked: int | None = None
        """The node of the model's message to which calls are added."""
        self._spent: int | None = None
        """The node of the model's latest message."""
        self._thought = ""
        self._turns: dict[str, int] = {}
        """The node before each turn, to go back there."""

    def run(self, lines: Iterable[Line]) -> None:
        """Add the content of the lines to the transcript."""
        for line in lines:
            kind, item = _item(line)
            created = seconds(line.get("timestamp"))
            if kind == "session_meta":
                self._transcript.describe(workspace=str(item.get("cwd") or ""))
            elif kind == "turn_context":
                self._model = str(item.get("model") or self._model)
            elif kind == "compacted":
                self._compact(item, created)
            elif kind == "event_msg":
                self._event(item)
            elif kind == "response_item":
                self._add(item, created)

    def _compact(self, item: Line, created: float) -> None:
        history = [mapping(each) for each in sequence(item.get("replacement_history"))]
        kept = [_person_text(each) for each in history if each.get("role") == "user"]
        summary = text_of(item.get("message"))
        said = [each for each in kept if each and each.strip() not in summary]
        self._transcript.compaction("\n\n".join([*said, summary]), created)
        self._asked = None

    def _event(self, item: Line) -> None:
        done = mapping(item.get("item"))
        match item.get("type"):
            case "item_completed" if done.get("type") == "CommandExecution":
                code = done.get("exit_code", done.get("exitCode"))
                outcome = outcome_of(done.get("status"), code)
                if outcome != "done":
                    self._transcript.judge(str(done.get("id")), outcome)
            case "exec_command_end":
                if outcome_of("", item.get("exit_code")) == "failed":
                    self._transcript.judge(str(item.get("call_id")), "failed")
            case "token_count":
                used = mapping(mapping(item.get("info")).get("last_token_usage"))
                self._transcript.spend(
                    self._spent,
                    input=used.get("input_tokens"),
                    output=used.get("output_tokens"),
                    cached=used.get("cached_input_tokens"),
                    reasoning=used.get("reasoning_output_tokens"),
                )
            case "thread_rolled_back":
                self._go_back(item.get("num_turns"))
            case "thread_name_updated":
                self._transcript.rename(text_of(item.get("thread_name")))

    def _go_back(self, turns: Any) -> None:
        """Continue from before the user's last `turns` messages, as after a rewind."""
        if isinstance(turns, int) and 0 < turns <= len(self._turns):
            starts = list(self._turns.items())
            self._transcript.go_to(starts[-turns][1])
            self._turns = dict(starts[:-turns])
            self._asked = None

    def _add(self, item: Line, created: float) -> None:
        transcript = self._transcript
        match item.get("type"):
            case "message" if item.get("role") == "user":
                text = _text(item)
                if text.lstrip().startswith("<turn_aborted>"):
                    transcript.notice(text, created, to_model=True)
                elif words := _person_text(item):
                    self._turns[str(len(self._turns))] = transcript.here
                    transcript.user(words, created)
                self._asked = None
            case "message" if item.get("role") == "assistant":
                self._begin(created, _text(item))
            case "reasoning":
                pieces = [text_of(mapping(each).get("text")) for each in sequence(item.get("summary"))]
                self._thought = "\n\n".join(filter(None, (self._thought, *pieces)))
            case "function_call" | "custom_tool_call" | "local_shell_call":
                arguments = item.get("arguments", item.get("input", item.get("action")))
                call = call_of(item.get("call_id"), item.get("name") or "shell", arguments)
                transcript.extend(self._asked or self._begin(created), calls=[call])
            case "function_call_output" | "custom_tool_call_output":
                text, outcome = _output(item.get("output"))
                transcript.result(str(item.get("call_id")), text, created, outcome=outcome)
                # What follows is another answer of the model.
                self._asked = None

    def _begin(self, created: float, text: str = "") -> int:
        number = self._transcript.assistant(text, created, reasoning=self._thought, model=self._model)
        self._asked = self._spent = number
        self._thought = ""
        return number


def _item(line: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the kind and content of a line. Older files have only the content."""
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


def _output(value: Any) -> tuple[str, Outcome]:
    """Return a call's output as text, and its outcome. In some versions the output is an object or blocks."""
    if isinstance(value, dict):
        failed = value.get("success") is False
        return text_of(value.get("content", value)), "failed" if failed else "done"
    if isinstance(value, list):
        pieces = [text_of(mapping(each).get("text")) for each in value]
        images = sum(mapping(each).get("type") == "input_image" for each in value)
        text = "\n\n".join(filter(None, [*pieces, *["[image]"] * images]))
    else:
        text = text_of(value)
    if found := _ENDED.match(text):
        return text, "interrupted" if found[1] is None else outcome_of("", int(found[1]))
    if text.startswith(("aborted by user", "rejected by user", "exec command rejected")):
        return text, "interrupted" if text.startswith("aborted") else "denied"
    if text.startswith('{"output"'):
        return text, outcome_of("", mapping(object_in(text).get("metadata")).get("exit_code"))
    return text, "done"
