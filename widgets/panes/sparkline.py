"""A sparkline of a rate: counts in, a short row of bars out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BARS = 8
"""How many samples are shown."""
WINDOW = 4.0
"""Seconds of one sample."""
KEPT = 16
"""Counts that are remembered; the oldest ones go."""
BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-=+*%#"
_POOR_TERMINALS = frozenset({"linux", "dumb", "vt52", "vt100", "vt102", "vt220"})


@dataclass(frozen=True, slots=True)
class Pulse:
    """How much had been counted when, oldest first: seconds of a clock, and the sum until then."""

    counts: tuple[tuple[float, int], ...] = ()

    def counted(self, now: float, total: int) -> Pulse:
        """The same with one more count. A sum that did not grow says nothing new."""
        if self.counts and total <= self.counts[-1][1]:
            return self
        return Pulse((*self.counts, (now, total))[-KEPT:])

    def rates(self, now: float) -> tuple[float, ...]:
        """Units per second in each of the last windows, oldest first; empty before anything is known.

        What came between two counts is spread evenly over the time between them.
        """
        if len(self.counts) < 2:
            return ()
        ends = [now - WINDOW * back for back in range(BARS - 1, -1, -1)]
        began = self.counts[0][0]
        return tuple(self._within(end - WINDOW, end) / WINDOW for end in ends if end > began)

    def _within(self, start: float, end: float) -> float:
        """How much came between two moments."""
        came = 0.0
        for (since, before), (until, after) in zip(self.counts, self.counts[1:], strict=False):
            shared = min(end, until) - max(start, since)
            if until <= since:
                came += (after - before) if start < until <= end else 0
            elif shared > 0:
                came += (after - before) * shared / (until - since)
        return came


def bars(rates: Sequence[float], *, ascii_only: bool = False) -> str:
    """`rates` as `BARS` cells, the highest in full height and the newest at the right end. Pure."""
    steps = ASCII if ascii_only else BLOCKS
    top = max(rates, default=0.0)
    drawn = "".join(steps[0 if top <= 0 else round(rate / top * (len(steps) - 1))] for rate in rates)
    return drawn.rjust(BARS)


def pace(rates: Sequence[float]) -> float:
    """Units per second over all of `rates`. Pure."""
    return sum(rates) / len(rates) if rates else 0.0


def draws_ascii_only(environ: Mapping[str, str]) -> bool:
    """Whether the terminal is one whose font has no blocks of different heights. Pure."""
    return environ.get("TERM", "") in _POOR_TERMINALS
