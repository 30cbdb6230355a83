"""The pane of files changed during this session, by its calls or by other programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message

from widgets.panes.pane import Pane, Summary
from widgets.rows.row_list import RowList
from widgets.rows.row_text import one_line, spread

KEPT = 5_000
"""The maximum number of listed files; beyond it, those changed longest ago are only counted."""

WORDS: Mapping[str, str] = {"added": "new", "modified": "changed", "removed": "removed"}


@dataclass(frozen=True, slots=True)
class PaneFileChange:
    """The changes of one file, made by the session or by other programs."""

    path: str
    added: int
    """Lines added."""
    removed: int
    """Lines removed."""
    diff: str
    """The newest unified diff; empty where there is none, as for binary files."""
    kind: Literal["added", "modified", "removed"] = "modified"
    outside: bool = False
    """Whether the user or another program made the changes, and not the session."""


class FilesPane(Pane):
    """A pane with one row per file, its added and removed lines; the file changed most recently is last.

    Files changed by other programs have separate rows with a notice mark above those of the session, which a
    switched branch must not push out of sight. Files ignored by git are hidden until requested, then listed
    at the top.
    """

    KEYS: ClassVar[str] = "⏎ diff · s ignored files · "
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s,full_stop", "ignored", "Show ignored files, or leave them out", id="files.ignored")
    ]

    class Opened(Message):
        """Request to show the changes of a file."""

        def __init__(self, change: PaneFileChange) -> None:
            super().__init__()
            self.change = change

    class IgnoredAsked(Message):
        """Request for changed ignored files; answer with `show_ignored`."""

    def __init__(self) -> None:
        super().__init__(
            "files",
            self._row,
            title="FILES",
            search_text=lambda index: one_line(self._order[index].path, 4096),
            empty="No file changed yet.",
            follow=True,
        )
        self._changes: dict[tuple[str, bool], PaneFileChange] = {}
        self._order: list[PaneFileChange] = []
        self._ignored: tuple[PaneFileChange, ...] = ()
        """The files ignored by git, while they are shown."""
        self._unnamed = Counter[bool]()
        """The number of files that are only counted, by whether other programs changed them."""
        self.unsettled: set[str] = set()
        """The session's files whose line counts were added up since the last `set_net_changes`."""

    @property
    def vacant(self) -> bool:
        return not self._changes

    @property
    def changes(self) -> tuple[PaneFileChange, ...]:
        """Every changed file but ignored ones: those changed by other programs first, then by time."""
        return tuple(sorted(self._changes.values(), key=lambda change: not change.outside))

    def record(self, changes: Iterable[PaneFileChange], *, outside: bool = False) -> None:
        """Add changes, by other programs if `outside`; line counts add up until `set_net_changes`."""
        for change in changes:
            before = self._changes.pop((change.path, outside), None)
            if not outside:
                self.unsettled.add(change.path)
            self._changes[change.path, outside] = PaneFileChange(
                change.path,
                change.added + (before.added if before else 0),
                change.removed + (before.removed if before else 0),
                change.diff,
                change.kind,
                outside,
            )
        if (surplus := len(self._changes) - KEPT) > 0:
            for oldest in self.changes[:surplus]:
                del self._changes[oldest.path, oldest.outside]
                self._unnamed[oldest.outside] += 1
        self._arrange()

    def set_net_changes(self, net: Mapping[str, PaneFileChange | None]) -> None:
        """Replace the session's changes to these files with the net changes; remove a file with none."""
        for path, change in net.items():
            if change is None:
                self._changes.pop((path, False), None)
            elif (path, False) in self._changes:
                self._changes[path, False] = change
        self._arrange()

    def show_ignored(self, changes: Iterable[PaneFileChange]) -> int:
        """List these changes at the top, without files already listed; return how many were added."""
        listed = {path for path, _ in self._changes}
        self._ignored = tuple(change for change in changes if change.path not in listed)
        self._arrange()
        return len(self._ignored)

    def action_ignored(self) -> None:
        """Request the ignored files, or hide them again."""
        if self._ignored:
            self.show_ignored(())
        else:
            self.post_message(self.IgnoredAsked())

    def _arrange(self) -> None:
        self._order = [*self._ignored, *self.changes]
        self.reset(len(self._order))
        self.reshaped()

    def count_unnamed(self, count: int, *, outside: bool = False) -> None:
        """Count further changed files, by other programs if `outside`, without listing them."""
        self._unnamed[outside] += count
        self.reshaped()

    def clear(self) -> None:
        """Forget all changes, as when another session opens."""
        self._changes.clear()
        self.unsettled.clear()
        self._ignored = ()
        self._unnamed.clear()
        self._arrange()

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        self.post_message(self.Opened(self._order[event.index]))

    def figure(self) -> str:
        """Return the number of files that the session changed, and of those that other programs changed."""
        text = " · ".join(filter(None, self._totals()))
        return f"{text} + {len(self._ignored):,} ignored".strip() if self._ignored else text

    def summary(self) -> Summary:
        own, others = self._totals()
        return Summary(self.title, own or others)

    def _totals(self) -> tuple[str, str]:
        """Return the numbers of files changed by the session and by others; unlisted files as `5 of 7`."""
        named = sum(not outside for _, outside in self._changes)
        others = len(self._changes) - named + self._unnamed[True]
        unnamed = self._unnamed[False]
        own = f"{named:,} of {named + unnamed:,}" if unnamed else f"{named:,}" if named else ""
        return own, f"{others:,} by others" if others else ""

    def _row(self, index: int, width: int) -> Sequence[Text]:
        change = self._order[index]
        end = self._lines(change).append(" ")
        room = max(width - end.cell_len - 4, 1)
        if index < len(self._ignored):
            mark = Text(" · ", self.ink("dim"))
        else:
            mark = Text(" ┊ " if change.outside else "   ", self.ink("warning"))
        return [spread(mark.append_text(self._path(one_line(change.path, 4096), room)), end, width)]

    def _lines(self, change: PaneFileChange) -> Text:
        """Return the numbers of added and removed lines; a word if they were not counted."""
        if not change.added and not change.removed:
            return Text(WORDS[change.kind], self.ink("dim"))
        return Text.assemble(
            (f"+{change.added}", self.ink("added")), " ", (f"−{change.removed}", self.ink("removed"))
        )

    def _path(self, path: str, room: int) -> Text:
        """Return the path with dim folders; a long path is cut at its start to keep the name."""
        text = Text()
        if cell_len(path) > room:
            path = path[-room:]
            while cell_len(path) > room - 1 and path:
                path = path[1:]
            path = "…" + path
        folder, slash, name = path.rpartition("/")
        return text.append(folder + slash, self.ink("dim")).append(name, self.ink("text"))
