"""The timeline: the tree of a session with messages and file changes, where the user can go back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from agent.core.store.branches import OutlineRow, ended_as
from agent.core.store.marks import NodeMark
from agent.core.store.nodes import BranchHead, Node, first_line
from agent.core.store.stored_path import position_of, with_ids
from agent.errors import HermesError
from agent.session.conversation.stored_events import call_titles, notice_text, readable_rows
from agent.workspace.checkpoints import state_listings
from agent.workspace.checkpoints.entries import PathChange
from agent.workspace.checkpoints.git_words import git_apart, step_apart, step_names
from agent.workspace.checkpoints.unit_marks import units_of
from app.tui.commands.history_actions import HistoryActions
from app.tui.screens.dialog import DetailScreen, TextDialog
from app.tui.screens.history.timeline_files import (
    BRING_BACK,
    WHATS,
    FileChanges,
    FileDifferenceRow,
    FilesScreen,
    Sides,
    TimelinePick,
    What,
    file_line,
)
from app.tui.screens.page import PAGE_STYLE, Field, KeyLine, Page, Skinned, line
from app.tui.screens.sessions.sessions import age
from tools.registry import registry
from tools.text.safe_text import clean
from tools.text.words import plural
from widgets.rows.reader import ReaderLook
from widgets.rows.row_list import RowList
from widgets.timeline.layout import (
    FILTERS,
    BranchTag,
    BranchTip,
    Drawing,
    NodeRow,
    TimelineFilter,
    build_tree,
    lay_out,
)
from widgets.timeline.paint import steps_of
from widgets.timeline.view import Minimap, Timeline

if TYPE_CHECKING:
    from agent.api.session import SessionClient


class EngineTimeline:
    """The functions that the timeline calls. Each raises `HermesError`; nodes are given by id."""

    def __init__(self, client: SessionClient, history_actions: HistoryActions) -> None:
        self._client = client
        self._history = client.history
        self._history_actions = history_actions
        self._files = FileChanges(self._history.contents)

    # The tree

    async def nearby(self, at: int | None, count: int) -> Sequence[OutlineRow]:
        """Return at most `count` rows around the node `at`, or before the end of the branch in use.

        They are shown while the whole tree is read, so this must be quick. May be empty.
        """
        path = self._client.path
        end = position_of(path, at) + 1 if at is not None and with_ids(path, [at]) else len(path)
        start = max(min(end + count // 2, len(path)) - count, 0)
        near = path[start : start + count]
        titles = {id: title for node in near for id, title in call_titles(node, registry).items()}
        return readable_rows((_row(node) for node in near if node.kind != "inner"), registry, titles)

    async def outline(self) -> Sequence[OutlineRow]:
        return await self._history.outline()

    async def heads(self) -> Sequence[BranchHead]:
        return await self._history.heads()

    async def marks(self) -> Sequence[NodeMark]:
        return await self._history.marks()

    async def mark(self, node: int, *, label: str | None = None, bookmarked: bool | None = None) -> NodeMark:
        return await self._history.mark(node, label=label, bookmarked=bookmarked)

    async def node(self, node: int) -> Node:
        return await self._history.node(node)

    # Files

    async def steps(self) -> Mapping[int, Sequence[str]]:
        """Return the files that each step of the session changed, by the step's number."""
        return {step.number: step_names(step) for step in await self._history.steps()}

    async def labels(self) -> Mapping[int, str]:
        """Return the cause of each step of the session, such as `write src/app.py`, by its number."""
        # Changes by others in between do not belong to the call.
        return {step.number: step.label for step in await self._history.steps() if step.kind != "outside"}

    async def counts(self, steps: Iterable[int]) -> Mapping[int, tuple[int, int]]:
        """Return the numbers of lines added and removed by each step, if it changed text files."""
        wanted = set(steps)
        found: dict[int, tuple[int, int]] = {}
        for step in await self._history.steps():
            if step.number in wanted:
                told = await self._files.describe_all(step_apart(step).files)
                if any(each.added is not None for each in told):
                    found[step.number] = (sum(e.added or 0 for e in told), sum(e.removed or 0 for e in told))
        return found

    async def files_of(self, steps: Sequence[int]) -> Sequence[FileDifferenceRow]:
        """Return the combined file changes of steps, given by their numbers, of which there must be one."""
        wanted = set(steps)
        those = [step for step in await self._history.steps() if step.number in wanted]
        found = state_listings.difference(those, min(wanted) - 1, max(wanted))
        told = await self._files.describe_all(git_apart(found, units_of(those)).files)
        # Changes of git by several steps are one line each.
        return [*told, *(FileDifferenceRow(".git", note=step.git) for step in those if step.git)]

    async def difference(self, one: int, other: int) -> Sequence[FileDifferenceRow]:
        return await self._files.describe_all(await self._changes(one, other))

    async def sides(self, one: int, other: int, path: str) -> Sides:
        for change in await self._changes(one, other):
            if change.path == path:
                return await self._files.sides(change)
        return Sides(None, None, "This file is the same at both points.")

    async def _changes(self, one: int, other: int) -> Sequence[PathChange]:
        first, second = await self._history.position_of(one), await self._history.position_of(other)
        return await self._history.changes(first, second)

    # Actions

    async def restore(self, node: int, what: What) -> str:
        return await self._history_actions.back_to(node, what)

    async def fork(self, node: int, name: str, *, carry_over: bool = False) -> str:
        return await self._history_actions.fork(node, name, carry_over=carry_over)

    async def switch(self, head: str) -> str:
        return await self._history_actions.switch(head)

    async def rename(self, head: str, name: str) -> str:
        return await self._history_actions.rename(head, name)

    async def export(self, node: int) -> str:
        """Write the conversation up to a node as a self-contained HTML page; return a notice."""
        file = await self._client.export(node)
        return f"Written to {file}; it shows everything up to here, secrets masked."


def _row(node: Node) -> OutlineRow:
    data = node.data
    step, usage, calls = data.get("step"), data.get("usage"), data.get("calls")
    tokens = usage.get("output") if isinstance(usage, dict) else None
    state = data.get("state")
    return OutlineRow(
        node.id,
        node.parent,
        node.kind,
        node.created,
        first_line(str(data.get("shown") or node.content)[:400]),
        step if isinstance(step, int) else None,
        str(data.get("tool") or ""),
        ended_as(data.get("outcome") or (state if state != "complete" else ""), node.kind, node.content),
        str(data.get("origin") or ""),
        tokens if isinstance(tokens, int) else None,
        len(calls) if isinstance(calls, list) else 0,
        json.dumps([data.get("call"), None]),
    )


KINDS = {
    "user": "You",
    "assistant": "Hermes",
    "notice": "Notice",
    "compaction": "Summary",
    "system": "Instructions",
}
MOST_CHARS = 200_000
"""The number of characters of a message that are shown beside the tree."""


def about(node: Node, tool: str, branches: Sequence[str], now: float) -> Content:
    """Return the author of a message or the title of a call, with its age, outcome and branches."""
    who = KINDS.get(node.kind) or line(tool or node.kind, 60)
    if node.kind == "user" and node.data.get("origin") == "engine":
        who = "Hermes to the model"
    ended = str(node.data.get("outcome") or "")
    parts = [age(now - node.created)]
    if ended and ended != "done":
        parts.insert(0, line(ended, 40))
    if branches:
        parts.append(line(", ".join(branches[:3]) + (" …" if len(branches) > 3 else ""), 120))
    return Content.assemble((who, "bold $accent"), (f" · {' · '.join(parts)}", "$text-muted"))


def message(node: Node) -> str:
    """Return a message as text with the titles of its calls; of a long one, only the beginning."""
    text = clean((notice_text(node) if node.kind == "notice" else node.content)[:MOST_CHARS]).strip("\n")
    if titles := call_titles(node, registry):
        text += ("\n\n" if text else "") + "Calls " + ", ".join(line(each, 60) for each in titles.values())
    if len(node.content) > MOST_CHARS:
        text += f"\n\n… {len(node.content) - MOST_CHARS:,} more characters; ⏎ opens all of them"
    return text or "No words."


def files(changes: Sequence[FileDifferenceRow], lines: int) -> Content:
    """Return the files that a message changed, in at most `lines` lines."""
    if not changes:
        return Content("")
    shown = changes if len(changes) < lines else changes[: max(lines - 2, 0)]
    parts: list[Content] = [Content.assemble((f"± {plural(len(changes), 'file')}", "bold"))]
    parts += [file_line(change) for change in shown]
    if len(shown) < len(changes):
        parts.append(Content.assemble((f"… {plural(len(changes) - len(shown), 'more file')}", "$text-muted")))
    return Content("\n").join(parts)


def next_name(names: Sequence[str]) -> str:
    """Return a free name for a new branch."""
    number = 2
    while f"branch-{number}" in names:
        number += 1
    return f"branch-{number}"


FILE_LINES = 12
FILE_LINES_BELOW = 4
"""The number of lines for files beside the tree, and below it."""


class Preview(Vertical):
    """A widget that shows one message and the files changed by it."""

    def __init__(self) -> None:
        super().__init__(id="timeline-preview")
        self.lines = FILE_LINES
        # Kept as an attribute, because a message may arrive while the screen is being removed.
        self._about = Static(id="timeline-about")
        self._text = Skinned("", look=ReaderLook(margin=0))
        self._files = Static(id="timeline-files", classes="none")
        self._changes: Sequence[FileDifferenceRow] = ()

    def compose(self) -> ComposeResult:
        yield self._about
        yield self._files
        with Vertical(id="timeline-text"):
            yield self._text

    def show(self, node: Node | None, tool: str, branches: Sequence[str], now: float) -> None:
        """Show a message, or nothing; `tool` is the title of the call whose result it is."""
        self._about.update(Content("") if node is None else about(node, tool, branches, now))
        self._text.read("" if node is None else message(node))

    def show_files(self, changes: Sequence[FileDifferenceRow]) -> None:
        """Show the files that changed with the message."""
        self._changes = changes
        self._files.set_class(not changes, "none")
        self._files.update(files(changes, self.lines))

    def show_error(self, text: str) -> None:
        """Show why the message cannot be loaded."""
        self._about.update(Content.assemble((text, "$error")))
        self._text.read("")
        self.show_files(())

    def fit(self, lines: int) -> None:
        """Limit the files to `lines` lines."""
        if lines != self.lines:
            self.lines = lines
            self.show_files(self._changes)

    def page(self, step: int) -> None:
        """Scroll the message by a page."""
        self._text.page(step)


NEARBY = 200
"""The number of messages that are shown while the others are read."""
WIDE = 100
"""The number of columns from which the preview is next to the tree."""
PAUSE = 0.05
"""Seconds that the cursor rests before the preview is loaded."""
ACTIONS = "R restore · b branch · S switch · c compare · e label · esc back"
WAYS = "⏎ open · space fold · s scope · / search · n next · ? keys"


class TimelineScreen(Page[None]):
    """The timeline screen. It opens with the nodes near a position, and adds the rest of the tree later."""

    CSS_PATH: ClassVar = [PAGE_STYLE, "timeline.tcss"]
    AUTO_FOCUS = "Timeline"
    heading = "Timeline"
    keys = WAYS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("R", "restore", "Restore", id="timeline.restore"),
        Binding("b", "branch", "Branch from here", id="timeline.branch"),
        Binding("B", "branch(True)", "Branch, and carry over a note of what is left", id="timeline.carry"),
        Binding("S", "switch", "Switch to this branch", id="timeline.switch"),
        Binding("r", "rename", "Rename this branch", id="timeline.rename"),
        Binding("e", "label", "Label", id="timeline.label"),
        Binding("asterisk", "bookmark", "Bookmark", id="timeline.bookmark"),
        Binding("m", "mark", "Compare from here", id="timeline.mark"),
        Binding("c", "compare", "Compare with the marked point", id="timeline.compare"),
        Binding("E", "export", "Export", id="timeline.export"),
        Binding("[", "page(-1)", "Page the message up", show=False, id="timeline.page_up"),
        Binding("]", "page(1)", "Page the message down", show=False, id="timeline.page_down"),
    ]

    def __init__(
        self, services: EngineTimeline, *, at: int | None = None, now: Callable[[], float] = time.time
    ) -> None:
        """`at` is the id of the first node under the cursor; without it, the end of the branch in use."""
        self._minimap = Minimap()
        self.timeline = Timeline(self._minimap, now)
        super().__init__(self.timeline)
        self._services = services
        self._at = at
        self._now = now
        self._preview = Preview()
        self._near = asyncio.Event()
        self.complete = False
        """True once the whole tree is shown."""

    def compose(self) -> ComposeResult:
        yield self.head
        with Horizontal(id="timeline-body"):
            with Vertical(id="timeline-tree"):
                with Horizontal():
                    yield self.timeline
                    yield self._minimap
                yield Field(placeholder="words to look for", compact=True, id="timeline-search")
            yield self._preview
        yield KeyLine(ACTIONS, id="timeline-actions")
        yield self.foot

    async def on_mount(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.state("reading …")
        self._load(self._at)
        # Painting a frame without rows first would cost as much as one with rows.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PAUSE):
                await self._near.wait()

    def on_resize(self) -> None:
        narrow = self.size.width < WIDE
        self.set_class(narrow, "narrow")
        self._preview.fit(FILE_LINES_BELOW if narrow else FILE_LINES)

    def _apply_skin(self) -> None:
        super()._apply_skin()
        self._minimap.use(self.timeline.palette)

    # The tree

    @work(exclusive=True, group="load")
    async def _load(self, at: int | None) -> None:
        """Read and show the tree; until all of it is read, show only nodes near `at`."""
        services = self._services
        try:
            heads = await services.heads()
            if not self.complete:
                near = await services.nearby(at, NEARBY)
                self.timeline.show_drawing(
                    lay_out_tree(near, heads, (), {}, self.timeline.timeline_filter), at
                )
                self._near.set()
            rows, marks = await services.outline(), await services.marks()
            paths, labels = await services.steps(), await services.labels()
        except HermesError as error:
            self.fail(error)
            return
        drawing = await asyncio.to_thread(
            lay_out_tree, rows, heads, marks, paths, self.timeline.timeline_filter, labels
        )
        # Do not move the cursor if the user has moved it.
        known = at is None or self.timeline.nodes.index(at) >= 0
        self.complete = True
        self.timeline.show_drawing(drawing, None if known else at)
        # The nearest rows were drawn without files; the row under the cursor gets them now.
        self._show(self.timeline.selected_node)

    def on_timeline_changed(self) -> None:
        self._say_state()
        # Nodes folded under a row count as part of it.
        self._show(self.timeline.selected_node)

    def _say_state(self) -> None:
        shown, look = self.timeline, self.timeline.timeline_filter
        self._preview.set_class(self.complete and not shown.nodes.rows, "none")
        if self.complete:
            self.offer(bool(shown.nodes.rows))
        if self.complete and not shown.nodes.rows:
            self.state("")
            return
        total = plural(len(shown.nodes.rows), "message") if self.complete else "reading …"
        parts = [total, plural(len(shown.nodes.tips) or 1, "branch").replace("branchs", "branches")]
        if look.filter != "all":
            parts.insert(0, f"only {FILTERS[look.filter]}")
        if look.needle:
            parts.insert(0, f"“{look.needle}” in {plural(len(shown.found), 'message')}")
        self.state(" · ".join(parts))

    def on_timeline_counted(self, event: Timeline.Counted) -> None:
        self._count(event.steps)

    @work(group="count")
    async def _count(self, steps: frozenset[int]) -> None:
        try:
            known = await self._services.counts(steps)
        except HermesError:
            # Rows then show which files changed, without counts of lines.
            return
        self.timeline.set_line_counts({step: known.get(step, (0, 0)) for step in steps})

    def on_minimap_jumped(self, event: Minimap.Jumped) -> None:
        self.timeline.move_to(event.line)

    # The preview

    def on_timeline_pointed(self, event: Timeline.Pointed) -> None:
        self._show(event.row)

    @work(exclusive=True, group="preview")
    async def _show(self, row: NodeRow | None) -> None:
        if row is None:
            self._preview.show(None, "", (), 0)
            self._preview.show_files(())
            return
        # A cursor that passes a thousand rows loads none of them.
        await asyncio.sleep(PAUSE)
        # The drawing may have been replaced in between.
        drawing = self.timeline.drawing
        tree, number = drawing.tree, drawing.line_of(row.id)
        if number < 0:
            return
        steps = steps_of(tree, drawing.lines[number])
        try:
            node = await self._services.node(row.id)
            self._preview.show(node, row.tool, tree.branches_through(tree.index(row.id)), self._now())
            self._preview.show_files(await self._services.files_of(steps) if steps else ())
        except HermesError as error:
            self._preview.show_error(line(str(error)))

    def action_page(self, step: int) -> None:
        self._preview.page(step)

    # Search

    def on_timeline_searching(self) -> None:
        field = self.query_one("#timeline-search", Input)
        field.add_class("open")
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.timeline.search(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.timeline.focus()
        if not event.value.strip():
            self._close_search()
        elif self.timeline.found:
            self.timeline.reveal(self._nearest())
        else:
            self.notify("Nothing of that was said in this session.", markup=False)

    def _nearest(self) -> int:
        """Return the first match at or after the cursor, or if there is none the first of all."""
        tree, at = self.timeline.nodes, self.timeline.index
        ahead = (node for node in self.timeline.found if at is not None and tree.rank[node] >= tree.rank[at])
        return next(ahead, self.timeline.found[0])

    def _close_search(self) -> None:
        field = self.query_one("#timeline-search", Input)
        field.value = ""
        field.remove_class("open")
        self.timeline.focus()

    def action_back(self) -> None:
        if self.timeline.timeline_filter.needle or self.query_one("#timeline-search", Input).has_focus:
            if self.timeline.timeline_filter.filter == "matches":
                self.timeline.change_filter(TimelineFilter())
            self._close_search()
        elif self.timeline.compared is not None:
            self.timeline.compare_from(None)
        else:
            self.dismiss(None)

    # Actions

    @work(exclusive=True, group="act")
    async def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        row = self.timeline.selected_node
        if row is None:
            return
        try:
            node = await self._services.node(row.id)
        except HermesError as error:
            self.notify(line(str(error)), severity="error", markup=False)
            return
        self.app.push_screen(DetailScreen(row.text or row.kind, node.content))

    @work(exclusive=True, group="act")
    async def action_restore(self) -> None:
        row = self.timeline.selected_node
        if row is None:
            return
        question = f"Choose what goes back to “{line(row.text or row.kind, 200)}”"
        chosen = await self.app.push_screen_wait(TimelinePick(question, BRING_BACK))
        if chosen is not None:
            what = WHATS[chosen]
            await self._do(lambda: self._services.restore(row.id, what))

    @work(exclusive=True, group="act")
    async def action_branch(self, carry_over: bool = False) -> None:
        row = self.timeline.selected_node
        if row is None:
            return
        names = [name for ends in self.timeline.nodes.tips.values() for name in ends]
        question = "Name of the new branch; the model is told what was done on the one that is left"
        asked = TextDialog(question if carry_over else "Name of the new branch", next_name(names))
        name = await self.app.push_screen_wait(asked)
        if name and name.strip():
            await self._do(lambda: self._services.fork(row.id, name.strip(), carry_over=carry_over))

    @work(exclusive=True, group="act")
    async def action_switch(self) -> None:
        current = self.timeline.nodes.branch
        head = await self._branch("Choose a branch", leave_out=current)
        if head is not None:
            await self._do(lambda: self._services.switch(head))

    @work(exclusive=True, group="act")
    async def action_rename(self) -> None:
        head = await self._branch("Choose the branch to rename")
        if head is None:
            return
        name = await self.app.push_screen_wait(TextDialog(f"New name of the branch {line(head)}", head))
        if name and name.strip() and name.strip() != head:
            await self._do(lambda: self._services.rename(head, name.strip()))

    async def _branch(self, question: str, leave_out: str = "") -> str | None:
        """Return the branch of the node under the cursor, asking if there are several; None for none."""
        at = self.timeline.index
        if at is None:
            return None
        through = self.timeline.nodes.branches_through(at)
        names = [name for name in through if name != leave_out]
        if not names:
            said = "This is the branch in use." if through else "No branch leads through here; b begins one."
            self.notify(said, markup=False)
            return None
        if len(names) == 1 or (not leave_out and names[0] in self.timeline.nodes.tips.get(at, ())):
            return names[0]
        chosen = await self.app.push_screen_wait(TimelinePick(question, names[:9]))
        return None if chosen is None else names[chosen]

    @work(exclusive=True, group="act")
    async def action_label(self) -> None:
        row, at = self.timeline.selected_node, self.timeline.index
        if row is None or at is None:
            return
        tag = self.timeline.nodes.tags.get(at)
        label = await self.app.push_screen_wait(
            TextDialog("Label; empty takes it away", tag.label if tag else "")
        )
        if label is not None:
            await self._do(lambda: self._mark(row.id, label=label))

    @work(exclusive=True, group="act")
    async def action_bookmark(self) -> None:
        row, at = self.timeline.selected_node, self.timeline.index
        if row is None or at is None:
            return
        tag = self.timeline.nodes.tags.get(at)
        await self._do(lambda: self._mark(row.id, bookmarked=not (tag and tag.bookmarked)))

    async def _mark(self, node: int, **put: str | bool) -> str:
        await self._services.mark(node, **put)  # type: ignore[arg-type]
        return ""

    def action_mark(self) -> None:
        row = self.timeline.selected_node
        if row is not None:
            self.timeline.compare_from(None if self.timeline.compared == row.id else row.id)

    def action_compare(self) -> None:
        row, start = self.timeline.selected_node, self.timeline.compared
        if row is None:
            return
        if start is None or start == row.id:
            self.notify("Press m on one point first, then d on the other.", markup=False)
            return
        tree = self.timeline.nodes
        first = tree.index(start)
        name = tree.rows[first].text if first >= 0 else ""
        self.app.push_screen(
            FilesScreen(self._services.difference, self._services.sides, (start, name), (row.id, row.text))
        )

    @work(exclusive=True, group="act")
    async def action_export(self) -> None:
        row = self.timeline.selected_node
        if row is not None:
            await self._do(lambda: self._services.export(row.id))

    async def _do(self, act: Callable[[], Awaitable[str]]) -> None:
        try:
            said = await act()
        except HermesError as error:
            self.notify(line(str(error)), severity="error", markup=False)
            return
        if said:
            self.notify(line(said), markup=False)
        self._load(None)


def lay_out_tree(
    rows: Sequence[NodeRow],
    heads: Sequence[BranchHead],
    marks: Sequence[NodeMark],
    paths: Mapping[int, Sequence[str]],
    look: TimelineFilter,
    labels: Mapping[int, str] | None = None,
) -> Drawing:
    """Arrange the tree of a session for display. Pure."""
    tips = [BranchTip(head.name, head.node) for head in heads]
    tags = [BranchTag(mark.node, mark.label, mark.bookmarked) for mark in marks]
    return lay_out(build_tree(rows, tips, heads[0].name if heads else "", tags, paths, labels), look)
