"""Numbers as a person reads them: few digits, always a unit. Unknown is `–`, never zero."""

from __future__ import annotations

import math

UNKNOWN = "–"


def elapsed(seconds: float | None) -> str:
    """A duration that still grows: `0:42`, `12:05`, `3:20:11`."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    whole = max(int(seconds), 0)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def took(seconds: float | None) -> str:
    """How long something took: `0.0 s`, `41 s`, `2:05`."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    seconds = max(seconds, 0.0)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return f"{round(seconds)} s" if round(seconds) < 60 else elapsed(round(seconds))


def tokens(count: int | None) -> str:
    """An amount of tokens: `812`, `8.1k`, `1.2M`."""
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
    """US dollars: `$0.42`, unknown `$–`; what is more than nothing never looks like nothing."""
    if dollars is None or not math.isfinite(dollars):
        return f"${UNKNOWN}"
    if 0 < dollars < 0.01:
        return "<$0.01"
    return f"${dollars:,.2f}"


def percent(share: float | None) -> str:
    """A share of one, such as 0.61, as `61%`."""
    if share is None or not math.isfinite(share):
        return UNKNOWN
    return f"{round(max(share, 0.0) * 100)}%"


def gauge(share: float, cells: int) -> str:
    """A bar of `cells` cells between two marks: `▕███░░▏`.

    Anything above nothing fills one cell, and only what is full fills all.
    """
    share = min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
    full = round(share * cells)
    if share > 0:
        full = max(full, 1)
    if share < 1:
        full = min(full, cells - 1)
    return "▕" + "█" * full + "░" * (cells - full) + "▏"
