"""The screen for going back to before a message, with the effect on files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.text import Text
from textual import work
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from agent.core.store.nodes import Node
from agent.errors import HermesError
from agent.workspace.checkpoints.entries import PathChange, PathEntry, Step
from agent.workspace.checkpoints.git_words import step_apart
from agent.workspace.checkpoints.restore.plan import RestorePlan
from agent.workspace.checkpoints.state_listings import alike
from app.tui.screens.entry_page import EntryPage, EntryRows, load
from app.tui.screens.history.restoring import listing, restore_change
from app.tui.screens.history.timeline_services import BRING_BACK, WHATS, FileDifferenceRow, TimelinePick
from app.tui.screens.page import PAUSE, Skinned, line
from tools.text.safe_text import clean
from tools.text.words import ago, plural
from widgets.rows.reader import ReaderLook
from widgets.rows.row_text import fit, one_line, spread


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """A message of the person that can be taken back."""

    node: int
    text: str
    created: float
    """Seconds since the epoch."""
    step: int
    """The position of the files when it was sent."""
    files: int
    """Number of files that this session has changed since."""


@dataclass(frozen=True, slots=True)
class RewindTarget:
    """The point to go back to, and the parts to restore: conversation, files or both."""

    node: int
    step: int
    files: bool
    conversation: bool
    look: bool = False
    """True if the preview is shown in any case, so that files can be deselected."""


def back_with(node: int, step: int, what: str) -> RewindTarget:
    """Return the target that restores `both`, the `conversation`, the `files` or only `some` of these."""
    return RewindTarget(node, step, what != "conversation", what in ("both", "conversation"), what == "some")


def user_messages(path: Sequence[Node], steps: Sequence[Step]) -> list[SaidMessage]:
    """Return the person's messages on a path, newest first."""
    places: list[tuple[Node, int]] = []
    position = 0
    for node in path:
        step = node.data.get("step")
        position = step if isinstance(step, int) else position
        if node.kind == "user" and node.data.get("origin") != "engine":
            places.append((node, position))
    since = _Since([step for step in steps if step.kind != "outside"])
    return [
        SaidMessage(node.id, node.content, node.created, step, since.back_to(step))
        for node, step in reversed(places)
    ]


class _Since:
    """Counts the paths changed since ever earlier positions, visiting each step once.

    Positions grow along a path with its nodes.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._left = len(steps)
        self._last: dict[str, PathEntry | None] = {}
        self._different: set[str] = set()
        self._git: set[str] = set()
        """Changed files of git, which are shown as one line."""

    def back_to(self, position: int) -> int:
        while self._left and self._steps[self._left - 1].number > position:
            self._left -= 1
            step = self._steps[self._left]
            git = {change.path for change in step_apart(step).git}
            for change in reversed(step.changes):
                different = self._git if change.path in git else self._different
                last = self._last.setdefault(change.path, change.after)
                if alike(change.before, last):
                    different.discard(change.path)
                else:
                    different.add(change.path)
        return len(self._different) + bool(self._git)


EMPTY = "You have said nothing on this branch yet. What you send can be taken back here."
NOT_KEPT = "Only the conversation goes back; files are not kept."
SHOWN_CHARS = 20_000
"""Characters of a message that are shown beside the list."""
FILE_LINES = 200
COUNTED_ROWS = 40
"""Messages whose lines are counted without being selected."""


@dataclass(frozen=True, slots=True)
class RewindServices:
    """The functions that the screen calls; each raises `HermesError`."""

    said: Callable[[], Awaitable[Sequence[SaidMessage]]]
    """Returns the person's messages on the branch in use, newest first."""
    changes: Callable[[int], Awaitable[Sequence[PathChange]]]
    """Returns the session's file changes since a position."""
    plan: Callable[[int], Awaitable[RestorePlan]] | None
    """Returns the plan to restore a position; None if files are not kept."""
    describe: Callable[[Sequence[PathChange]], Awaitable[Sequence[FileDifferenceRow]]]
    """Adds counts of lines to changes."""


class SaidRows(EntryRows[SaidMessage]):
    """One row per message: its first line, the number of files changed since, and its time."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(
            key=lambda said: said.node, words=lambda said: one_line(said.text, 2_000), empty="Reading …"
        )
        self._lines: dict[int, tuple[int, int]] = {}
        self._now = now

    def learn(self, index: int, added: int, removed: int) -> None:
        """Add the counts of lines added and removed since a message."""
        self._lines[self.entries[index].node] = (added, removed)
        self.update_row(index)

    def draw_entry(self, entry: SaidMessage, width: int) -> list[Text]:
        left = Text.assemble(" ", ("❯ ", self.ink("user")), (one_line(entry.text) or "–", self.ink("text")))
        right = Text()
        if entry.files:
            right.append(f"± {plural(entry.files, 'file')}", self.ink("dim"))
            added, removed = self._lines.get(entry.node, (0, 0))
            right.append(f" +{added:,}" if added else "", self.ink("added"))
            right.append(f" −{removed:,}" if removed else "", self.ink("removed"))
        right.append(f"{ago(self._now() - entry.created):>8} ", self.ink("dim"))
        return [spread(left, fit(right, width * 2 // 3), width)]


class RewindScreen(EntryPage[RewindTarget | None, SaidMessage]):
    """The list of the person's messages. Its result is the point to go back to, or None."""

    heading = "Go back to before …"
    keys = "⏎ choose · ↑↓ move · / filter · y copy · ? keys · esc stay here"

    def __init__(self, services: RewindServices, now: Callable[[], float] = time.time) -> None:
        self._said = SaidRows(now)
        super().__init__(self._said)
        self._services = services

    def beside(self) -> Iterable[Widget]:
        yield Static(id="split-files")
        with Vertical(id="split-text"):
            yield Skinned("", look=ReaderLook(margin=0))

    def on_mount(self) -> None:
        self._load()

    @load
    async def _load(self) -> None:
        said = await self._services.said()
        self.rows.empty = EMPTY
        self.list_entries(said, f"{plural(len(said), 'message')} of yours on this branch" if said else "")
        for index, each in enumerate(said[:COUNTED_ROWS]):
            if each.files:
                await self._count(index, each)

    async def _count(self, index: int, said: SaidMessage) -> None:
        try:
            files = await self._services.describe(await self._services.changes(said.step))
        except HermesError:
            # Rows then show how many files changed, without counts of lines.
            return
        self._said.learn(index, sum(f.added or 0 for f in files), sum(f.removed or 0 for f in files))

    @work(exclusive=True, group="look")
    async def tell(self) -> None:
        """Show the message under the cursor, and what going back to it does to files."""
        files = self.query_one("#split-files", Static)
        text = self.query_one(Skinned)
        said = self.pointed
        if said is None:
            text.read("")
            files.update(Content(""))
            return
        text.read(clean(said.text[:SHOWN_CHARS]))
        if self._services.plan is None:
            files.update(Content.assemble((NOT_KEPT, "$text-muted")))
            return
        await asyncio.sleep(PAUSE)
        try:
            plan = await self._services.plan(said.step)
            changes = await self._services.describe([restore_change(item) for item in plan.shown_items])
        except HermesError as error:
            files.update(Content.assemble((line(str(error)), "$warning")))
            return
        files.update(listing(plan, changes, FILE_LINES))

    @work(exclusive=True, group="act")
    async def open_entry(self, entry: SaidMessage) -> None:
        if self._services.plan is None:
            self.dismiss(RewindTarget(entry.node, entry.step, files=False, conversation=True))
            return
        question = f"Choose what goes back to before “{line(entry.text, 200)}”"
        chosen = await self.app.push_screen_wait(TimelinePick(question, BRING_BACK))
        if chosen is not None:
            what = WHATS[chosen]
            self.dismiss(back_with(entry.node, entry.step, what))
