"""Task lists as rows: the tasks of one agent, and folded below them those of the agents it sent."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tools.context import Todo


@dataclass(frozen=True, slots=True)
class TasksBelow:
    """The task list of an agent and the task of its sender below which it stands."""

    agent: str
    name: str
    sender: str
    """The agent that sent it."""
    task: str
    """The id of the task for which it was sent; empty for none."""
    items: tuple[Todo, ...] = ()

    def having(self, items: tuple[Todo, ...]) -> TasksBelow:
        """The same with these tasks."""
        return replace(self, items=items)


@dataclass(frozen=True, slots=True)
class TodoRow:
    """A task, or the head of the list of an agent."""

    depth: int
    todo: Todo | None = None
    below: TasksBelow | None = None
    opened: bool = False


def rows_of(
    items: Sequence[Todo], below: Sequence[TasksBelow] = (), opened: Collection[str] = (), owner: str = "main"
) -> tuple[TodoRow, ...]:
    """The rows of the list of `owner`. `opened` are the agents whose lists are unfolded. Pure.

    A list whose task is gone, or that never had one, stands at the end of that of its sender.
    """
    senders: dict[str, list[TasksBelow]] = {}
    for each in below:
        senders.setdefault(each.sender, []).append(each)
    return tuple(_list(owner, items, senders, opened, 0, {owner}))


def counted(items: Sequence[Todo]) -> tuple[int, int]:
    """How many tasks are completed, of how many that were not cancelled. Pure."""
    wanted = [item for item in items if item.status != "cancelled"]
    return sum(item.status == "completed" for item in wanted), len(wanted)


def current(items: Sequence[Todo]) -> Todo | None:
    """The task in progress. Pure."""
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
