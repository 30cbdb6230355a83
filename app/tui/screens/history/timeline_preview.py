"""Beside the tree: the message under the cursor, and the files that changed with it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from agent.core.store.nodes import Node
from app.tui.screens.history.timeline_services import FileDifferenceRow
from app.tui.screens.history.timeline_words import about, files, message
from app.tui.screens.wording import Skinned

FILE_LINES = 12
FILE_LINES_BELOW = 4
"""Lines the files take beside the tree, and below it."""


class Preview(Vertical):
    """Shows one message at a time."""

    def __init__(self) -> None:
        super().__init__(id="timeline-preview")
        self.lines = FILE_LINES
        # Held, because a message may arrive when the screen is being taken down.
        self._about = Static(id="timeline-about")
        self._text = Skinned("", margin=0)
        self._files = Static(id="timeline-files", classes="none")
        self._changes: Sequence[FileDifferenceRow] = ()

    def compose(self) -> ComposeResult:
        yield self._about
        with Vertical(id="timeline-text"):
            yield self._text
        yield self._files

    def show(self, node: Node | None, branches: Sequence[str], now: float) -> None:
        """Show a message, or nothing."""
        self._about.update(Content("") if node is None else about(node, branches, now))
        self._text.read("" if node is None else message(node))

    def show_files(self, changes: Sequence[FileDifferenceRow]) -> None:
        """These files changed with the message."""
        self._changes = changes
        self._files.set_class(not changes, "none")
        self._files.update(files(changes, self.lines))

    def complain(self, text: str) -> None:
        """The message cannot be had."""
        self._about.update(Content.assemble((text, "$error")))
        self._text.read("")
        self.show_files(())

    def fit(self, lines: int) -> None:
        """The files may take so many lines now."""
        if lines != self.lines:
            self.lines = lines
            self.show_files(self._changes)

    def page(self, step: int) -> None:
        """Scroll the message by a screen."""
        self._text.page(step)
