"""Ages in elapsed time instead of clock time.

If a clock is set a year ahead, everything seems a year old. A store that trusted it would delete the data of
this morning. So the store records when it last read the clock. However far the clock has advanced since, at
most a day of it counts. After a month without use nothing is a month older, and a wrong clock does no harm.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent.core.home import PRIVATE_FILE
from agent.workspace.checkpoints.objects import TEMPORARY
from tools.kit.files import read_bytes, write_atomically

NAME = "clock"
MOST_SECONDS = 86_400.0
"""The largest counted time between two readings of the clock."""
MAX_GAPS = 1_000
_MAX_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class ElapsedAge:
    """The clock readings of a store. Times are in seconds since the epoch, as given by the clock."""

    seen: float
    """The last reading of the clock."""
    gaps: tuple[tuple[float, float], ...] = ()
    """Periods longer than `MOST_SECONDS` between two readings, from and to, in order."""

    def after_look(self, now: float) -> ElapsedAge:
        """Return the clock readings after another one at `now`. Pure."""
        # What a clock said before it was set back never was.
        gaps = [(start, min(end, now)) for start, end in self.gaps if start < now]
        if now - self.seen > MOST_SECONDS:
            gaps.append((self.seen, now))
        return ElapsedAge(now, tuple(gaps[-MAX_GAPS:]))

    def before(self, seconds: float, *, most: float = MOST_SECONDS) -> float:
        """Return the clock time `seconds` of elapsed time before the last reading. Pure.

        A gap between two readings counts at most `most` seconds.
        """
        moment = self.seen
        for start, end in reversed(self.gaps):
            seconds -= moment - end
            if seconds <= 0:
                return end - seconds
            seconds -= min(most, end - start)
            if seconds <= 0:
                return start
            moment = start
        return moment - seconds


def read_clock(folder: Path, now: float) -> ElapsedAge:
    """Record in the store at `folder` that the clock says `now`, and return the clock readings.

    If the record cannot be read, no time before `now` counts. If it cannot be written, that is ignored,
    because a full disk must not prevent the cleanup of the store. Blocking; never raises.
    """
    known = _read(folder / NAME, now).after_look(now)
    data = json.dumps({"seen": known.seen, "gaps": known.gaps}).encode()
    with suppress(OSError):
        write_atomically(folder / NAME, data, PRIVATE_FILE, replace_any=True, durable=False, prefix=TEMPORARY)
    return known


def _read(path: Path, now: float) -> ElapsedAge:
    try:
        data, _ = read_bytes(path.parent.resolve() / path.name, _MAX_BYTES)
        found = json.loads(data)
        gaps = tuple((float(start), float(end)) for start, end in found["gaps"])
        known = ElapsedAge(float(found["seen"]), gaps)
    except FileNotFoundError:
        return ElapsedAge(now)
    except (OSError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return _nothing_counts(now)
    moments = [moment for gap in known.gaps for moment in gap]
    sound = all(map(math.isfinite, (known.seen, *moments))) and moments == sorted(moments)
    return known if sound else _nothing_counts(now)


def _nothing_counts(now: float) -> ElapsedAge:
    return ElapsedAge(now, ((0.0, now),))
