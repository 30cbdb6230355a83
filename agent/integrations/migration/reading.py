"""Safe reading of other programs' files: limited in size, within their folder, without tracebacks.

Each unreadable file adds a sentence to `ForeignFiles.problems` and counts as missing.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from agent.core.config.problem import short_text
from agent.core.store.importing import SessionRecord
from agent.safety.permissions.subjects import RuleVerdict

LARGEST = 4_000_000
"""The maximum size of a settings file, in bytes."""
LARGEST_SESSION = 512_000_000
LONGEST_LINE = 64_000_000
MOST = 20_000
"""The maximum number of files read of one folder."""

_COMMENTS = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')


class ForeignFiles:
    """The files below one folder. Links that lead out of it are ignored."""

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

    def is_inside(self, path: Path) -> bool:
        """Return whether this is a plain file of the folder; if not, add a sentence to `problems`."""
        try:
            if path.is_file() and path.resolve().is_relative_to(self.root):
                return True
        except OSError as error:
            self.unreadable(path, error)
            return False
        self.problems.append(
            f"{self._short_path(path)} is not a plain file of the folder and was left alone."
        )
        return False

    def unreadable(self, path: Path, error: Exception) -> None:
        """Record that a file cannot be read, and why."""
        reason = getattr(error, "strerror", None) or error
        self.problems.append(f"{self._short_path(path)} cannot be read: {short_text(str(reason), 120)}.")

    def json(self, path: Path, largest: int = LARGEST) -> dict[str, Any]:
        """Return a JSON object, which may have comments and trailing commas; empty if missing or invalid."""
        text = self.text(path, largest)
        if text is None:
            return {}
        try:
            found = _parse_json(text)
        except (ValueError, RecursionError) as error:
            self.problems.append(f"{self._short_path(path)} is not JSON ({short_text(str(error))}).")
            return {}
        return found if isinstance(found, dict) else {}

    def toml(self, path: Path) -> dict[str, Any]:
        """Return a TOML table; empty if it is missing or invalid."""
        text = self.text(path)
        if text is None:
            return {}
        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            self.problems.append(f"{self._short_path(path)} is not TOML ({short_text(str(error))}).")
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
        """Return the folders below `folders` that contain a skill, each once."""
        found = [file.parent for folder in folders for file in self.files(folder, "**/SKILL.md")]
        inside = [path for path in found if path.resolve().is_relative_to(self.root)]
        return tuple(dict.fromkeys(inside))


def _parse_json(text: str) -> Any:
    """Return the data in JSON that may have comments. Raises `ValueError` and `RecursionError`."""
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(without_comments(text))


def without_comments(text: str) -> str:
    """Return JSON without the comments and trailing commas that some programs allow in it."""
    plain = _COMMENTS.sub(lambda found: found[1] or " ", text)
    return _TRAILING.sub(lambda found: found[1] or "", plain)


def records(path: Path, left: Counter[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the objects in a file of JSON lines; other lines are skipped, and counted in `left`.

    Raises `OSError` and `ValueError`.
    """
    if path.stat().st_size > LARGEST_SESSION:
        raise ValueError(f"it is larger than {LARGEST_SESSION // 1_000_000} MB")
    skipped = Counter[str]() if left is None else left
    with path.open("rb") as lines:
        while line := lines.readline(LONGEST_LINE):
            whole = line.endswith(b"\n")
            if not whole and len(line) == LONGEST_LINE:
                while (rest := lines.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                    pass
                skipped[f"line of more than {LONGEST_LINE // 1_000_000} MB"] += 1
                continue
            try:
                found = json.loads(line.decode("utf-8", "replace"))
            except (ValueError, RecursionError):
                if line.strip():
                    skipped["line that is not JSON" if whole else "unfinished last line"] += 1
                continue
            if isinstance(found, dict):
                yield found


def sessions_in(
    reader: ForeignFiles,
    agent: str,
    paths: Iterable[Path],
    head: Callable[[Path], tuple[str, str, str]],
    read: Callable[[Path, str], SessionRecord | None],
) -> Iterator[ForeignSession]:
    """Yield the sessions of an agent that stores each in a file.

    `head` returns title, folder and id (empty: the file's name); both functions may raise `OSError` and
    `ValueError`. Files that cannot be read are named in `reader.problems`.
    """
    for path in paths:
        if not reader.is_inside(path):
            continue
        try:
            title, folder, id = head(path)
            updated = path.stat().st_mtime
        except (OSError, ValueError) as error:
            reader.unreadable(path, error)
            continue
        name = f"{agent}-{id or path.stem}"
        yield ForeignSession(name, title or path.stem, folder, updated, partial(read, path, name))


def database(path: Path) -> sqlite3.Connection:
    """Open a database read-only. Raises `sqlite3.Error`."""
    # Without a log beside it nobody writes, and then not even a lock is taken.
    alone = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro{alone}", uri=True, timeout=5)


def text_of(value: Any) -> str:
    """Return a value as text: text unchanged, None as an empty text, anything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, otherwise an empty object."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """Return the value if it is a list, otherwise an empty list."""
    return value if isinstance(value, list) else []


Part = Literal["sessions", "memory", "skills", "servers", "permissions"]
PARTS: tuple[Part, ...] = ("sessions", "memory", "skills", "servers", "permissions")


@dataclass(frozen=True, slots=True)
class ForeignSession:
    """A session of another agent that can be read."""

    id: str
    """Its id in Hermes, always the same, so that it is imported only once."""
    title: str
    workspace: str
    updated: float
    """The time of its last change, in seconds since the epoch."""
    read: Callable[[], SessionRecord | None]
    """A function that reads the session; None if it is empty. Blocks; raises `OSError` or `ValueError`."""


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
    """A permission rule of another agent, converted to Hermes's format."""

    rule: str
    verdict: RuleVerdict
    original: str
    """The rule in the other agent's format."""


@dataclass(frozen=True, slots=True)
class Findings:
    """All data found for one agent."""

    agent: str
    root: Path
    sessions: tuple[ForeignSession, ...] = ()
    notes: tuple[ForeignNote, ...] = ()
    skills: tuple[Path, ...] = ()
    """Folders with a SKILL.md."""
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """MCP servers by name, in the form of the setting `mcp_servers`."""
    rules: tuple[ForeignRule, ...] = ()
    left_out: tuple[str, ...] = ()
    """A sentence for each thing that cannot be imported."""

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


def findings_of(
    agent: str,
    reader: ForeignFiles,
    root: Path,
    notes: Path,
    sessions: Sequence[ForeignSession],
    servers: Servers | None = None,
    left: Sequence[str] = (),
) -> Findings:
    """Return the findings for an agent that stores skills in `root` and the user's notes in one file."""
    text = (reader.text(notes) or "").strip()
    return Findings(
        agent=agent,
        root=root,
        sessions=tuple(sessions),
        notes=(ForeignNote("user", text, notes),) if text else (),
        skills=reader.skills(root / "skills"),
        servers=servers or {},
        left_out=(*left, *reader.problems),
    )


def standard_servers(given: Mapping[str, Any]) -> tuple[Servers, list[str]]:
    """Return MCP servers given in the usual form: `command`, `args`, `env`, or `url`, `headers`.

    The second list has a sentence for each that cannot be used and for each key without a counterpart.
    """
    found: Servers = {}
    left: list[str] = []
    for name, each in given.items():
        entry = mapping(each)
        server = _server(entry)
        if server is None or not _is_name(name):
            left.append(f"The server {short_text(name)} has neither a command nor an address.")
            continue
        found[name] = server
        unknown = sorted(str(key) for key, value in entry.items() if key not in _KNOWN and value)
        if unknown:
            keys = short_text(", ".join(unknown), 120)
            left.append(f"What the server {name} says under {keys} has no counterpart here.")
    return found, left


_KNOWN = frozenset(
    {
        *("command", "args", "env", "env_passthrough", "cwd", "url", "serverUrl", "httpUrl", "type"),
        *("transport", "headers", "http_headers", "oauth", "enabled", "disabled", "timeout"),
        *("connect_timeout", "include", "exclude", "includeTools", "excludeTools"),
    }
)
"""Keys of a server that are imported."""


def _server(each: Mapping[str, Any]) -> dict[str, Any] | None:
    switched = {"enabled": False} if each.get("enabled") is False or each.get("disabled") is True else {}
    tools = {
        **_optional_field("include", _words(each.get("include") or each.get("includeTools"))),
        **_optional_field("exclude", _words(each.get("exclude") or each.get("excludeTools"))),
        **_seconds_field("timeout", each.get("timeout"), 3_600),
        **_seconds_field("connect_timeout", each.get("connect_timeout"), 600),
    }
    if isinstance(command := each.get("command"), str) and command.strip():
        return {
            "command": command,
            **_optional_field("args", [str(word) for word in sequence(each.get("args"))]),
            **_optional_field("env", _texts(each.get("env"))),
            **_optional_field("env_passthrough", _words(each.get("env_passthrough"))),
            **_optional_field("cwd", each.get("cwd") if isinstance(each.get("cwd"), str) else ""),
            **tools,
            **switched,
        }
    url = each.get("url") or each.get("serverUrl") or each.get("httpUrl")
    if isinstance(url, str) and url.startswith(("http://", "https://")):
        kind = "sse" if (each.get("type") or each.get("transport")) == "sse" else "http"
        headers = _texts(each.get("headers") or each.get("http_headers"))
        oauth = mapping(each.get("oauth"))
        ours = {
            **_optional_field("client_id", text_of(oauth.get("clientId") or oauth.get("client_id"))),
            **_optional_field("scopes", _scopes(oauth.get("scopes", oauth.get("scope")))),
        }
        return {
            "url": url,
            "transport": kind,
            **_optional_field("headers", headers),
            **_optional_field("oauth", ours),
            **tools,
            **switched,
        }
    return None


def _words(value: Any) -> list[str]:
    return [each for each in sequence(value) if isinstance(each, str) and each.strip()]


def _scopes(value: Any) -> list[str]:
    return value.split() if isinstance(value, str) else _words(value)


def _seconds_field(name: str, value: Any, most: float) -> dict[str, Any]:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {name: min(value, most)} if is_number and value > 0 else {}


def in_milliseconds(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return servers with `timeout` converted from milliseconds to seconds."""
    changed: dict[str, Any] = {}
    for name, each in given.items():
        server = dict(mapping(each))
        if isinstance(timeout := server.get("timeout"), (int, float)):
            server["timeout"] = timeout / 1000
        changed[name] = server
    return changed


def opencode_servers(given: Mapping[str, Any]) -> tuple[Servers, list[str]]:
    """Return MCP servers given in OpenCode's form: `type: local` with a list as command, or `type: remote`.

    The second list has a sentence for each that cannot be used and for each key without a counterpart.
    """
    usual: dict[str, Any] = {}
    for name, each in in_milliseconds(given).items():
        server = mapping(each)
        words = [str(word) for word in sequence(server.get("command"))]
        usual[name] = {key: value for key, value in server.items() if key not in ("command", "environment")}
        # Its time is the one for listing the tools at the start.
        usual[name]["connect_timeout"] = usual[name].pop("timeout", None)
        if words:
            more = {"command": words[0], "args": words[1:], "env": server.get("environment")}
            usual[name].update(more)
    return standard_servers(usual)


def codex_servers(given: Mapping[str, Any]) -> tuple[Servers, list[str]]:
    """Return MCP servers given in Codex's form, with variables by name, timeouts and lists of tools.

    The second list has a sentence for each that cannot be used and for each key without a counterpart.
    """
    names = {
        "env_vars": "env_passthrough",
        "startup_timeout_sec": "connect_timeout",
        "tool_timeout_sec": "timeout",
        "enabled_tools": "include",
        "disabled_tools": "exclude",
    }
    usual: dict[str, Any] = {}
    for name, each in given.items():
        server = dict(mapping(each))
        headers = _texts(server.pop("http_headers", None))
        if isinstance(token := server.pop("bearer_token_env_var", None), str):
            headers["Authorization"] = f"Bearer ${{{token}}}"
        for header, variable in _texts(server.pop("env_http_headers", None)).items():
            headers[header] = f"${{{variable}}}"
        if isinstance(short := server.pop("startup_timeout_ms", None), (int, float)):
            server.setdefault("startup_timeout_sec", short / 1000)
        if (scopes := server.pop("scopes", None)) is not None:
            server["oauth"] = {**mapping(server.get("oauth")), "scopes": scopes}
        passed = server.get("env_vars")
        server["env_vars"] = [mapping(row).get("name", row) for row in sequence(passed)]
        usual[name] = {names.get(key, key): value for key, value in server.items()}
        usual[name]["headers"] = headers
    return standard_servers(usual)


def listed_servers(given: Any) -> tuple[Servers, list[str]]:
    """Return MCP servers given in Vibe's form (a list), and a sentence for each thing left out."""
    usual: dict[str, Any] = {}
    for each in map(mapping, sequence(given)):
        server = {key: value for key, value in each.items() if key != "name"}
        command = server.get("command")
        if isinstance(command, list) and command:
            server["command"] = str(command[0])
            server["args"] = [*map(str, command[1:]), *sequence(server.get("args"))]
        if isinstance(variable := server.pop("api_key_env", None), str) and variable:
            header = text_of(server.pop("api_key_header", None)) or "Authorization"
            form = text_of(server.pop("api_key_format", None)) or "Bearer {token}"
            value = form.replace("{token}", f"${{{variable}}}")
            server["headers"] = {**_texts(server.get("headers")), header: value}
        server["disabled_tools"] = server.get("disabled_tools")
        usual[text_of(each.get("name"))] = server
    return codex_servers(usual)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= 64 and name.isprintable() and "." not in name


def _texts(value: Any) -> dict[str, str]:
    return {
        str(key): str(each) for key, each in mapping(value).items() if isinstance(each, (str, int, float))
    }


def _optional_field(name: str, value: Any) -> dict[str, Any]:
    return {name: value} if value else {}
