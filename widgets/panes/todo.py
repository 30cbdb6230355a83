"""The live task list, with the lists of subagents."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.text import Text

from themes.states import glyph, state_of
from tools.context import Todo
from widgets.panes.pane import Pane, Summary
from widgets.rows.row_list import RowList
from widgets.rows.row_text import fit, one_line, spread


@dataclass(frozen=True, slots=True)
class TasksBelow:
    """A subagent's task list and the parent's task it belongs to."""

    agent: str
    name: str
    sender: str
    """The agent that started it."""
    task: str
    """The id of the task for which it was started; empty for none."""
    items: tuple[Todo, ...] = ()

    def having(self, items: tuple[Todo, ...]) -> TasksBelow:
        """Return a copy with these tasks."""
        return replace(self, items=items)


@dataclass(frozen=True, slots=True)
class TodoRow:
    """A task, or the header of a subagent's list."""

    depth: int
    todo: Todo | None = None
    below: TasksBelow | None = None
    opened: bool = False


def rows_of(
    items: Sequence[Todo], below: Sequence[TasksBelow] = (), opened: Collection[str] = (), owner: str = "main"
) -> tuple[TodoRow, ...]:
    """Return the rows of the list of `owner`. `opened` are the agents whose lists are unfolded. Pure.

    A list whose task does not exist comes at the end of its parent's list.
    """
    senders: dict[str, list[TasksBelow]] = {}
    for each in below:
        senders.setdefault(each.sender, []).append(each)
    return tuple(_list(owner, items, senders, opened, 0, {owner}))


def count_done(items: Sequence[Todo]) -> tuple[int, int]:
    """Return the number of completed tasks and of all tasks not cancelled. Pure."""
    wanted = [item for item in items if item.status != "cancelled"]
    return sum(item.status == "completed" for item in wanted), len(wanted)


def current_task(items: Sequence[Todo]) -> Todo | None:
    """Return the first task in progress; None if there is none."""
    return next((item for item in items if item.status == "in_progress"), None)


def _list(
    owner: str,
    items: Sequence[Todo],
    senders: dict[str, list[TasksBelow]],
    opened: Collection[str],
    depth: int,
    above: set[str],
) -> Iterator[TodoRow]:
    waiting = [each for each in senders.get(owner, ()) if each.agent not in above]
    for item in items:
        yield TodoRow(depth, todo=item)
        here = [each for each in waiting if item.id and each.task == item.id]
        waiting = [each for each in waiting if each not in here]
        for each in here:
            yield from _branch(each, senders, opened, depth + 1, above)
    for each in waiting:
        yield from _branch(each, senders, opened, depth, above)


def _branch(
    each: TasksBelow,
    senders: dict[str, list[TasksBelow]],
    opened: Collection[str],
    depth: int,
    above: set[str],
) -> Iterator[TodoRow]:
    is_open = each.agent in opened
    yield TodoRow(depth, below=each, opened=is_open)
    if is_open:
        yield from _list(each.agent, each.items, senders, opened, depth + 1, above | {each.agent})


DEEPEST = 4
"""The level after which rows are not indented any further."""


class TodoPane(Pane):
    """The agent's tasks, one per row, with its progress.

    A subagent's list is folded into one row below the task it was started for.
    """

    def __init__(self, owner: str = "main") -> None:
        """`owner` is the agent whose tasks these are."""
        super().__init__(
            "todo",
            self._row,
            title="TODO",
            search_text=self._text,
            empty="Longer work is listed here as tasks.",
        )
        self.items: tuple[Todo, ...] = ()
        self._owner = owner
        self._below: tuple[TasksBelow, ...] = ()
        self._opened: set[str] = set()
        self._rows: tuple[TodoRow, ...] = ()

    @property
    def vacant(self) -> bool:
        return not self._rows

    def show(self, items: tuple[Todo, ...], below: tuple[TasksBelow, ...] = ()) -> None:
        """Show the current list and the lists of subagents; scroll to the task in progress."""
        if (items, below) == (self.items, self._below):
            return
        moved = items != self.items
        self.items, self._below = items, below
        self._opened &= {each.agent for each in below}
        self._lay_out()
        if moved and not self.has_focus:
            self._reveal_current()

    def _lay_out(self) -> None:
        self._rows = rows_of(self.items, self._below, self._opened, self._owner)
        self.reset(len(self._rows))
        self.reshaped()

    def _reveal_current(self) -> None:
        tasks = [(at, row.todo.status) for at, row in enumerate(self._rows) if row.todo and not row.depth]
        wanted = (at for status in ("in_progress", "pending") for at, each in tasks if each == status)
        at = next(wanted, None)
        if at is not None and self.is_running:
            self.move_to(at)

    def on_resize(self) -> None:
        if not self.has_focus:
            self._reveal_current()

    def wanted_lines(self, width: int) -> int:
        if not self.is_running:
            return max(self.count, 1)
        return max(sum(len(self._row(index, width)) for index in range(self.count)), 1)

    def figure(self) -> str:
        """Return `3/5`: completed tasks of all that were not cancelled."""
        return "{}/{}".format(*count_done(self.items)) if self.items else ""

    def summary(self) -> Summary:
        at = current_task(self.items)
        note = f"{glyph('working')} {one_line(at.content, 200)}" if at else ""
        return Summary(self.title, self.figure(), note)

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        """Unfold or fold a subagent's list; on a task, the lists below it."""
        event.stop()
        agents = self._agents_at(event.index)
        if not agents:
            return
        if agents <= self._opened:
            self._opened -= agents
        else:
            self._opened |= agents
        self._lay_out()

    def _agents_at(self, index: int) -> set[str]:
        row = self._rows[index]
        if row.below is not None:
            return {row.below.agent}
        found: set[str] = set()
        for under in self._rows[index + 1 :]:
            if under.depth <= row.depth:
                break
            if under.below is not None and under.depth == row.depth + 1:
                found.add(under.below.agent)
        return found

    def _text(self, index: int) -> str:
        row = self._rows[index]
        if row.todo is not None:
            return one_line(row.todo.content)
        assert row.below is not None
        return " ".join(
            one_line(text) for text in (row.below.name, *(each.content for each in row.below.items))
        )

    def _row(self, index: int, width: int) -> Sequence[Text]:
        row = self._rows[index]
        indent = "  " * min(row.depth, DEEPEST)
        return [self._head(row, indent, width)] if row.todo is None else self._item(row.todo, indent, width)

    def _head(self, row: TodoRow, indent: str, width: int) -> Text:
        """Return a subagent's list as one line: agent, progress, current task."""
        assert row.below is not None
        at = None if row.opened else current_task(row.below.items)
        left = Text.assemble(
            f" {indent}",
            ("▾ " if row.opened else "▸ ", self.ink("dim")),
            (one_line(row.below.name) or row.below.agent, self.ink("dim", bold=True)),
        )
        left = fit(left, max(width - 8, 1))
        if at is not None:
            left.append(f"  {one_line(at.content)}", self.ink("dim"))
        done, wanted = count_done(row.below.items)
        return spread(left, Text(f"{done}/{wanted} ", self.ink("dim")), width)

    def _item(self, item: Todo, indent: str, width: int) -> Sequence[Text]:
        glyph, glyph_role, *_ = state_of(item.status)
        style = self.ink(
            "text" if item.status in ("pending", "in_progress") else "dim",
            bold=item.status == "in_progress" and not indent,
        )
        content = one_line(item.content) or "–"
        wrapped = Text(content, style).wrap(self.app.console, max(width - 4 - len(indent), 1))
        first = Text.assemble(f" {indent}", (glyph, self.ink(glyph_role)), " ", wrapped[0])
        return [first, *(Text(f"   {indent}").append_text(line) for line in wrapped[1:])]
