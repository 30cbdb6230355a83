"""The journal of a script: a record on disk of its calls, kept until the script ends.

A script that was interrupted, by its time limit or with Hermes itself, can be run again. Its calls are
answered from the journal as long as they equal the recorded ones. So nothing is done twice. There is one file
for each script and one line of JSON for each event:

    {"script": id, "call": the call that runs it, "node": the end of the session then, "time": …}
    {"begin": 1, "tool": …, "sum": SHA-256 of tool and arguments, "arguments": their beginning, masked}
    {"end": 1, "outcome": …, "result": the text the script got}

A call that has begun and not ended may be partly done; it never counts as completed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import shutil
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE, private_folder
from agent.core.store.recovery import Unfinished
from agent.errors import StoreError
from agent.workspace.checkpoints.garbage_collection import read_clock
from tools.kit.lazy_pattern import lazy_pattern
from tools.kit.threads import on_thread, to_the_end
from tools.results import Outcome, ToolError

log = logging.getLogger(__name__)

KEPT_DAYS = 30
"""Days after which the journal of a script that was not continued is removed."""
LARGEST = 4_000_000
"""The maximum length of a stored result in characters; a call with a longer result is made again."""
SHOWN = 160
"""The number of characters of a call's arguments that are stored, for the report."""
REPORTED = 5
"""The maximum number of unfinished calls that a report lists with their arguments."""

_NAME = lazy_pattern(r"[0-9a-f]{8}")
_COMPLETED: frozenset[str] = frozenset({"done", "failed"})


def fingerprint(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a hash of the tool and its exact arguments; equal calls have equal fingerprints."""
    text = json.dumps([tool, arguments], sort_keys=True, ensure_ascii=False)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One call of a script as recorded in its journal."""

    number: int
    tool: str
    sum: str
    arguments: str
    after: int
    """The number of calls that had ended when this one began."""
    place: int | None = None
    """The index of the call in the order in which calls ended; None if it did not end."""
    outcome: str = ""
    result: str | None = None

    @property
    def is_completed(self) -> bool:
        """True if the call ended and its result was saved. A refused call is not completed, so it is asked
        for again.
        """
        return self.outcome in _COMPLETED and self.result is not None


@dataclass(frozen=True, slots=True)
class ScriptRecord:
    """The contents of a journal."""

    script: str
    call: str
    node: int
    calls: tuple[Recorded, ...] = ()

    def report(self, path: Path) -> str:
        """Return a text for the model: what was done, what is unknown, and how to continue."""
        done = [call for call in self.calls if call.is_completed]
        cut = [call for call in self.calls if (call.outcome in ("", "interrupted"))]
        parts: list[str] = []
        if done:
            tools = Counter(call.tool for call in done)
            names = ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in tools.items())
            number = "1 call of the script was" if len(done) == 1 else f"{len(done)} calls of the script were"
            parts.append(f"{number} completed ({names}); the results are kept in {path}.")
        if cut:
            shown = "; ".join(f"{call.tool} {call.arguments}" for call in cut[:REPORTED])
            more = f"; and {len(cut) - REPORTED} more" if len(cut) > REPORTED else ""
            parts.append(f"Under way or waiting for approval, perhaps done in part: {shown}{more}.")
        if done:
            parts.append(
                f'To continue, run the same code again with resume="{self.script}": completed calls are '
                "answered from the record, everything else is done again."
            )
        return " ".join(parts)


class ScriptReplay:
    """Answers the calls of a script from the record of an earlier run, until a call differs.

    Parallel calls may come in another order. So a recorded call is answered as soon as all calls that had
    ended before it began have been answered.
    """

    def __init__(self, calls: Sequence[Recorded] = ()) -> None:
        self._waiting: dict[str, deque[Recorded]] = {}
        for call in calls:
            self._waiting.setdefault(call.sum, deque()).append(call)
        self._answered: set[int] = set()
        self._reached = 0
        """The number of calls, counted in the order in which they ended, that have all been answered."""
        self._is_over = not calls

    def take(self, sum: str) -> Recorded | None:
        """Return the completed call with this fingerprint; None if the call has to be made."""
        waiting = self._waiting.get(sum)
        if self._is_over or not waiting or waiting[0].after > self._reached:
            self._is_over = True
            return None
        call = waiting.popleft()
        if not call.is_completed or call.place is None:
            # Later calls can no longer be answered; parallel ones can.
            return None
        self._answered.add(call.place)
        while self._reached in self._answered:
            self._answered.remove(self._reached)
            self._reached += 1
        return call


@dataclass(slots=True)
class ScriptJournal:
    """The journal of one running script. The first call creates its file."""

    folder: Path
    call: str
    node: int
    script: str = field(default_factory=lambda: secrets.token_hex(4))
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _exists: bool = False

    @property
    def path(self) -> Path:
        return _file(self.folder, self.script)

    async def begin(self, number: int, tool: str, sum: str, arguments: str, *, durable: bool) -> None:
        """Record a call before it runs; `arguments` are already masked.

        With `durable`, wait until the record is on disk. Raises `StoreError`; then the call must not be made.
        """
        line = {"begin": number, "tool": tool, "sum": sum, "arguments": arguments[:SHOWN]}
        try:
            await self._append(line, durable)
        except OSError as error:
            reason = error.strerror or str(error)
            raise StoreError(f"The script's journal {self.path} cannot be written: {reason}.") from error

    async def end(self, number: int, outcome: Outcome, result: str, *, durable: bool) -> None:
        """Record the outcome of a call. If that fails, the call counts as interrupted."""
        line = {"end": number, "outcome": outcome, "result": result if len(result) <= LARGEST else None}
        try:
            await self._append(line, durable)
        except OSError:
            log.exception("the end of a call could not be kept in %s", self.path)

    async def report(self) -> str:
        """Return a report about a script that was interrupted; empty if it made no call."""
        record = await asyncio.to_thread(read, self.path)
        return record.report(self.path) if record is not None else ""

    async def remove(self) -> None:
        """Delete the journal of a script that has ended."""
        if self._exists:
            await asyncio.to_thread(self.path.unlink, missing_ok=True)

    async def _append(self, line: Mapping[str, Any], durable: bool) -> None:
        async with self._writing:
            # A write that has begun ends before the next one, even if its call is cancelled.
            await to_the_end(on_thread(self._write, line, durable))

    def _write(self, line: Mapping[str, Any], durable: bool) -> None:
        lines = [line]
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        if not self._exists:
            private_folder(self.folder)
            _sweep(self.folder.parent)
            flags |= os.O_CREAT | os.O_EXCL
            head = {"script": self.script, "call": self.call, "node": self.node, "time": time.time()}
            lines.insert(0, head)
        descriptor = os.open(self.path, flags, PRIVATE_FILE)
        with os.fdopen(descriptor, "wb") as file:
            self._exists = True
            file.write(b"".join(json.dumps(each).encode() + b"\n" for each in lines))
            file.flush()
            if durable:
                os.fsync(descriptor)


@dataclass(frozen=True, slots=True)
class ScriptJournals:
    """The journals of one session."""

    folder: Path

    def new(self, call: str, node: int) -> ScriptJournal:
        """Return a journal for the script that `call` runs; `node` is the current end of the session."""
        return ScriptJournal(self.folder, call, node)

    async def replay(self, script: str) -> ScriptReplay:
        """Return a replay of an earlier script's record. Raises `ToolError` if the record does not exist."""
        record = None
        if _NAME.fullmatch(script):
            record = await asyncio.to_thread(read, _file(self.folder, script))
        if record is None:
            raise ToolError(
                f"Nothing is recorded of a script {script[:20]!r} in this session; leave `resume` out."
            )
        return ScriptReplay(record.calls)

    async def forget(self, script: str) -> None:
        """Remove the journal of a script that another run has completed."""
        await asyncio.to_thread(_file(self.folder, script).unlink, missing_ok=True)

    async def left_by(self, call: str, node: int) -> str:
        """Return a report about the script that a call of the message `node` ran; empty if unknown."""
        return await asyncio.to_thread(self._left_by, call, node)

    async def left_by_all(self, cut: Iterable[Unfinished]) -> dict[str, dict[str, str]]:
        """Return the reports about interrupted scripts: for the head of each branch, a report by call id."""
        return {
            each.head: {call.id: await self.left_by(call.id, call.node) for call in each.calls}
            for each in cut
        }

    def _left_by(self, call: str, node: int) -> str:
        # Models give equal ids to calls of different messages; an older one is another call's.
        records = (record for path in _files(self.folder) if (record := read(path)) is not None)
        found = [record for record in records if record.call == call and record.node >= node]
        if not found:
            return ""
        newest = max(found, key=lambda record: record.node)
        return newest.report(_file(self.folder, newest.script))


def discard(root: Path, sessions: Sequence[str]) -> None:
    """Remove the journals of deleted sessions; `root` holds one folder per session. Blocking."""
    for session in sessions:
        shutil.rmtree(root / session, ignore_errors=True)


def read(path: Path) -> ScriptRecord | None:
    """Return the contents of a journal; None if the file cannot be read or has no valid first line. Blocking.

    A line that a crash left incomplete is skipped.
    """
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    lines = list(_lines(whole))
    if not lines or not isinstance(lines[0].get("script"), str):
        return None
    head = lines[0]
    return ScriptRecord(head["script"], str(head.get("call")), int(head.get("node", 0)), _calls(lines[1:]))


def _calls(lines: Sequence[Mapping[str, Any]]) -> tuple[Recorded, ...]:
    begun: dict[int, tuple[Mapping[str, Any], int]] = {}
    ended: dict[int, tuple[Mapping[str, Any], int]] = {}
    for line in lines:
        if isinstance(number := line.get("begin"), int):
            begun[number] = line, len(ended)
        elif isinstance(number := line.get("end"), int) and number in begun:
            ended[number] = line, len(ended)
    calls = []
    for number, (line, after) in begun.items():
        end, place = ended.get(number, ({}, None))
        calls.append(
            Recorded(
                number=number,
                tool=str(line.get("tool")),
                sum=str(line.get("sum")),
                arguments=str(line.get("arguments")),
                after=after,
                place=place,
                outcome=str(end.get("outcome", "")),
                result=end.get("result"),
            )
        )
    return tuple(calls)


def _lines(whole: bytes) -> Iterator[dict[str, Any]]:
    for line in whole.split(b"\n"):
        try:
            parsed = json.loads(line)
        except ValueError:
            continue
        if isinstance(parsed, dict):
            yield parsed


def _file(folder: Path, script: str) -> Path:
    return folder / f"{script}.jsonl"


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.jsonl"))
    except OSError:
        return []


def _sweep(root: Path) -> None:
    """Remove old journals that no script has continued, in all sessions."""
    # A wrong clock must not make recent journals look old.
    oldest = read_clock(root, time.time()).before(KEPT_DAYS * 86_400)
    for path in root.glob("*/*.jsonl"):
        try:
            if path.stat().st_mtime < oldest:
                path.unlink()
        except OSError:
            continue
