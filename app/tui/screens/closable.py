"""The base class of all screens, which makes it safe to close a screen at any moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from rich.console import RenderableType
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.await_complete import AwaitComplete
from textual.color import Color
from textual.messages import Prune
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen, Screen
from textual.selection import Selection
from textual.widget import Widget
from textual.worker import Worker

Outcome = TypeVar("Outcome")

HEIGHTS = [(0, "-low"), (15, "-tall")]
"""Classes of a screen by its height in lines; a low one has no room for rules."""


class ClosableScreen(Screen[Outcome]):
    """A screen that ends its work before its widgets are removed, and is dismissed once, when mounted and on
    top.

    Textual removes the widgets of a screen first and cancels its workers last, so a worker that waited in
    between would resume without them. It pops the topmost screen whichever is dismissed, and one more for
    each repeated dismissal. A screen removed before it is mounted is still mounted, without its widgets.
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
        """Cancel the workers of the screen and its widgets, as they are about to be removed."""
        self._going = True
        for node in self.walk_children(with_self=True):
            self.workers.cancel_node(node)

    def _watch_selections(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, old_selections: Mapping[Widget, Selection], selections: Mapping[Widget, Selection]
    ) -> None:
        """Do at once what Textual does in a coroutine, which would be lost if the screen is removed first."""
        for widget in old_selections.keys() | selections.keys():
            widget.selection_updated(selections.get(widget))

    def run_worker(self, work: Any, *args: Any, **options: Any) -> Worker[Any]:
        """Start a worker as Textual does, but cancel it at once while the screen is being removed."""
        worker = super().run_worker(work, *args, **options)
        if self._going:
            worker.cancel()
        return worker

    def dismiss(self, result: Outcome | None = None) -> AwaitComplete:
        """Close the screen with `result`, now or once no other screen covers it. The first result counts."""
        if self._ended or self not in self.app.screen_stack:
            return AwaitComplete.nothing()
        self._ended, self._outcome = True, result
        return self._leave()

    def on_screen_resume(self) -> None:
        """Complete a postponed dismissal once no other screen covers this one. Textual also sends this on
        mount.
        """
        if self._ended:
            self._leave()

    def _leave(self) -> AwaitComplete:
        if self.is_mounted and self.app.screen_stack[-1:] == [self]:
            return super().dismiss(self._outcome)
        return AwaitComplete.nothing()


class ClosableModal(ModalScreen[Outcome], ClosableScreen[Outcome]):
    """A `ClosableScreen` above a screen that remains visible."""

    DIMS: ClassVar[bool] = True

    def render(self) -> RenderableType:
        """Render the screen below; use the terminal's dim attribute if its colours cannot be blended."""
        below = super().render()
        if self.DIMS and isinstance(below, BackgroundScreen) and self.app.native_ansi_color:
            return _DimScreen(below.screen, below.color)
        return below


class _DimScreen(BackgroundScreen):
    """A background screen painted with the terminal's dim attribute."""

    @classmethod
    def process_segments(cls, segments: Iterable[Segment], color: Color) -> Iterable[Segment]:
        for segment in super().process_segments(segments, color):
            yield segment if segment.control else Segment(segment.text, (segment.style or Style()) + _DIM)


_DIM = Style(dim=True)
