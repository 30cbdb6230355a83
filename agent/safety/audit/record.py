"""Lines of the audit log made from rulings of the gate, and read back for a person."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.safety.audit.log import MENDED, AuditError, AuditLog, Record, files, parsed
from tools.results import DeniedError
from tools.services.actions import Action, ReadPath
from tools.text.redact import redact

if TYPE_CHECKING:
    from agent.safety.gate import Ruling

MAX_TEXT = 100_000
"""Characters kept of one text; of a longer one start, end and SHA-256 are kept."""


@dataclass(frozen=True, slots=True)
class AuditRecorder:
    """Takes the rulings about one agent of one session down; give it to its gate as `audit`."""

    log: AuditLog
    session: str
    surface: str
    """Where the person sits: `tui`, `plain`, `oneshot`, `json` …"""
    workspace: Path
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Exact values that are masked, by name."""
    agent: str = "main"
    """The id of the agent."""
    name: str = ""
    """What a person calls it, if it has a name."""

    async def __call__(self, ruling: Ruling) -> None:
        """Write the line; it is on the disk before anything but reading happens.

        Raises `DeniedError` when that fails: what cannot be taken down is not done.
        """
        try:
            await asyncio.to_thread(self._write, ruling)
        except AuditError as error:
            raise DeniedError(str(error), status="blocked", reasons=[], outcome="unrecorded") from error

    def _write(self, ruling: Ruling) -> None:
        harmless = isinstance(ruling.action, ReadPath) and ruling.outcome == "allowed"
        self.log.append(self._record(ruling), durable=not harmless)

    def _record(self, ruling: Ruling) -> Record:
        return {
            "time": round(time.time(), 3),
            "session": self.session,
            "agent": self.agent,
            **({"agent_name": self._text(self.name)} if self.name else {}),
            "surface": self.surface,
            "process": os.getpid(),
            "workspace": str(self.workspace),
            "tool": ruling.action.tool,
            "kind": type(ruling.action).__name__,
            "headline": self._text(ruling.action.headline()),
            "action": self._data(ruling.action),
            "verdict": ruling.verdict.kind,
            "reasons": [self._text(reason) for reason in ruling.verdict.reasons],
            "judge": ruling.judge,
            "outcome": ruling.outcome,
            "grant": ruling.grant,
            "feedback": self._text(ruling.feedback),
            **({"by": self._text(ruling.by)} if ruling.by else {}),
            **({"advice": self._text(ruling.verdict.advice)} if ruling.verdict.advice else {}),
        }

    def _data(self, action: Action) -> dict[str, Any]:
        found = {each.name: getattr(action, each.name) for each in dataclasses.fields(action)}
        plain = (bool, int, float, type(None))
        return {
            name: value if isinstance(value, plain) else self._text(str(value))
            for name, value in found.items()
            if name != "tool"
        }

    def _text(self, text: str) -> str:
        """Without secrets, and never so long that the log could not be read."""
        masked = redact(text, self.secrets)
        if len(masked) <= MAX_TEXT:
            return masked
        sum = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        half = MAX_TEXT // 2
        left = len(masked) - 2 * half
        return f"{masked[:half]}\n[… {left:,} characters left out, SHA-256 of all: {sum} …]\n{masked[-half:]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One line of the log. All texts are outside text."""

    seq: int
    time: float
    """Seconds since the epoch."""
    session: str = ""
    agent: str = ""
    agent_name: str = ""
    surface: str = ""
    tool: str = ""
    kind: str = ""
    headline: str = ""
    verdict: str = ""
    reasons: tuple[str, ...] = ()
    judge: str = ""
    outcome: str = ""
    feedback: str = ""
    record: Record = dataclasses.field(default_factory=dict, repr=False)
    """The whole line."""


def asker(entry: AuditEntry) -> str:
    """What a person calls the agent of an entry; empty for the session's own. Outside text. Pure."""
    return "" if entry.agent in ("", "main") else called(entry.agent, entry.agent_name)


def called(agent: str, name: str) -> str:
    """An agent by its name, if it has one, and its id. Pure."""
    return f"{name} ({agent})" if name else agent


def entry(record: Record) -> AuditEntry:
    """What a parsed line says; missing or odd fields become empty."""

    def text(name: str) -> str:
        value = record.get(name, "")
        return value if isinstance(value, str) else str(value)

    moment = record.get("time")
    reasons = record.get("reasons")
    headline = text("headline")
    if record.get("kind") == MENDED:
        headline = f"the line before was torn by a crash ({record.get('torn')} bytes)"
    return AuditEntry(
        seq=record["seq"],
        time=float(moment) if isinstance(moment, int | float) else 0.0,
        reasons=tuple(map(str, reasons)) if isinstance(reasons, list) else (),
        record=record,
        headline=headline,
        **{name: text(name) for name in _TEXTS},
    )


_TEXTS = (
    *("session", "agent", "agent_name", "surface", "tool"),
    *("kind", "verdict", "judge", "outcome", "feedback"),
)


def newest(
    folder: Path, limit: int, wanted: Callable[[AuditEntry], bool] = lambda _entry: True
) -> list[AuditEntry]:
    """The last `limit` entries that are wanted, oldest first. Blocking. Raises `AuditError`."""
    found: deque[AuditEntry] = deque()
    for path in reversed(files(folder)):
        if len(found) >= limit:
            break
        here = deque((each for each in _entries(path) if wanted(each)), maxlen=limit - len(found))
        found.extendleft(reversed(here))
    return list(found)


def _entries(path: Path) -> Iterator[AuditEntry]:
    try:
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n") and (record := parsed(line)) is not None:
                    yield entry(record)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> AuditError:
    return AuditError(
        f"The audit log {path} cannot be read: {error.strerror or error}; check its permissions."
    )


class AuditTail:
    """Follows the log through its files. Blocking; use it in a thread."""

    def __init__(self, folder: Path, kept: int) -> None:
        self._folder = folder
        self._kept = kept
        self._file: Path | None = None
        self._offset = 0

    def read(self) -> list[AuditEntry]:
        """What came since the last time; the first time, the last `kept` entries. Raises `AuditError`."""
        names = files(self._folder)
        if self._file is None:
            if not names:
                return []
            # What comes in between is read now or later, never twice.
            self._file, self._offset = names[-1], 0
            older = _last_of(names[:-1], self._kept)
            return (older + self._more())[-self._kept :]
        found = self._more()
        for path in names[names.index(self._file) + 1 :] if self._file in names else names:
            self._file, self._offset = path, 0
            found += self._more()
        return found

    def _more(self) -> list[AuditEntry]:
        assert self._file is not None
        try:
            with self._file.open("rb") as file:
                file.seek(self._offset)
                whole, newline, _ = file.read().rpartition(b"\n")
        except OSError as error:
            raise _unreadable(self._file, error) from error
        self._offset += len(whole) + len(newline)
        lines = whole.split(b"\n")[-self._kept :] if newline else []
        return [entry(record) for line in lines if (record := parsed(line)) is not None]


def _last_of(names: list[Path], limit: int) -> list[AuditEntry]:
    """The last entries of the newest of `names`."""
    return list(deque(_entries(names[-1]), maxlen=limit)) if names else []
