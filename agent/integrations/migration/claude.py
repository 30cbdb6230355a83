"""Data of Claude Code in `~/.claude` and `~/.claude.json`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent.core.config.problem import short_text
from agent.core.store.importing import SessionRecord
from agent.core.store.nodes import title_of
from agent.integrations.migration.reading import (
    Findings,
    ForeignFiles,
    ForeignNote,
    ForeignRule,
    ForeignSession,
    in_milliseconds,
    mapping,
    records,
    sequence,
    sessions_in,
    standard_servers,
    text_of,
)
from agent.integrations.migration.transcript import TranscriptBuilder, call_of, outcome_of, seconds, total
from agent.safety.permissions.subjects import RuleVerdict

HEAD = 60
"""The number of lines of a session that are read for its title and folder."""

_RULE = re.compile(r"([A-Za-z_]\w*)(?:\((.*)\))?", re.DOTALL)
_TAG = re.compile(r"<(command-name|local-command-stdout|command-message|bash-input|bash-stdout|bash-stderr)>")
_NOTES = ("[Request interrupted by user", "<task-notification>")
"""The beginnings of messages that the program wrote as the user."""
_FILES = {"Read": "read_file", "Edit": "write_file", "Write": "write_file", "MultiEdit": "write_file"}


def find_data(root: Path) -> Findings:
    """Return all data of Claude Code in `root` that can be imported. Only reads."""
    reader = ForeignFiles(root)
    settings = reader.json(root / "settings.json")
    beside = ForeignFiles(root.parent)
    state = beside.json(root.parent / ".claude.json")
    servers, left = standard_servers(in_milliseconds(mapping(state.get("mcpServers"))))
    for folder, project in mapping(state.get("projects")).items():
        if names := sorted(mapping(mapping(project).get("mcpServers"))):
            left.append(
                f"The servers {short_text(', '.join(names))} belong to {short_text(folder)} alone; "
                "put them into its .mcp.json."
            )
    rules, not_rules = _rules(mapping(settings.get("permissions")))
    if settings.get("hooks"):
        left.append("Its hooks are other events and forms; see docs/hooks.md for ours.")
    return Findings(
        agent="claude",
        root=root,
        sessions=tuple(_sessions(reader, root)),
        notes=tuple(_notes(reader, root)),
        skills=reader.skills(root / "skills"),
        servers=servers,
        rules=tuple(rules),
        left_out=(*left, *not_rules, *reader.problems, *beside.problems),
    )


def _notes(reader: ForeignFiles, root: Path) -> Iterable[ForeignNote]:
    told = root / "CLAUDE.md"
    if text := (reader.text(told) or "").strip():
        yield ForeignNote("user", text, told)
    for file in reader.files(root / "projects", "*/memory/MEMORY.md"):
        text = (reader.text(file) or "").strip()
        if text and (folder := _folder_of(reader, file.parents[1])):
            yield ForeignNote("project", text, file, folder)


def _folder_of(reader: ForeignFiles, kept: Path) -> str:
    """Return the folder in which a project's sessions ran; empty if it is not recorded."""
    for path in reader.files(kept, "*.jsonl")[:5]:
        if folder := _head(path)[1]:
            return folder
    return ""


def _sessions(reader: ForeignFiles, root: Path) -> Iterable[ForeignSession]:
    paths = [
        path for path in reader.files(root / "projects", "*/*.jsonl") if not path.stem.startswith("agent-")
    ]
    return sessions_in(reader, "claude", paths, _head, read_session)


def _head(path: Path) -> tuple[str, str, str]:
    """Return title, folder and id from the beginning of a session file. Raises `OSError` and `ValueError`."""
    title = folder = ""
    for count, line in enumerate(records(path)):
        folder = folder or str(line.get("cwd") or "")
        title = _title(line) or title
        if not title and _is_said(line) and line.get("type") == "user":
            title = title_of(words_of(mapping(line.get("message")).get("content")))
        if count >= HEAD or (title and folder):
            break
    return title, folder, path.stem


def _title(line: dict[str, Any]) -> str:
    """Return the title that a line gives the session; empty if it gives none."""
    names = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
    return text_of(line.get(names.get(str(line.get("type")), "")))


def read_session(path: Path, name: str) -> SessionRecord | None:
    """Return one session with its branches; None if it is empty. Raises `OSError` and `ValueError`."""
    transcript = TranscriptBuilder(name)
    placed: dict[str, int | None] = {}
    """The node made of each line, by the line's uuid."""
    whole: dict[str, int] = {}
    """The nodes of the model's messages by message id: each block of a message is a separate line."""
    kept: int | None = None
    """The first node that the last compaction kept."""
    spent: Any = None
    copied = False
    for line in records(path, transcript.left):
        kind, said = line.get("type"), mapping(line.get("message"))
        transcript.describe(workspace=str(line.get("cwd") or ""))
        transcript.rename(_title(line))
        copied = copied or _is_copy(line)
        if kind == "cost-state":
            spent = line.get("totalCostUSD")
        if kind == "system" and line.get("subtype") == "compact_boundary":
            segment = mapping(mapping(line.get("compactMetadata")).get("preservedSegment"))
            kept = placed.get(str(segment.get("headUuid")))
        # Going back to the first message begins a second time, with nothing before it.
        begins = kind == "user" and line.get("parentUuid", "") is None and not line.get("isCompactSummary")
        former = line.get("parentUuid") or line.get("logicalParentUuid")
        parent = 0 if begins and not former else placed.get(str(former))
        at = parent
        if line.get("isCompactSummary") and _is_said(line):
            at = transcript.compaction(
                words_of(said.get("content")), seconds(line.get("timestamp")), parent, kept
            )
            kept = None
        elif _is_said(line):
            at = _add(transcript, line, said, parent, whole)
        elif line.get("isSidechain"):
            transcript.left["line of an agent"] += 1
        if isinstance(uuid := line.get("uuid"), str):
            placed[uuid] = at
    # The total of a fork includes that of the session it was copied from.
    transcript.add_cost(None if copied else spent)
    return transcript.build()


def _is_copy(line: dict[str, Any]) -> bool:
    """Return whether a line was copied from another session, as forks do; its tokens are counted there."""
    return bool(line.get("requestSessionId") or line.get("forkedFrom"))


def _is_said(line: dict[str, Any]) -> bool:
    """Return whether a line is part of the conversation itself."""
    return (
        line.get("type") in ("user", "assistant") and not line.get("isSidechain") and not line.get("isMeta")
    )


def _add(
    transcript: TranscriptBuilder,
    line: dict[str, Any],
    said: dict[str, Any],
    parent: int | None,
    whole: dict[str, int],
) -> int | None:
    created, content = seconds(line.get("timestamp")), said.get("content")
    text = words_of(content)
    if line.get("type") == "assistant":
        model = str(said.get("model") or "")
        if line.get("isApiErrorMessage") or model == "<synthetic>":
            return transcript.notice(text, created, parent) if text.strip() else parent
        blocks = [mapping(block) for block in sequence(content)]
        thought = "\n\n".join(
            str(block.get("thinking") or "") for block in blocks if block.get("type") == "thinking"
        )
        calls = [
            call_of(block.get("id"), block.get("name"), block.get("input"))
            for block in blocks
            if block.get("type") == "tool_use"
        ]
        id = str(said.get("id") or "")
        if id and id in whole:
            number = whole[id]
            transcript.extend(number, text, calls=calls, reasoning=thought)
        else:
            number = transcript.assistant(text, created, parent, calls=calls, reasoning=thought, model=model)
            whole[id] = number
        if not _is_copy(line):
            used = mapping(said.get("usage"))
            cached, written = used.get("cache_read_input_tokens"), used.get("cache_creation_input_tokens")
            transcript.spend(
                number,
                input=total(used.get("input_tokens"), cached, written),
                output=used.get("output_tokens"),
                cached=cached,
                written=written,
            )
        return max(number, parent or 0)
    at = parent
    denied = line.get("toolDenialKind")
    stopped = mapping(line.get("toolUseResult")).get("interrupted") is True
    for block in sequence(content):
        if mapping(block).get("type") == "tool_result":
            status = "interrupted" if stopped else denied or ("error" if block.get("is_error") else "")
            result = words_of(block.get("content"))
            call = str(block.get("tool_use_id"))
            at = transcript.result(call, result, created, at, outcome=outcome_of(status))
    if not text.strip() or _TAG.match(text.lstrip()):
        return at
    if text.lstrip().startswith(_NOTES):
        return transcript.notice(text, created, at, to_model=True)
    return transcript.user(text, created, at)


def words_of(content: Any) -> str:
    """Return the text of a message or result. Images are only mentioned."""
    if isinstance(content, str):
        return content
    pieces = []
    for block in sequence(content):
        match mapping(block).get("type"):
            case "text":
                pieces.append(text_of(block.get("text")))
            case "image":
                pieces.append("[image]")
    return "\n\n".join(filter(None, pieces))


# Permissions


def _rules(permissions: dict[str, Any]) -> tuple[list[ForeignRule], list[str]]:
    """Return the translated permission rules, and a sentence for each rule that cannot be translated."""
    rules, left = [], []
    verdicts: tuple[RuleVerdict, ...] = ("allow", "ask", "deny")
    for verdict in verdicts:
        for text in sequence(permissions.get(verdict)):
            if not isinstance(text, str):
                continue
            if rule := translate_rule(text, verdict):
                rules.append(ForeignRule(rule, verdict, text))
            else:
                left.append(f"The rule {verdict} {short_text(text)} has no counterpart here.")
    return rules, left


def translate_rule(text: str, verdict: RuleVerdict) -> str:
    """Return a permission rule of Claude Code in the form of Hermes.

    The result is empty if that is not possible, or if the translation would allow more than the original.
    """
    found = _RULE.fullmatch(text.strip())
    if found is None:
        return ""
    tool, pattern = found[1], (found[2] or "").strip()
    if tool.startswith("mcp__"):
        server, _, name = tool.removeprefix("mcp__").partition("__")
        return f"mcp({server}/{name or '*'})"
    if not pattern or pattern in ("*", "**"):
        whole = {"Bash": "terminal", "WebFetch": "fetch", **_FILES}.get(tool, "")
        return whole if verdict != "allow" else ""
    if tool == "Bash":
        words = pattern.removesuffix(":*").strip()
        more = " *" if pattern.endswith(":*") else ""
        return f"terminal({words}{more})" if words and "(" not in words and ")" not in words else ""
    if tool in _FILES:
        path = pattern.removeprefix("./")
        path = path[1:] if path.startswith("//") else path
        return f"{_FILES[tool]}({path})"
    if tool == "WebFetch" and pattern.startswith("domain:"):
        return f"fetch(https://{pattern.removeprefix('domain:').strip()}/**)"
    return ""
