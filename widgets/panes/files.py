"""The files changed in this session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text
from textual.message import Message

from widgets.panes.pane import Pane
from widgets.row_text import one_line, spread
from widgets.rows import RowList


@dataclass(frozen=True, slots=True)
class FileChange:
    """What the session did to one file, all changes together."""

    path: str
    added: int
    """Lines added."""
    removed: int
    """Lines removed."""
    diff: str
    """The newest unified diff."""


class FilesPane(Pane):
    """One row a file with the lines added and removed; the file changed last stands last."""

    class Opened(Message):
        """The person wants to see what changed in a file."""

        def __init__(self, change: FileChange) -> None:
            super().__init__()
            self.change = change

    def __init__(self) -> None:
        super().__init__(
            "files",
            self._row,
            title="FILES",
            search_text=lambda index: one_line(self._order[index].path, 4096),
            empty="No file changed yet.",
            follow=True,
        )
        self._changes: dict[str, FileChange] = {}
        self._order: list[FileChange] = []

    @property
    def vacant(self) -> bool:
        return not self._changes

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """Every changed file, the newest change last."""
        return tuple(self._order)

    def record(self, path: str, added: int, removed: int, diff: str) -> None:
        """A change of `path`, by `added` and `removed` lines, was made; counts add up over the session."""
        before = self._changes.pop(path, None)
        if before is not None:
            added, removed = before.added + added, before.removed + removed
            self._order.remove(before)
        change = FileChange(path, added, removed, diff)
        self._changes[path] = change
        self._order.append(change)
        self.reset(len(self._order))
        self.reshaped()

    def clear(self) -> None:
        """Forget all changes, as when another session opens."""
        self._changes.clear()
        self._order = []
        self.reset(0)
        self.reshaped()

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        self.post_message(self.Opened(self._order[event.index]))

    def _row(self, index: int, width: int) -> Sequence[Text]:
        change = self._order[index]
        end = Text.assemble(
            (f"+{change.added}", self.ink("added")), " ", (f"−{change.removed}", self.ink("removed")), " "
        )
        room = max(width - end.cell_len - 4, 1)
        return [spread(self._path(one_line(change.path, 4096), room), end, width)]

    def _path(self, path: str, room: int) -> Text:
        """The path with its folders dim; too long, it loses its start, as the name matters most."""
        text = Text("   ")
        if cell_len(path) > room:
            path = path[-room:]
            while cell_len(path) > room - 1 and path:
                path = path[1:]
            path = "…" + path
        folder, slash, name = path.rpartition("/")
        return text.append(folder + slash, self.ink("dim")).append(name, self.ink("text"))
