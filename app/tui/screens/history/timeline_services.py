"""Parts that the screens of history share: the change of a file, the choice of what goes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from textual.app import ComposeResult
from textual.content import Content

from app.tui.screens.dialog import Choices, Dialog, Hints
from app.tui.screens.page import line, words
from widgets.timeline.paint import shown_path

SIGNS = {"added": ("A", "$added"), "changed": ("M", "$accent"), "deleted": ("D", "$removed")}
"""Sign and colour of each kind of change."""

What = Literal["both", "conversation", "files", "some"]
"""The parts that a restore brings back; with `some`, files are chosen one by one."""


@dataclass(frozen=True, slots=True)
class FileDifferenceRow:
    """The change of a file between two points. Counts of lines are None if they cannot be counted."""

    path: str
    kind: Literal["added", "changed", "deleted"] = "changed"
    added: int | None = None
    removed: int | None = None
    note: str = ""
    """Further information, such as `binary` or `mode 644 → 755`."""


@dataclass(frozen=True, slots=True)
class Sides:
    """A file's text at two points; None if the file is missing or not text that can be shown."""

    before: str | None
    after: str | None
    note: str = ""
    """The reason why a side cannot be shown; empty if both can."""


def file_line(change: FileDifferenceRow) -> Content:
    """Return a change as one line: `M src/money.py +6 −3`."""
    sign, color = SIGNS[change.kind]
    return Content.assemble(
        (sign, color),
        f" {shown_path(change.path)} ",
        (f" +{change.added:,}" if change.added else "", "$added"),
        (f" −{change.removed:,}" if change.removed else "", "$removed"),
        (f" · {line(change.note, 120)}" if change.note else "", "$text-muted"),
    )


WHATS: tuple[What, ...] = ("both", "conversation", "files", "some")
BRING_BACK = (
    "Conversation and files",
    "Only the conversation; files stay as they are",
    "Only the files; the conversation continues from its end",
    "Some files or hunks, chosen on the next screen",
)
NOTHING = "Leave everything as it is"


class TimelinePick(Dialog[int | None]):
    """A dialog with several choices. Its result is an index; None for the last choice, which changes
    nothing.
    """

    leaves = "leave everything as it is"

    def __init__(self, question: str, choices: Sequence[str]) -> None:
        super().__init__()
        self._question = question
        self._choices = choices

    def body(self) -> ComposeResult:
        yield words(self._question)
        yield Choices([*self._choices, NOTHING], chosen=len(self._choices))
        yield Hints()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        self.dismiss(event.option_index if event.option_index < len(self._choices) else None)

    def decline(self) -> None:
        self.dismiss(None)
