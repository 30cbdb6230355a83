"""The audit log: one line for each decision of the gate, linked to the previous line by its hash.

The files `~/.hermes/audit/audit-000001.jsonl` and so on have mode 0600 and are only appended to. Every line
is canonical JSON with a number (`seq`), the SHA-256 of the previous line (`previous`) and of this one
(`hash`). So `agent.safety.audit.check` finds a changed, removed, inserted or moved line. The file `head`
names the last line that was written, so that missing lines at the end are noticed.

Several processes may append at once: each append holds a lock that the system releases when the process dies.
A line left incomplete by a crash is closed and followed by a line that records this. The chain continues from
the last complete line.

The chain reveals accidents and careless edits. Anyone who may write these files and knows their format can
rewrite all of them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import json
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import ConfigError, HermesError
from tools.kit.files import lock_file
from tools.results import DeniedError
from tools.services.actions import Action, ReadPath
from tools.text.redact import redact

if TYPE_CHECKING:
    from agent.safety.gate import Ruling


MAX_FILE = 8_000_000
"""The size in bytes after which the next line begins a new file."""
LOCK_SECONDS = 10.0
"""Seconds that an append waits for another process."""
START = "0" * 64
"""The value of `previous` in the very first line."""
MENDED = "mended"
"""The `kind` of a line that follows an incomplete one."""
LONGEST_END = 4 * MAX_FILE
"""The size in bytes above which a file's end is not searched and a new file is begun."""
CHUNK = 65_536

Record = dict[str, Any]


class AuditError(HermesError):
    """Raised if the audit log cannot be written or read. The action to be recorded does not happen."""


@dataclass(frozen=True, slots=True)
class ChainMark:
    """The end of the chain: number and hash of its last line."""

    seq: int = 0
    hash: str = START


@dataclass(slots=True)
class _End:
    """The end of the newest file as this process left it with its last append."""

    path: Path
    inode: int
    size: int
    mark: ChainMark = field(default_factory=ChainMark)


class AuditLog:
    """The log in one folder. All methods block; call them in a thread. Safe between threads and processes."""

    def __init__(self, folder: Path, max_file: int = MAX_FILE) -> None:
        self.folder = folder
        self._max_file = max_file
        self._end: _End | None = None

    def append(self, record: Mapping[str, Any], *, durable: bool = True) -> ChainMark:
        """Append one line and return the new end of the chain.

        `record` is JSON without `seq`, `previous` and `hash`. With `durable`, the line is on disk on return.
        Raises `AuditError`; the log then contains nothing of the line.
        """
        try:
            private_folder(self.folder)
            with locked(self.folder):
                return self._append(dict(record), durable)
        except ConfigError as error:
            raise AuditError(str(error)) from error
        except OSError as error:
            self._end = None
            reason = error.strerror or str(error)
            raise AuditError(
                f"The audit log in {self.folder} cannot be written: {reason}; make room or fix it, "
                "because nothing is done that cannot be taken down."
            ) from error

    def _append(self, record: Record, durable: bool) -> ChainMark:
        names = files(self.folder)
        path = names[-1] if names else self.folder / file_name(1)
        end = self._own_end(path) if names else None
        if end is None:
            end = self._disk_end(names)
        if end.size >= self._max_file:
            path = self.folder / file_name(number(path) + 1)
            end = _End(path, 0, 0, end.mark)
        line, mark = _line(record, end.mark)
        new = not path.exists()
        descriptor = _open_plain(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            _write(descriptor, line, end.size)
            if durable:
                os.fsync(descriptor)
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if new:
            _sync_folder(self.folder)
        self._end = _End(path, status.st_ino, status.st_size, mark)
        if durable:
            _note(self.folder, mark)  # never ahead of the log on disk
        return mark

    def _own_end(self, path: Path) -> _End | None:
        """Return the end of the file after this process's last append; None if the file has changed since."""
        end = self._end
        if end is None or end.path != path:
            return None
        status = path.lstat()
        return end if (status.st_ino, status.st_size) == (end.inode, end.size) else None

    def _disk_end(self, names: list[Path]) -> _End:
        """Return the end of the log on disk, after closing an incomplete line.

        If lines are missing at the end, the chain continues from the line named by `head`, so the gap stays
        visible.
        """
        mark = read_head(self.folder) or ChainMark()
        for path in reversed(names):
            if path.lstat().st_size <= LONGEST_END and (last := _tail(path)[0]) is not None:
                mark = max(mark, last, key=lambda each: each.seq)
                break
        if not names:
            return _End(self.folder / file_name(1), 0, 0, mark)
        newest = names[-1]
        size = newest.lstat().st_size
        if size <= LONGEST_END and (torn := _tail(newest)[1]):
            mark = _close(newest, torn, mark)
            size = newest.lstat().st_size
        return _End(newest, 0, size, mark)


def files(folder: Path) -> list[Path]:
    """Return the files of the log in `folder`, oldest first."""
    return sorted((path for path in folder.glob("audit-*.jsonl") if number(path)), key=number)


def file_name(place: int) -> str:
    return f"audit-{place:06}.jsonl"


def number(path: Path) -> int:
    """Return the number in a log file's name; 0 if the name is not that of a log file."""
    digits = path.name.removeprefix("audit-").removesuffix(".jsonl")
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def canonical(record: Mapping[str, Any]) -> bytes:
    """Return the canonical JSON of a record, without a line break."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def digest(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a record without its field `hash`."""
    return sha256(canonical({key: value for key, value in record.items() if key != "hash"})).hexdigest()


def parse_record(line: bytes) -> Record | None:
    """Parse a line; None if it is not a record. Checks neither its hash nor its position in the chain."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or type(record.get("seq")) is not int:
        return None
    return record if isinstance(record.get("hash"), str) and isinstance(record.get("previous"), str) else None


@contextmanager
def locked(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the log's lock, `shared` among readers. Raises `AuditError` after `LOCK_SECONDS` of waiting."""
    path = folder / "lock"
    if shared and not path.exists():
        yield  # nothing was ever appended here
        return
    descriptor = _open_plain(path, os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT)
    try:
        if not lock_file(descriptor, shared=shared, seconds=LOCK_SECONDS):
            raise AuditError(f"Another process keeps the audit log in {folder} locked; end it and try again.")
        yield
    finally:
        os.close(descriptor)


def read_head(folder: Path) -> ChainMark | None:
    """Return number and hash of the last line from the file `head`; None if it is missing or invalid."""
    try:
        with os.fdopen(_open_plain(folder / "head", os.O_RDONLY), encoding="ascii") as file:
            seq, _, hash = file.read(2 * len(START)).strip().partition(" ")
        return ChainMark(int(seq), hash) if len(hash) == 64 else None
    except (OSError, ValueError):
        return None


def _note(folder: Path, mark: ChainMark) -> None:
    """Write number and hash of the last line to `head`, in one short write of fixed length, so that it is
    never partial.
    """
    descriptor = _open_plain(folder / "head", os.O_WRONLY | os.O_CREAT)
    try:
        os.pwrite(descriptor, f"{mark.seq:020} {mark.hash}\n".encode(), 0)
    finally:
        os.close(descriptor)


def _open_plain(path: Path, flags: int) -> int:
    """Open a regular file and return its descriptor. Links and pipes are refused. Raises `OSError`."""
    flags |= os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, PRIVATE_FILE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"{path.name} is not a plain file")
    return descriptor


def _line(record: Record, after: ChainMark) -> tuple[bytes, ChainMark]:
    record = record | {"seq": after.seq + 1, "previous": after.hash}
    record["hash"] = digest(record)
    return canonical(record) + b"\n", ChainMark(after.seq + 1, record["hash"])


def _write(descriptor: int, line: bytes, size: int) -> None:
    """Append a line completely or not at all: what a full disk cut short is removed. Raises `OSError`."""
    try:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _tail(path: Path) -> tuple[ChainMark | None, bytes]:
    """Return number and hash of the last complete record, or None, and the bytes after the last line."""
    descriptor = _open_plain(path, os.O_RDONLY)
    try:
        at = os.fstat(descriptor).st_size
        data, step = b"", CHUNK
        while at > 0:
            step = min(step * 2, at)
            at -= step
            data = os.pread(descriptor, step, at) + data
            *lines, torn = data.split(b"\n")
            # The first piece may be incomplete, unless it begins the file.
            for line in reversed(lines if at == 0 else lines[1:]):
                if (record := parse_record(line)) is not None:
                    return ChainMark(record["seq"], record["hash"]), torn
        return None, data.rpartition(b"\n")[2]
    finally:
        os.close(descriptor)


def _close(path: Path, torn: bytes, last: ChainMark) -> ChainMark:
    """End the incomplete line `torn`, record it in a new line if it is damaged; return the chain's end."""
    record = parse_record(torn)
    if record is not None and (record["seq"], record["previous"]) == (last.seq + 1, last.hash):
        whole = canonical(record) == torn and digest(record) == record["hash"]
    else:
        whole = False
    if record is not None and whole:
        closing, mark = b"", ChainMark(record["seq"], record["hash"])  # only the line break is missing
    else:
        about = {"kind": MENDED, "time": time.time(), "torn": len(torn), "sha256": sha256(torn).hexdigest()}
        closing, mark = _line(about, last)
    descriptor = _open_plain(path, os.O_WRONLY | os.O_APPEND)
    try:
        _write(descriptor, b"\n" + closing, os.fstat(descriptor).st_size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return mark


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


MAX_TEXT = 100_000
"""The number of characters kept of one text; of a longer one, start, end and SHA-256 are kept."""


@dataclass(frozen=True, slots=True)
class AuditRecorder:
    """A recorder of the gate's decisions about one agent of one session; it is the gate's `audit`."""

    log: AuditLog
    session: str
    surface: str
    """The user interface: `tui`, `plain`, `oneshot`, `json` …"""
    workspace: Path
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The exact values to mask, by name."""
    agent: str = "main"
    """The id of the agent."""
    name: str = ""
    """The user's name for the agent; empty if it has none."""

    async def __call__(self, ruling: Ruling) -> None:
        """Record a decision. The line is on disk before this returns, except for an allowed action that only
        reads.

        Raises `DeniedError` if that fails, because an action that cannot be recorded must not happen.
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
        """Return the text with secrets masked, and cut in the middle above `MAX_TEXT` characters."""
        masked = redact(text, self.secrets)
        if len(masked) <= MAX_TEXT:
            return masked
        sum = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        half = MAX_TEXT // 2
        left = len(masked) - 2 * half
        return f"{masked[:half]}\n[… {left:,} characters left out, SHA-256 of all: {sum} …]\n{masked[-half:]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One line of the log. Its texts are untrusted: clean them before display."""

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
    """The whole line as parsed JSON."""


def asker(entry: AuditEntry) -> str:
    """Return the name (untrusted text) and id of the agent of an entry; empty for the main agent."""
    return "" if entry.agent in ("", "main") else agent_label(entry.agent, entry.agent_name)


def agent_label(agent: str, name: str) -> str:
    """Return an agent's name followed by its id, or only the id if it has no name."""
    return f"{name} ({agent})" if name else agent


def entry(record: Record) -> AuditEntry:
    """Return the fields of a parsed line; missing or invalid fields become empty."""

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
    """Return the last `limit` entries that `wanted` accepts, oldest first. Blocking. Raises `AuditError`."""
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
                if line.endswith(b"\n") and (record := parse_record(line)) is not None:
                    yield entry(record)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> AuditError:
    return AuditError(
        f"The audit log {path} cannot be read: {error.strerror or error}; check its permissions."
    )


class AuditTail:
    """A reader of new entries of the log across its files. Blocking; use it in a thread."""

    def __init__(self, folder: Path, kept: int) -> None:
        self._folder = folder
        self._kept = kept
        self._file: Path | None = None
        self._offset = 0

    def read(self) -> list[AuditEntry]:
        """Return the entries since the last call; the first call returns the last `kept` entries. Raises
        `AuditError`.
        """
        names = files(self._folder)
        if self._file is None:
            if not names:
                return []
            # Records added in between are read now or later, never twice.
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
        return [entry(record) for line in lines if (record := parse_record(line)) is not None]


def _last_of(names: list[Path], limit: int) -> list[AuditEntry]:
    """Return the last `limit` entries of the last file in `names`; empty without files."""
    return list(deque(_entries(names[-1]), maxlen=limit)) if names else []
