"""Base of all screens: each may be closed at any moment, whatever it is doing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.messages import Prune
from textual.screen import ModalScreen, Screen
from textual.selection import Selection
from textual.widget import Widget
from textual.worker import Worker

Outcome = TypeVar("Outcome")

HEIGHTS = [(0, "-low"), (15, "-tall")]
"""Classes of a screen from so many lines on; a low one has no room for rules between its parts."""


class ClosableScreen(Screen[Outcome]):
    """Its work ends before its parts go, and it is dismissed once, when it is there and uppermost.

    Textual takes the parts of a screen away first and cancels its workers last, so that one which
    waited in between would come round to find nothing. It pops the uppermost screen whichever is
    dismissed, and another one for each time the same is. And a screen that goes before it is mounted
    is mounted all the same, without its parts.
    """

    VERTICAL_BREAKPOINTS = HEIGHTS

    _going = False
    _ended = False
    _outcome: Outcome | None = None

    async def on_event(self, event: events.Event) -> None:
        leaving = not (self.is_attached and self.app.is_running)
        if not (leaving and isinstance(event, events.Mount)):
            await super().on_event(event)

    async def on_prune(self, event: Prune) -> None:
        """The screen is about to go: all that its parts and it have begun is over."""
        self._going = True
        for node in self.walk_children(with_self=True):
            self.workers.cancel_node(node)

    def _watch_selections(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, old_selections: Mapping[Widget, Selection], selections: Mapping[Widget, Selection]
    ) -> None:
        """As Textual does it, but at once: its coroutine would be lost where the screen goes first."""
        for widget in old_selections.keys() | selections.keys():
            widget.selection_updated(selections.get(widget))

    def run_worker(self, work: Any, *args: Any, **options: Any) -> Worker[Any]:
        """As Textual does it; work that is begun while the screen goes ends before its first step."""
        worker = super().run_worker(work, *args, **options)
        if self._going:
            worker.cancel()
        return worker

    def dismiss(self, result: Outcome | None = None) -> AwaitComplete:
        """End with `result`: at once, or as soon as nothing lies over the screen. The first result counts."""
        if self._ended or self not in self.app.screen_stack:
            return AwaitComplete.nothing()
        self._ended, self._outcome = True, result
        return self._leave()

    def on_screen_resume(self) -> None:
        """Nothing lies over the screen any more; it is told so too when it is mounted."""
        if self._ended:
            self._leave()

    def _leave(self) -> AwaitComplete:
        if self.is_mounted and self.app.screen_stack[-1:] == [self]:
            return super().dismiss(self._outcome)
        return AwaitComplete.nothing()


class ClosableModal(ModalScreen[Outcome], ClosableScreen[Outcome]):
    """The same, over a screen that shows through."""
