"""The dialog that fetches a local model, with progress; a message said meanwhile is sent when it is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from threading import Event
from typing import Protocol

from textual import work
from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from agent.errors import HermesError
from agent.model.local.pull import Listener, Progress
from agent.model.local.sources import PROVENANCE, StoppedError, Weights
from app.tui.screens.dialog import Dialog, Hints
from app.tui.screens.field import Field
from app.tui.screens.keyline import BETWEEN
from app.tui.screens.wording import line, words
from widgets.panes.figures import elapsed, gauge, percent

LOOKS = 0.2
"""Seconds between two looks at how far it is."""
BAR = 18
"""Cells of the bar."""
GRACE = 2.0
"""Seconds that a stopped fetch has to end before the dialog leaves it alone."""
SAID = {"fetch": "fetching", "verify": "checking that it is the original"}


class Fetcher(Protocol):
    """Where weights come from; `app.tui.screens.models.model_menu.ModelMenu` is the real one."""

    def fetch(self, weights: Weights, listener: Listener, stop: Event) -> None: ...


class FetchDialog(Dialog[bool]):
    """Ends with True once the model is here. Esc stops; what came so far is kept for the next time."""

    at_once = True

    def __init__(self, weights: Weights, fetcher: Fetcher, hold: Callable[[str], None] | None = None) -> None:
        """`hold` takes a message that waits for the model; without it none can be said meanwhile."""
        super().__init__(self._take if hold is not None else None)
        self._weights = weights
        self._fetcher = fetcher
        self._hold = hold
        self._stop = Event()
        self._progress: Progress | None = None
        self._pace = Pace()
        self._failed = ""
        self._held = 0

    def body(self) -> ComposeResult:
        size = f", {gigabytes(self._weights.size)}" if self._weights.size else ""
        yield Static(Content(line(f"◆ Fetching {self._weights.title}{size}")), classes="who")
        url = self._weights.url
        yield words(f"It comes from {url}." if url else f"It was {PROVENANCE}", "text")
        yield Static("", id="progress", classes="name")
        if self._hold is not None:
            yield Field(placeholder="Say what to do; it is sent when the model is there", compact=True)
            yield Static("", id="held", classes="note")
        yield Hints()

    def entry(self) -> Widget:
        return self.query_one(Hints if self._hold is None else Field)

    def on_mount(self) -> None:
        self.set_interval(LOOKS, self._show)
        self._fetch()

    def on_unmount(self) -> None:
        self._stop.set()

    @work(exclusive=True, group="fetch")
    async def _fetch(self) -> None:
        self._failed, self._progress, self._pace, self._stop = "", None, Pace(), Event()
        self._show()
        self._fit()
        listener = Listener(progress=self._heard, note=lambda _sentence: None)
        fetching = asyncio.to_thread(self._fetcher.fetch, self._weights, listener, self._stop)
        try:
            await fetching
        except StoppedError:
            return
        except HermesError as error:
            self._failed = str(error)
            self._show()
            self._fit()
            return
        for field in self.query(Input):
            self._keep(field.value.strip())
        self.dismiss(True)

    def _heard(self, progress: Progress) -> None:
        """Called in the thread that fetches."""
        self._progress = progress

    def _show(self) -> None:
        """How far it is, or why it is not."""
        shown = f"✗ {self._failed}" if self._failed else self._how_far()
        self.query_one("#progress", Static).update(Content(line(shown)))

    def _how_far(self) -> str:
        progress = self._progress
        if progress is None or not progress.total:
            return "looking for it …"
        share = progress.done / progress.total
        amount = f"{megabytes(progress.done)} of {megabytes(progress.total)}"
        left = self._pace.left(progress, time.monotonic())
        parts = [f"{gauge(share, BAR)} {percent(share)}", amount, *left]
        if progress.stage != "fetch":
            parts.append(SAID[progress.stage])
        return " · ".join(parts)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if text := event.value.strip():
            self._keep(text)
            event.input.clear()
            count = "1 message waits" if self._held == 1 else f"{self._held} messages wait"
            self.query_one("#held", Static).update(Content(f"{count} for the model: {line(text, 60)}"))
        else:
            self.key_enter()

    def key_enter(self) -> None:
        """Begin again what has failed."""
        if self._failed:
            self._fetch()

    def _keep(self, text: str) -> None:
        if text and self._hold is not None:
            self._hold(text)
            self._held += 1

    def _hints(self, *, scrolls: bool) -> str:
        enters = ["⏎ try again"] if self._failed else ["⏎ hold the message"] if self._hold is not None else []
        return BETWEEN.join([*enters, "esc stop; what is here is kept"])

    def decline(self) -> None:
        self._stop_and_leave()

    @work(exclusive=True, group="leave")
    async def _stop_and_leave(self) -> None:
        """Stop, and leave once the file is nobody's any more."""
        self._stop.set()
        end = time.monotonic() + GRACE
        while any(each.group == "fetch" and each.is_running for each in self.workers):
            if time.monotonic() > end:
                break
            await asyncio.sleep(0.02)
        self.dismiss(False)

    def _take(self, text: str) -> None:
        self.query_one(Input).insert_text_at_cursor(text)


class Pace:
    """How fast bytes come, over the last seconds."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []
        self._stage = ""

    def left(self, progress: Progress, now: float) -> list[str]:
        """Speed and time left, as far as they are known."""
        if progress.stage != self._stage:
            self._stage, self._seen = progress.stage, []
        self._seen = [*self._seen[-50:], (now, progress.done)]
        (first, before), (last, after) = self._seen[0], self._seen[-1]
        if last - first < 1.0 or after <= before or progress.stage != "fetch":
            return []
        speed = (after - before) / (last - first)
        return [f"{speed / 1e6:.1f} MB/s", f"{elapsed((progress.total - progress.done) / speed)} left"]


def gigabytes(size: int) -> str:
    """`1.1 GB`. Pure."""
    return f"{size / 1e9:.1f} GB"


def megabytes(size: int) -> str:
    """`470 MB`, `1.12 GB`. Pure."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
