"""The screens of memory and learnings: read, search, add, edit and delete entries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.text import Text
from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.content import Content

from agent.errors import HermesError
from agent.knowledge.learnings.learning import standing
from agent.knowledge.memory.files import MemoryFileError, MemoryOperation, MemoryWriteError, Origin, usage
from agent.knowledge.memory.scopes import SCOPES
from agent.knowledge.memory.service import vet_entries
from app.tui.screens.entry_page import EntryPage, EntryRows, change, change_entry, load
from app.tui.screens.page import line
from app.tui.screens.sessions.sessions import age
from app.tui.terminal.editor import edit
from themes.states import glyph
from tools.services.learning_notes import LearningNote
from tools.text.safe_text import clean
from tools.text.words import plural
from widgets.rows.row_text import one_line, spread

if TYPE_CHECKING:
    from agent.knowledge.learnings.learning import Learning, Status
    from agent.knowledge.learnings.store import LearningBook, LearningChange
    from agent.knowledge.memory.files import MemoryContents
    from agent.knowledge.memory.scopes import Scope
    from agent.knowledge.memory.service import MemoryFiles

MOST_SHOWN = 8_000
"""The number of characters of an entry that are shown beside the list; some files hold more."""
HOLDS = {
    "memory": "Shown in every session on this machine.",
    "user": "Who you are; shown in every session on this machine.",
    "project": "Shown in sessions of this project only.",
}


class MemorySource(NamedTuple):
    """The message at which an entry was written, which the user wants to see."""

    session: str
    node: int | None


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One entry of one scope."""

    scope: Scope
    text: str
    origin: Origin | None
    blocked: bool
    """True if the prompt omits the entry because it looks like an attack."""


@dataclass(frozen=True, slots=True)
class MemoryState:
    """The current entries of all scopes."""

    rows: tuple[MemoryRow, ...]
    room: tuple[str, ...]
    """How full each scope is, such as `user 120/1,375`."""
    problems: tuple[str, ...]


def read_memory(files: MemoryFiles) -> MemoryState:
    """Return all entries of every scope; an unreadable file becomes a problem in the result."""
    rows: list[MemoryRow] = []
    room: list[str] = []
    problems: list[str] = []
    for scope in SCOPES:
        try:
            memory = files.file(scope).read()
        except MemoryFileError as error:
            problems.append(str(error))
            continue
        rows += _rows(scope, memory)
        room.append(f"{scope} {usage(memory.entries, memory.limit)}")
    return MemoryState(tuple(rows), tuple(room), tuple(problems))


def _rows(scope: Scope, memory: MemoryContents) -> list[MemoryRow]:
    shown, _ = vet_entries(memory)
    return [
        MemoryRow(scope, text, memory.origins.of(text), text != seen)
        for text, seen in zip(memory.entries, shown, strict=True)
    ]


class MemoryScreen(EntryPage[MemorySource | None, MemoryRow]):
    """The list of notes. Its result is a message whose session should be opened, or None."""

    DEFAULT_CLASSES = "rows-first"
    heading = "Memory"
    keys = "⏎ where it came from · n new · e edit · d delete · s scope · ? keys · esc back"
    ways_on = "n new · s scope"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "add", "Add a note", id="memory.add"),
        Binding("e", "edit", "Edit the note", id="memory.edit"),
        Binding("d,delete", "remove", "Delete the note", id="memory.remove"),
        Binding("u", "undo", "Take back the last change made here", id="memory.undo"),
        Binding("s", "scope", "Show all scopes, or one", id="memory.scope"),
    ]

    def __init__(self, files: MemoryFiles, now: Callable[[], float] = time.time, at: str = "") -> None:
        """`at` is the text of the entry that is selected first."""
        self._first = at
        super().__init__(MemoryRows(now))
        self._files = files
        self._now = now
        self._scope: Scope | None = None
        self._shown = MemoryState((), (), ())

    def about(self, entry: MemoryRow) -> Content:
        return about(entry, self._now())

    def on_mount(self) -> None:
        self._load(self._first)

    @load
    async def _load(self, at: str = "") -> None:
        self._shown = await asyncio.to_thread(read_memory, self._files)
        self._show(at)
        for problem in self._shown.problems:
            self.show_problem(problem)

    def _show(self, at: str = "") -> None:
        rows = [row for row in self._shown.rows if self._scope in (None, row.scope)]
        room = [each for each in self._shown.room if self._scope is None or each.startswith(self._scope)]
        self.list_entries(rows, " · ".join(room), at)

    def open_entry(self, entry: MemoryRow) -> None:
        if entry.origin is None or not entry.origin.session:
            self.notify("This note was written by hand; no session has it.", markup=False)
        else:
            self.dismiss(MemorySource(entry.origin.session, entry.origin.node))

    def action_scope(self) -> None:
        """Switch to the next scope filter: all scopes, then each scope in turn."""
        order = (None, *SCOPES)
        self._scope = order[(order.index(self._scope) + 1) % len(order)]
        self._show()

    @change
    async def action_add(self) -> None:
        scope = self._scope or (row.scope if (row := self.pointed) else "memory")
        if content := await self.ask(f"New note ({scope}). {HOLDS[scope]}"):
            await self._write(scope, MemoryOperation("add", content), content)

    @change_entry
    async def action_edit(self, row: MemoryRow) -> None:
        content = await self._edit_note(row.text)
        if content and content != row.text:
            await self._write(row.scope, MemoryOperation("replace", content, row.text), content)

    async def _edit_note(self, text: str) -> str:
        if "\n" not in text and clean(text) == text:
            return await self.ask("The note", text)
        try:
            with self.app.suspend():
                return edit(text).strip()
        except SuspendNotSupported:
            raise HermesError(
                "This terminal cannot be left to an editor; try `hermes memory edit`."
            ) from None

    @change_entry
    async def action_remove(self, row: MemoryRow) -> None:
        await self._write(row.scope, MemoryOperation("remove", old_text=row.text), "")

    async def _write(
        self, scope: Scope, operation: MemoryOperation, at: str, *, undoing: bool = False
    ) -> None:
        try:
            written = await self._files.write(scope, [operation], Origin(self._now(), by="person"))
        except (MemoryWriteError, HermesError) as error:
            self.show_problem(str(error), "warning")
            return
        if written.changed and not undoing:
            back = inverse(operation)
            self.undo.append(partial(self._write, scope, back, back.content, undoing=True))
            if operation.action == "remove":
                self.notify("Deleted; u brings it back.", markup=False)
        if written.after.note:
            self.notify(line(written.after.note), markup=False)
        self._load(at)


class MemoryRows(EntryRows[MemoryRow]):
    """One row per entry: scope, text, age."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(
            key=lambda row: row.text,
            words=lambda row: f"{row.scope} {one_line(row.text, 4_000)}",
            empty="Notes stand here: what the agent is to know in every session. Press n to add one.",
        )
        self._now = now

    def draw_entry(self, entry: MemoryRow, width: int) -> list[Text]:
        left = Text(" ").append(f"{glyph('denied') if entry.blocked else ' '} ", self.ink("warning"))
        left.append(f"{entry.scope:<8}", self.ink("dim")).append(one_line(entry.text), self.ink("text"))
        when = age(self._now() - entry.origin.created) if entry.origin else ""
        return [spread(left, Text(f" {when} ", self.ink("dim")), width)]


def inverse(operation: MemoryOperation) -> MemoryOperation:
    """Return the operation that undoes `operation`. Pure."""
    match operation.action:
        case "add":
            return MemoryOperation("remove", old_text=operation.content)
        case "remove":
            return MemoryOperation("add", operation.old_text)
        case _:
            return MemoryOperation("replace", operation.old_text, operation.content)


def about(row: MemoryRow, now: float) -> Content:
    """Return an entry, cut after `MOST_SHOWN` characters, with its origin. Pure."""
    text = clean(row.text)
    more = f"\n… {len(text) - MOST_SHOWN:,} more characters" if len(text) > MOST_SHOWN else ""
    held = (
        (
            (
                f"{glyph('denied')} The prompt leaves it out: it reads like an instruction to an agent.\n\n",
                "$warning",
            ),
        )
        if row.blocked
        else ()
    )
    return Content.assemble(
        *held,
        text[:MOST_SHOWN],
        more,
        "\n\n",
        (f"{HOLDS[row.scope]}\n{origin_words(row.origin, now)}", "$text-muted"),
    )


def origin_words(origin: Origin | None, now: float) -> str:
    """Return who wrote an entry, when and where. Pure."""
    if origin is None:
        return "Nobody knows where it came from."
    who = {"agent": "Written by the agent", "person": "Written by you"}.get(origin.by, "Found in the file")
    where = f" in session {line(origin.session)}" if origin.session else ""
    return f"{who} {age(now - origin.created)}{where}."


MEANS = {
    "candidate": "Seen once; nobody vouches for it yet. c makes it a learning.",
    "learning": "In force: the call is held back once with what worked.",
    "confirmed": "In force: the call is held back once with what worked.",
    "refuted": "In force, but what happened spoke against it at least as often.",
    "stale": "What it depends on has changed since; told with the error, and no call is held back.",
    "retired": "Refuted twice, and no longer told. c brings it back.",
}
ORDER: tuple[Status, ...] = ("learning", "candidate", "stale", "retired")
INKS = {"confirmed": "success", "learning": "success", "refuted": "warning", "stale": "warning"}
EMPTY = "Nothing was learned yet. What fails and is fixed within a turn is kept by itself; n adds one."
WRITTEN = {"agent": "Written by the agent", "person": "Written by you", "observed": "Read off the calls"}


class LearningSource(NamedTuple):
    """The message from which something was learned, which the user wants to see."""

    session: str
    node: int | None


class LearningsScreen(EntryPage[LearningSource | None, "Learning"]):
    """The list of learnings. Its result is a message whose session should be opened, or None."""

    DEFAULT_CLASSES = "rows-first"
    heading = "Learnings"
    keys = "⏎ where it came from · n new · e edit · t trust · d delete · ? keys · esc back"
    ways_on = "n new · s state"
    severity = "warning"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "add", "Add a learning", id="learnings.add"),
        Binding("e", "edit", "Say in other words what works", id="learnings.edit"),
        Binding("t", "confirm", "Vouch for the learning", id="learnings.confirm"),
        Binding("d,delete", "remove", "Delete the learning", id="learnings.remove"),
        Binding("u", "undo", "Take back the last change made here", id="learnings.undo"),
        Binding("s", "status", "Show all states, or one", id="learnings.status"),
    ]

    def __init__(self, book: LearningBook, now: Callable[[], float] = time.time, at: str = "") -> None:
        """`at` is the pattern of the learning that is selected first."""
        self._first = at
        super().__init__(LearningRows(now))
        self._book = book
        self._now = now
        self._status: Status | None = None
        self._all: Sequence[Learning] = ()

    def about(self, entry: Learning) -> Content:
        return learning_text(entry, self._now())

    def on_mount(self) -> None:
        self._load()

    @load
    async def _load(self, at: int = 0) -> None:
        self._all = await self._book.look()
        first = next((each.id for each in self._all if each.pattern == self._first), 0)
        self._show(at or first)
        self._first = ""

    def _show(self, at: int = 0) -> None:
        rows = [each for each in self._all if self._status in (None, each.status)]
        self.rows.empty = (
            EMPTY if self._status is None else f"No learning is {status_name(self._status)}; s shows others."
        )
        state = (
            status_counts(self._all) if self._status is None else f"{len(rows)} {status_name(self._status)}"
        )
        self.list_entries(rows, state, at)

    def open_entry(self, entry: Learning) -> None:
        if entry.session:
            self.dismiss(LearningSource(entry.session, entry.node))
        else:
            self.notify("You wrote this one down; no session has it.", markup=False)

    def action_status(self) -> None:
        """Switch to the next filter: learnings of every status, then those of one status after the other."""
        order = (None, *ORDER)
        self._status = order[(order.index(self._status) + 1) % len(order)]
        self._show()

    @change
    async def action_add(self) -> None:
        pattern = await self.ask("What fails? The command, as it is typed.")
        if pattern and (fix := await self.ask("What works instead?")):
            await self._change(self._book.add(LearningNote(pattern=pattern, fix=fix)))

    @change_entry
    async def action_edit(self, learning: Learning) -> None:
        if fix := await self.ask("What works", learning.fix):
            await self._change(self._book.reword(learning.id, fix))

    @change_entry
    async def action_confirm(self, learning: Learning) -> None:
        await self._change(self._book.confirm(learning.id))

    @change_entry
    async def action_remove(self, learning: Learning) -> None:
        await self._change(self._book.remove(learning.id))

    async def _take_back(self, change: LearningChange) -> None:
        try:
            await self._book.take_back(change)
        finally:
            self._load(change.before.id if change.before is not None else 0)

    async def _change(self, change: Awaitable[LearningChange]) -> None:
        done = await change
        if done.before != done.after:
            self.undo.append(partial(self._take_back, done))
        if done.after is None:
            self.notify("Deleted; u brings it back.", markup=False)
        self._load(done.after.id if done.after is not None else 0)


class LearningRows(EntryRows["Learning"]):
    """One row per learning: status, what fails and what works, confirmations, age."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(key=lambda learning: learning.id, words=_words, empty=EMPTY)
        self._now = now

    def draw_entry(self, entry: Learning, width: int) -> list[Text]:
        how = standing(entry)
        left = Text(" ").append(f"{how:<10}", self.ink(INKS.get(how, "dim")))
        left.append(one_line(entry.pattern), self.ink("text"))
        left.append(" → ", self.ink("dim")).append(one_line(entry.fix), self.ink("text"))
        right = Text(f" {counts(entry)}{age(self._now() - entry.created_at):>10} ", self.ink("dim"))
        return [spread(left, right, width)]


def _words(learning: Learning) -> str:
    of_it = (learning.pattern, learning.error_type, learning.fix, learning.context)
    return one_line(" ".join((standing(learning), *of_it, *learning.tags)), 4_000)


def counts(learning: Learning) -> str:
    """Return how often a learning was confirmed and refuted, such as `✓3 ✗1`. Pure."""
    marks = ((glyph("done"), learning.confirmed), (glyph("failed"), learning.refuted))
    return " ".join(f"{mark}{count}" for mark, count in marks if count)


def status_name(status: Status) -> str:
    """Return the displayed name of a status. Pure."""
    return "in force" if status == "learning" else status


def status_counts(learnings: Sequence[Learning]) -> str:
    """Return the number of learnings per status, such as `4 in force · 2 candidate`. Pure."""
    found: dict[Status, int] = {status: sum(each.status == status for each in learnings) for status in ORDER}
    return " · ".join(f"{count} {status_name(status)}" for status, count in found.items() if count)


def learning_text(learning: Learning, now: float) -> Content:
    """Return one learning in full: what fails, what works, how certain it is, and its origin. Pure."""
    how = standing(learning)
    seen = [
        (word, one_line(learning.evidence.get(name, ""), 2_000))
        for name, word in (("failed", "Failed"), ("error", "Said"), ("worked", "Worked"))
    ]
    session = f" in session {line(learning.session)}" if learning.session else ""
    told = (
        f"Told {plural(learning.times_used, 'time')}, "
        f"confirmed {learning.confirmed}, refuted {learning.refuted}.",
        "Holds in every project." if not learning.project else "Holds in this project.",
        f"{WRITTEN[learning.origin]} {age(now - learning.created_at)}{session}.",
    )
    tags = " ".join(f"#{one_line(tag, 40)}" for tag in learning.tags)
    parts = [
        one_line(learning.pattern, 2_000),
        (f"\n{one_line(learning.error_type, 400)}\n\n", "$text-muted"),
        ("What works: ", "$text-muted"),
        one_line(learning.fix, 2_000),
        f"\n{one_line(learning.context, 2_000)}" if learning.context else "",
        (f"\n{tags}" if tags else "", "$text-muted"),
        (f"\n\n{how.capitalize()}. {MEANS[how]}\n\n", "$text-muted"),
        *((f"{word}: {text}\n", "$text-muted") for word, text in seen if text),
        ("\n" if any(text for _, text in seen) else "", "$text-muted"),
        ("\n".join(told), "$text-muted"),
    ]
    return Content.assemble(*parts)
