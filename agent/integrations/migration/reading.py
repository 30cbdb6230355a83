"""Safe reading of other programs' files: limited in size, within their folder, without tracebacks.

Each unreadable file adds a sentence to `ForeignFiles.problems` and counts as missing.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from agent.core.config.problem import short_text
from agent.core.messages import ToolCall
from agent.core.store.importing import NodeRecord, SessionRecord
from agent.core.store.nodes import MAIN, storable
from agent.safety.permissions.rules import RuleVerdict
from tools.text.safe_text import clean

LARGEST = 4_000_000
"""Bytes of a settings file that is read."""
LARGEST_SESSION = 512_000_000
MOST = 20_000
"""Entries of one folder that are looked at."""

_COMMENTS = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')


class ForeignFiles:
    """Reads files below one folder. Links that lead out of it are ignored."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.problems: list[str] = []

    def _short_path(self, path: Path) -> str:
        """Return a path as displayed: relative to the folder."""
        return short_text(
            str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path), 120
        )

    def text(self, path: Path, largest: int = LARGEST) -> str | None:
        """Return the text of a file; None if it is missing or cannot be used."""
        try:
            if not path.is_file():
                return None
            if not path.resolve().is_relative_to(self.root):
                self.problems.append(f"{self._short_path(path)} leads out of the folder and was left alone.")
                return None
            if path.stat().st_size > largest:
                self.problems.append(f"{self._short_path(path)} is larger than {largest // 1_000_000} MB.")
                return None
            return path.read_bytes().decode("utf-8-sig", "replace").replace("\0", "")
        except OSError as error:
            self.unreadable(path, error)
            return None

    def unreadable(self, path: Path, error: Exception) -> None:
        """Record that a file cannot be read, and why."""
        reason = getattr(error, "strerror", None) or error
        self.problems.append(f"{self._short_path(path)} cannot be read: {short_text(str(reason), 120)}.")

    def json(self, path: Path) -> dict[str, Any]:
        """Read a JSON object, which may have comments and trailing commas; empty if there is none."""
        text = self.text(path)
        if text is None:
            return {}
        try:
            found = json.loads(without_comments(text))
        except (ValueError, RecursionError) as error:
            self.problems.append(f"{self._short_path(path)} is no JSON ({short_text(str(error))}).")
            return {}
        return found if isinstance(found, dict) else {}

    def toml(self, path: Path) -> dict[str, Any]:
        """Read a TOML table; empty if there is none."""
        text = self.text(path)
        if text is None:
            return {}
        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            self.problems.append(f"{self._short_path(path)} is no TOML ({short_text(str(error))}).")
            return {}

    def files(self, folder: Path, pattern: str) -> list[Path]:
        """Return the files below a folder that match a glob pattern, sorted; at most `MOST`."""
        found: list[Path] = []
        try:
            for path in folder.glob(pattern):
                found.append(path)
                if len(found) == MOST:
                    self.problems.append(
                        f"{self._short_path(folder)} has more than {MOST:,} files; others were left."
                    )
                    break
        except OSError as error:
            self.unreadable(folder, error)
        return sorted(found)

    def skills(self, *folders: Path) -> tuple[Path, ...]:
        """Return the folders below these that contain a skill, each once."""
        found = [file.parent for folder in folders for file in self.files(folder, "**/SKILL.md")]
        inside = [path for path in found if path.resolve().is_relative_to(self.root)]
        return tuple(dict.fromkeys(inside))


def without_comments(text: str) -> str:
    """Remove comments and trailing commas from JSON, which some programs allow in it."""
    plain = _COMMENTS.sub(lambda found: found[1] or " ", text)
    return _TRAILING.sub(lambda found: found[1] or "", plain)


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects in a file of JSON lines; other lines are skipped. Raises `OSError`."""
    if path.stat().st_size > LARGEST_SESSION:
        raise ValueError(f"it is larger than {LARGEST_SESSION // 1_000_000} MB")
    with path.open("r", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                yield found


def database(path: Path) -> sqlite3.Connection:
    """Open a database read-only. Raises `sqlite3.Error`."""
    # Without a log beside it nobody writes, and then not even a lock is taken.
    alone = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro{alone}", uri=True, timeout=5)


def text_of(value: Any) -> str:
    """Convert a value to text: text stays as it is, None becomes empty, anything else becomes JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


Part = Literal["sessions", "memory", "skills", "servers", "permissions"]
PARTS: tuple[Part, ...] = ("sessions", "memory", "skills", "servers", "permissions")


@dataclass(frozen=True, slots=True)
class ForeignSession:
    """A session of another agent that can be read."""

    id: str
    """Its id here, the same each time, so that it is taken over once."""
    title: str
    workspace: str
    updated: float
    """Seconds since the epoch."""
    read: Callable[[], SessionRecord | None]
    """Reads all of it; None when nothing was said in it. Blocks; raises `OSError` or `ValueError`."""


@dataclass(frozen=True, slots=True)
class ForeignNote:
    """A memory entry, or an instruction for every session."""

    scope: Literal["user", "memory", "project"]
    text: str
    source: Path
    project: str = ""
    """The folder of the project it belongs to; empty unless `scope` is `project`."""


@dataclass(frozen=True, slots=True)
class ForeignRule:
    """A permission rule, translated to our form."""

    rule: str
    verdict: RuleVerdict
    original: str
    """As the other agent writes it."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that was found of one agent."""

    agent: str
    root: Path
    sessions: tuple[ForeignSession, ...] = ()
    notes: tuple[ForeignNote, ...] = ()
    skills: tuple[Path, ...] = ()
    """Folders with a SKILL.md."""
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """MCP servers by name, as `mcp_servers` takes them."""
    rules: tuple[ForeignRule, ...] = ()
    left_out: tuple[str, ...] = ()
    """What cannot be taken over, and why; a sentence each."""

    def count(self, part: Part) -> int:
        """Return how many items of a kind were found."""
        found = {
            "sessions": self.sessions,
            "memory": self.notes,
            "skills": self.skills,
            "servers": self.servers,
            "permissions": self.rules,
        }
        return len(found[part])


Servers = dict[str, Mapping[str, Any]]


def standard_servers(given: Mapping[str, Any]) -> tuple[Servers, list[str]]:
    """Read MCP servers in the usual form: `command`, `args`, `env`, or `url`, `headers`.

    Returns the servers, and a sentence for each that cannot be used.
    """
    found: Servers = {}
    left: list[str] = []
    for name, each in given.items():
        server = _server(mapping(each))
        if server is None or not _is_name(name):
            left.append(f"The server {short_text(name)} has neither a command nor an address.")
        else:
            found[name] = server
    return found, left


def _server(each: Mapping[str, Any]) -> dict[str, Any] | None:
    switched = {"enabled": False} if each.get("enabled") is False or each.get("disabled") is True else {}
    if isinstance(command := each.get("command"), str) and command.strip():
        return {
            "command": command,
            **_optional_field("args", [str(word) for word in sequence(each.get("args"))]),
            **_optional_field("env", _texts(each.get("env"))),
            **_optional_field("cwd", each.get("cwd") if isinstance(each.get("cwd"), str) else ""),
            **switched,
        }
    url = each.get("url") or each.get("serverUrl") or each.get("httpUrl")
    if isinstance(url, str) and url.startswith(("http://", "https://")):
        kind = "sse" if (each.get("type") or each.get("transport")) == "sse" else "http"
        headers = _texts(each.get("headers") or each.get("http_headers"))
        return {"url": url, "transport": kind, **_optional_field("headers", headers), **switched}
    return None


def opencode_servers(given: Mapping[str, Any]) -> tuple[Servers, list[str]]:
    """Read MCP servers in OpenCode's form: `type: local` with the command as a list, or `type: remote`.

    Returns the servers, and a sentence for each that cannot be used.
    """
    usual: dict[str, Any] = {}
    for name, each in given.items():
        server = mapping(each)
        words = [str(word) for word in sequence(server.get("command"))]
        usual[name] = {
            **{key: server[key] for key in ("url", "headers", "enabled") if key in server},
            **({"command": words[0], "args": words[1:], "env": server.get("environment")} if words else {}),
        }
    return standard_servers(usual)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= 64 and name.isprintable() and "." not in name


def _texts(value: Any) -> dict[str, str]:
    return {
        str(key): str(each) for key, each in mapping(value).items() if isinstance(each, (str, int, float))
    }


def _optional_field(name: str, value: Any) -> dict[str, Any]:
    return {name: value} if value else {}


_LONGEST_KEY = 128


@dataclass(slots=True)
class _Draft:
    kind: str
    parent: int | None
    created: float
    text: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)


class TranscriptBuilder:
    """Builds a session from the entries of a file.

    Nodes are numbered from 1. A node without `parent` follows the last one; `parent` 0 makes it a first node.
    """

    def __init__(self, name: str) -> None:
        self._record = SessionRecord(storable(clean(name))[:200])
        self._nodes: list[_Draft] = []
        self._calls: dict[str, tuple[str, int]] = {}
        """Names of tools, and the messages that called them, by the ids of calls."""
        self._callers: dict[int, int] = {}
        """The message that called, by the nodes of results."""
        self._ends: dict[int, int] = {}
        """The last result of each message that called."""

    @property
    def last(self) -> int | None:
        """The number of the newest node."""
        return len(self._nodes) or None

    def describe(self, *, title: str = "", workspace: str = "", model: str = "") -> None:
        """Set what is known about the session as a whole. Fields that are already set stay."""
        for name, value in (("title", title), ("workspace", workspace), ("model", model)):
            if not getattr(self._record, name) and (words := " ".join(storable(clean(value)).split())[:200]):
                setattr(self._record, name, words)

    def user(self, text: str, created: float, parent: int | None = None) -> int | None:
        """Add a message of the person; return the number of its node, or of its parent if the message is
        empty.
        """
        if not text.strip():
            return self.last if parent is None else parent
        return self._add("user", text, created, {"origin": "prompt"}, parent)

    def notice(self, text: str, created: float, parent: int | None = None, *, to_model: bool = False) -> int:
        """Add an entry that is not a message, such as a summary of earlier messages; return the number of its
        node.
        """
        return self._add("notice", text, created, {"kind": "info", "to_model": to_model}, parent)

    def assistant(
        self,
        text: str,
        created: float,
        parent: int | None = None,
        *,
        calls: Sequence[ToolCall] = (),
        reasoning: str = "",
        model: str = "",
    ) -> int:
        """Add a message of the model; return the number of its node."""
        data: dict[str, Any] = {"calls": [], "reasoning": reasoning, "state": "complete"}
        if model:
            data["model"] = storable(clean(model))[:200]
            self.describe(model=model)
        number = self._add("assistant", text, created, data, parent)
        self.extend(number, calls=calls)
        return number

    def extend(
        self, number: int, text: str = "", *, calls: Sequence[ToolCall] = (), reasoning: str = ""
    ) -> None:
        """Append to a message of the model."""
        draft = self._nodes[number - 1]
        if text:
            draft.text.append(text)
        if reasoning:
            draft.data["reasoning"] = "\n\n".join(filter(None, (draft.data["reasoning"], reasoning)))
        for call in calls:
            self._calls[call.id] = call.name, number
            draft.data["calls"].append({"id": call.id, "name": call.name, "arguments": call.arguments})

    def result(
        self, call: str, text: str, created: float, parent: int | None = None, *, failed: bool = False
    ) -> int | None:
        """Add the result of a tool call; return the number of its node. A result without a call is ignored.

        With `parent`, the results of one message follow each other after it, whatever calls they belong to.
        """
        call = key(call)
        if call not in self._calls:
            return self.last if parent is None else parent
        tool, caller = self._calls[call]
        data = {"call": call, "tool": tool, "outcome": "failed" if failed else "done"}
        number = self._add("tool", text, created, data, None if parent is None else caller)
        self._callers[number], self._ends[caller] = caller, number
        return number

    def build(self) -> SessionRecord | None:
        """Return the session; None if neither person nor model wrote anything."""
        if not any(draft.kind in ("user", "assistant") for draft in self._nodes):
            return None
        before = 0.0
        for number, draft in enumerate(self._nodes, 1):
            before = draft.created or before
            content = "\n\n".join(part for part in draft.text if part)
            node = NodeRecord(number, draft.parent, draft.kind, before, content, draft.data)
            self._record.nodes.append(node)
        self._record.heads[MAIN] = len(self._nodes)
        return self._record

    def _add(self, kind: str, text: str, created: float, data: dict[str, Any], parent: int | None) -> int:
        if parent is not None:
            parent = self._ends.get(self._callers.get(parent, parent), parent)
        self._nodes.append(
            _Draft(kind, (self.last if parent is None else parent) or None, created, [text], data)
        )
        return len(self._nodes)


def key(id: str) -> str:
    """Return the id under which a call is stored."""
    return storable(clean(id))[:_LONGEST_KEY]


def call_of(id: Any, name: Any, arguments: Any) -> ToolCall:
    """Make a tool call. Its arguments are always converted to the text of a JSON object."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = {"input": arguments}
    if not isinstance(arguments, dict):
        arguments = {} if arguments is None else {"input": arguments}
    text = json.dumps(arguments, ensure_ascii=True)
    return ToolCall(key(str(id)), storable(clean(str(name)))[:_LONGEST_KEY] or "tool", text)


def seconds(value: Any) -> float:
    """Convert a time to seconds since the epoch, from ISO text, seconds or milliseconds; 0 for anything
    else.
    """
    if isinstance(value, str):
        try:
            return max(datetime.fromisoformat(value).timestamp(), 0.0)
        except (ValueError, OverflowError, OSError):
            return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return 0.0
    return max(float(value) / 1000 if value > 1e11 else float(value), 0.0) if value < 1e15 else 0.0
