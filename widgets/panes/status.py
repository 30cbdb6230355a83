"""The status line: session, model, cost and activity."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer

from themes.states import glyph
from widgets.painting.direct_rows import DirectRows
from widgets.painting.filtered_rows import DrawnRow, FilteredRows
from widgets.rows.row_text import fit, one_line, to_strip

GAUGE_CELLS = 10
TITLE_CELLS = 12
"""The cells to which a title shrinks before other parts are dropped."""
SPINNER_SECONDS = 0.1
WAITING_SECONDS = 1.0
UNANSWERED_SECONDS, RARELY_SECONDS = 60.0, 30.0
"""Seconds after which an open question is probably unattended, and those between two paints then."""
WAITS = "Waits for you"
CALL_SECONDS = 1.0
"""Seconds after which a running call is named; the words would flicker with shorter ones."""
FACE_SECONDS = 3.0
"""Seconds for which each face of the skin is shown."""
CONTEXT_WARNING, CONTEXT_ALARM = 0.8, 0.95
"""Shares of the context window from which its figure changes colour."""

LEFT_OUT = (
    "cache", "effort", "face", "folder", "gauge", "branch", "name", "cost", "verb", "waits", "head", "title",
    "service", "model", "approvals", "elapsed", "context", "trouble", "budget", "place", "unsandboxed",
    "spinner",
)  # fmt: skip
"""Parts in the order in which they are dropped if room is short; open questions are never dropped."""
CLICKABLE = frozenset({"questions", "waits", "model", "gauge", "context"})
"""The parts that can be clicked."""


class StatusFigures(NamedTuple):
    """The values of the status bar. None means unknown and is shown as `–`; empty texts are left out."""

    title: str = ""
    folder: str = ""
    branch: str | None = None
    """The git branch; None outside of a repository."""
    detached: bool = False
    """Whether no branch is checked out; `branch` then names the commit."""
    head: str = ""
    """The branch of the conversation if it gets a badge, such as `main-2`; otherwise empty."""
    model: str | None = None
    effort: str = ""
    """The model's reasoning effort, such as `high`; empty if the provider decides."""
    context_used: int | None = None
    """Tokens of the next request."""
    context_window: int | None = None
    cost: float | None = None
    """US dollars of the whole session."""
    cache: float | None = None
    """Share of the input that came from the provider's cache, 0 to 1."""
    approvals: str = ""
    """The approvals mode if it gets a badge, such as `all`; otherwise empty."""
    service: Literal["", "attached", "ended"] = ""
    """Whether the session belongs to the service, and whether the service still runs; empty: it does not."""
    unsandboxed: bool = False
    place: str = ""
    """Where commands run when it is not this machine, such as `ssh build.example.org`."""
    trouble: str = ""
    """Why the model did not answer last, in a word or two."""
    budget_reached: bool = False
    busy_since: float | None = None
    """When work began, on the clock of the bar (seconds, monotonic); None when idle."""
    activity: str = ""
    """What the oldest running call does, such as `Running cargo test`; empty while the model works."""
    activity_since: float = 0.0
    """When this call began, on the same clock."""
    questions: int = 0
    """Questions and approvals that wait for the user."""


class StatusPart(NamedTuple):
    """A piece of the line."""

    name: str
    text: Text
    gap: int = 2
    """Blank cells before the part."""
    hugs: str = ""
    """The name of the part that it follows after a single blank."""


class StatusBar(DrawnRow):
    """A status line: `hermes  title · folder · branch      model  ▕███████░░░▏ 61%  $0.42  cache 97%`."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "StatusBar { height: 1; }"

    class Chosen(Message):
        """A part was clicked; `part` is its name, one of `CLICKABLE`."""

        def __init__(self, part: str) -> None:
            super().__init__()
            self.part = part

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, id: str | None = None) -> None:
        super().__init__(id=id)
        self.status = StatusFigures()
        self.motion = not os.environ.get("HERMES_REDUCED_MOTION")
        """Whether a spinner turns while the agent works; to change it, see `set_motion`."""
        self._clock = clock
        self._turns = 0
        self._painted = self._asked = 0.0
        """When the activity was painted last, and when the oldest open question was asked."""
        self._timer: Timer | None = None
        self.direct = DirectRows(self)
        self._filtered = FilteredRows(self)

    def set_motion(self, motion: bool) -> None:
        """Enable or disable the spinner; without it, words describe the activity."""
        if motion != self.motion:
            self.motion = motion
            self._run_timer()
            self.refresh()

    def show(self, status: StatusFigures) -> None:
        """Show these values."""
        if status == self.status:
            return
        before, self.status = self.status, status
        if status.busy_since is not None and status.busy_since != before.busy_since:
            self._turns += 1
        if status.questions and not before.questions:
            self._asked = self._clock()
        if pace(before) != pace(status):
            self._run_timer()
        self._paint()

    def _paint(self) -> None:
        """Paint the row: directly if possible, else with Textual's next frame."""
        self.forget_rows()
        width = self.size.width
        if not self.is_attached or not width:
            return
        rows = self._filtered.filter([self.render_line(0)], 0, width)
        if not self.direct.write_rows(enumerate(rows)):
            self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        rows = super().render_lines(crop)
        self.direct.note_painted(crop, rows)
        return rows

    def on_mount(self) -> None:
        self._run_timer()

    def _run_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        seconds = pace(self.status)
        if seconds is not None and self.is_attached:
            self._timer = self.set_interval(seconds if self.motion else WAITING_SECONDS, self._tick)

    def _tick(self) -> None:
        now = self._clock()
        is_rare = self.status.questions and now - self._asked > UNANSWERED_SECONDS
        if not is_rare or now - self._painted >= RARELY_SECONDS:
            self._painted = now
            self._paint()

    def on_click(self, event: events.Click) -> None:
        for name, start, end in self._places():
            if name in CLICKABLE and start <= event.x < end:
                self.post_message(self.Chosen("questions" if name == "waits" else name))
                event.stop()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = self.ink("text")
        if y > 0:
            return Strip.blank(width, base)
        line = Text(style=base)
        for part, start in self._place_parts():
            line.append(" " * (start - line.cell_len)).append_text(part.text)
        return to_strip(line, width, base, self.app.console)

    def ink(self, role: str, *, bold: bool = False) -> Style:
        """Return the style of text in `role`."""
        return self.palette.style(role, bold=bold)

    def _places(self) -> list[tuple[str, int, int]]:
        return [(part.name, start, start + part.text.cell_len) for part, start in self._place_parts()]

    def _place_parts(self) -> list[tuple[StatusPart, int]]:
        return place(self._left_parts(), self._right_parts(), self.size.width)

    def _left_parts(self) -> list[StatusPart]:
        status = self.status
        parts = [
            StatusPart(
                "name", Text(one_line(self.palette.skin.agent_name, 24), self.ink("accent", bold=True)), 1
            )
        ]
        if status.title:
            parts.append(StatusPart("title", Text(one_line(status.title, 80), self.ink("text"))))
        for name, text in (("folder", status.folder), ("branch", self._branch())):
            if text:
                mark = Text("· " if len(parts) > 1 else "", self.ink("dim"))
                role = "warning" if name == "branch" and status.detached else "dim"
                parts.append(StatusPart(name, mark.append(one_line(text, 60), self.ink(role)), 1))
        if status.head:
            parts.append(StatusPart("head", Text(f"↳ {one_line(status.head, 40)}", self.ink("accent"))))
        if status.busy_since is not None:
            parts += self._busy(status.busy_since)
        return parts

    def _branch(self) -> str:
        branch = self.status.branch or ""
        return f"detached {branch}".strip() if self.status.detached else branch

    def _busy(self, since: float) -> list[StatusPart]:
        seconds = max(self._clock() - since, 0.0)
        took = StatusPart("elapsed", Text(elapsed(seconds), self.ink("dim")), 1)
        if self.status.questions:
            return [StatusPart("waits", Text(f"{WAITS} ", self.ink("warning")).append_text(took.text), 3)]
        skin, accent = self.palette.skin, self.ink("accent")
        faces = skin.spinner if self.motion and skin.spinner else (glyph("working"),)
        face = faces[int(seconds / SPINNER_SECONDS) % len(faces)]
        verbs = skin.verbs or ("Working",)
        verb = one_line(verbs[(self._turns - 1) % len(verbs)], 24)
        running = self._clock() - self.status.activity_since
        if self.status.activity and running >= CALL_SECONDS:
            verb = f"{one_line(self.status.activity, 28)} ·"
            words = f"{int(running)} s" if running < 60 else elapsed(running)
            took = took._replace(text=Text(words, self.ink("dim")))
        return [
            StatusPart("spinner", Text(one_line(face, 12), accent), 3),
            *self._face(seconds),
            StatusPart("verb", Text(verb, accent), 1),
            took,
        ]

    def _face(self, seconds: float) -> list[StatusPart]:
        """Return the skin's current face, if any, padded so that the following parts do not shift."""
        faces = [one_line(face, 16) for face in self.palette.skin.faces]
        if not faces:
            return []
        at = int(seconds / FACE_SECONDS) if self.motion else self._turns - 1
        face = Text(faces[at % len(faces)], self.ink("dim"))
        face.append(" " * (max(map(cell_len, faces)) - face.cell_len))
        return [StatusPart("face", face, 1)]

    def _right_parts(self) -> list[StatusPart]:
        status = self.status
        parts = []
        if status.questions:
            parts.append(
                StatusPart(
                    "questions",
                    Text(f"{glyph('needs you')} {status.questions}", self.ink("warning", bold=True)),
                )
            )
        for name, shown, text, role in (
            ("trouble", bool(status.trouble), f"{glyph('failed')} {status.trouble}", "error"),
            ("budget", status.budget_reached, f"{glyph('stopped')} budget reached", "warning"),
            ("service", status.service == "ended", f"{glyph('failed')} service ended", "error"),
            ("service", status.service == "attached", "attached", "accent"),
            ("unsandboxed", status.unsandboxed, "unsandboxed", "error"),
            ("place", bool(status.place), one_line(status.place, 24), "accent"),
            ("approvals", bool(status.approvals), f"approvals {one_line(status.approvals, 20)}", "warning"),
        ):
            if shown:
                parts.append(StatusPart(name, Text(text, self.ink(role))))
        if status.model:
            parts.append(StatusPart("model", Text(one_line(status.model, 48), self.ink("text"))))
            if status.effort:
                text = Text(f"effort {one_line(status.effort, 20)}", self.ink("dim"))
                parts.append(StatusPart("effort", text, hugs="model"))
            parts += self._window()
            parts.append(StatusPart("cost", Text(money(status.cost), self.ink("dim"))))
        if status.cache is not None:
            parts.append(StatusPart("cache", Text(f"cache {percent(status.cache)}", self.ink("dim"))))
        return parts

    def _window(self) -> list[StatusPart]:
        used, window = self.status.context_used, self.status.context_window
        if used is None or not window:
            text = f"context {UNKNOWN}" if used is None else f"{tokens(used)} tokens"
            return [StatusPart("context", Text(text, self.ink("dim")))]
        share = used / window
        role = "dim"
        if share >= CONTEXT_WARNING:
            role = "error" if share >= CONTEXT_ALARM else "warning"
        return [
            StatusPart("gauge", Text(gauge(share, GAUGE_CELLS), self.ink(role))),
            StatusPart("context", Text(percent(share), self.ink(role)), hugs="gauge"),
        ]


def pace(status: StatusFigures) -> float | None:
    """Return the seconds between two paints of the activity; None if there is none.

    While a question is open, only the clock moves, and after a minute rarely: drawing behind a dialog redraws
    everything.
    """
    if status.busy_since is None:
        return None
    return WAITING_SECONDS if status.questions else SPINNER_SECONDS


def place(
    left: Sequence[StatusPart], right: Sequence[StatusPart], width: int
) -> list[tuple[StatusPart, int]]:
    """Return the positions of the parts in `width` cells: `left` from the start, `right` to the end.

    If room is short, titles shrink to `TITLE_CELLS`, then parts are dropped in the order of `LEFT_OUT`.
    """
    left, right = list(left), list(right)
    spare = width - _needed(left, right)
    for name in LEFT_OUT:
        if spare >= 0:
            break
        left = [part for part in left if part.name != name]
        right = [part for part in right if part.name != name]
        spare = width - _needed(left, right)
    placed: list[tuple[StatusPart, int]] = []
    x = 0
    for part in left:
        x += part.gap if placed else 1
        text = part.text
        if part.name == "title":
            room = min(text.cell_len, TITLE_CELLS) + max(spare, 0)
            text = fit(text, room)
        placed.append((StatusPart(part.name, text, part.gap), x))
        x += text.cell_len
    x = max(width - 1 - _length(right), x)
    for index, part in enumerate(right):
        x += _gap(right, index)
        placed.append((part, x))
        x += part.text.cell_len
    return placed


def _length(parts: Sequence[StatusPart]) -> int:
    return sum(part.text.cell_len + _gap(parts, index) for index, part in enumerate(parts))


def _gap(parts: Sequence[StatusPart], index: int) -> int:
    part = parts[index]
    if index == 0:
        return 0
    return 1 if part.hugs and part.hugs == parts[index - 1].name else part.gap


def _needed(left: Sequence[StatusPart], right: Sequence[StatusPart]) -> int:
    """Return the cells that `left` and `right` take with the shortest titles and a blank at each end."""
    saved = sum(max(part.text.cell_len - TITLE_CELLS, 0) for part in left if part.name == "title")
    between = 2 if left and right else 0
    return 2 + _length(left) - saved + between + _length(right)


UNKNOWN = "–"


def elapsed(seconds: float | None) -> str:
    """Format a running duration: `0:42`, `12:05`, `3:20:11`; `UNKNOWN` for None."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    whole = max(int(seconds), 0)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def duration(seconds: float | None) -> str:
    """Format a duration: `0.0 s`, `41 s`, `2:05`; `UNKNOWN` for None."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    seconds = max(seconds, 0.0)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return f"{round(seconds)} s" if round(seconds) < 60 else elapsed(round(seconds))


def tokens(count: int | None) -> str:
    """Format a number of tokens: `812`, `8.1k`, `1.2M`; `UNKNOWN` for None."""
    if count is None:
        return UNKNOWN
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M")):
        # From here on the smaller unit would be rounded up to 1000.
        if count >= size * 0.9995:
            return _short(count / size) + unit
    return _short(count / 1_000) + "k" if count >= 1_000 else str(count)


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 99.95 and round(value, 1) != round(value) else f"{value:.0f}"


def money(dollars: float | None) -> str:
    """Format US dollars: `$0.42`, `$–` if unknown; a positive amount is never shown as zero."""
    if dollars is None or not math.isfinite(dollars):
        return f"${UNKNOWN}"
    if 0 < dollars < 0.01:
        return "<$0.01"
    return f"${dollars:,.2f}"


def percent(share: float | None) -> str:
    """Format a share such as 0.61 as `61%`; return `UNKNOWN` for None."""
    if share is None or not math.isfinite(share):
        return UNKNOWN
    return f"{round(max(share, 0.0) * 100)}%"


def gauge(share: float, cells: int) -> str:
    """Return a bar of `cells` cells between two marks: `▕███░░▏`.

    Any share above 0 fills at least one cell; only 1 fills all.
    """
    share = min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
    full = round(share * cells)
    if share > 0:
        full = max(full, 1)
    if share < 1:
        full = min(full, cells - 1)
    return "▕" + "█" * full + "░" * (cells - full) + "▏"
