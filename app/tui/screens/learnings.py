"""The screen of learnings: read, search, add, reword, confirm and delete them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.content import Content

from agent.knowledge.learnings.learning import standing
from app.tui.screens.entry_page import EntryPage, EntryRows, change, change_entry, load
from app.tui.screens.page import line
from app.tui.screens.sessions.sessions import age
from themes.states import glyph
from tools.services.learning_notes import LearningNote
from widgets.rows.row_text import one_line, spread

if TYPE_CHECKING:
    from agent.knowledge.learnings.learning import Learning, Status
    from agent.knowledge.learnings.store import LearningBook, LearningChange

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
    """The message from which something was learned, to be opened for the person."""

    session: str
    node: int | None


class LearningsScreen(EntryPage[LearningSource | None, "Learning"]):
    """The list of learnings. Its result is a message whose session should be opened, or None."""

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
        return about(entry, self._now())

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
        """Show the next filter: all statuses, then each alone."""
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
    """Return the name of a status for the title. Pure."""
    return "in force" if status == "learning" else status


def status_counts(learnings: Sequence[Learning]) -> str:
    """Return the number of learnings per status, such as `4 in force · 2 candidate`. Pure."""
    found: dict[Status, int] = {status: sum(each.status == status for each in learnings) for status in ORDER}
    return " · ".join(f"{count} {status_name(status)}" for status, count in found.items() if count)


def about(learning: Learning, now: float) -> Content:
    """Return one learning in full: what fails, what works, its certainty and its origin. Pure."""
    how = standing(learning)
    seen = [
        (word, one_line(learning.evidence.get(name, ""), 2_000))
        for name, word in (("failed", "Failed"), ("error", "Said"), ("worked", "Worked"))
    ]
    session = f" in session {line(learning.session)}" if learning.session else ""
    told = (
        f"Told {learning.times_used} times, confirmed {learning.confirmed}, refuted {learning.refuted}.",
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
