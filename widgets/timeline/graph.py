"""Connecting lines of tree rows, as characters. Pure."""

from __future__ import annotations

from widgets.timeline.layout import DrawnLine

LANE_ROLES = ("accent", "keyword", "number", "function", "string", "warning")
"""The colours of lanes, from left to right and around again."""
MOST_LANES = 8
"""Lanes left of a row that are drawn; deeper rows say with `⋯` that there are more."""


def rails(line: DrawnLine, most: int = MOST_LANES) -> list[tuple[str, str]]:
    """Return the characters left of a row: two cells and a role per lane, the farthest first."""
    first = max(line.lane - most, 0)
    drawn = [("⋯ ", "dim")] if first else []
    for lane in range(first + bool(first), line.lane):
        if line.joins and lane == line.lane - 1:
            # The corner belongs to the lane that begins, the straight part to the lane that continues.
            corner = "├─" if line.goes_on(lane) else "╰─"
            drawn.append((corner, lane_role(line.lane)))
        else:
            drawn.append(("│ " if line.goes_on(lane) else "  ", lane_role(lane)))
    return drawn


def lane_role(lane: int) -> str:
    """Return the colour role of a lane."""
    return LANE_ROLES[lane % len(LANE_ROLES)]
