"""Readability checks of skins: WCAG contrast of every pair of roles that is drawn.

Text needs 4.5:1 on its backgrounds. Lines, the cursor, and selected or found text other than plain text need
3:1.

Colours defined by the terminal cannot be measured. They have xterm's values, on black in dark skins and on
white in light ones, and need 3:1. `ansi_default` needs nothing: the user chose that pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from themes.colors import DEFAULT, RGB, blend, contrast, is_terminal, luminance, rgb
from themes.skin import Skin

TEXT = 4.5
LINES = 3.0
BLACK = RGB(0, 0, 0)
WHITE = RGB(255, 255, 255)

_PROSE = ("text", "dim", "accent", "user", "reasoning", "success", "warning", "error")
_CODE = ("keyword", "string", "number", "comment", "function")
_PAGES = ("background", "surface")
_CODE_PAGES = ("code_background", "added_background", "removed_background")
_MARKS = ("selection", "match")


@dataclass(frozen=True, slots=True)
class ContrastFinding:
    """The contrast of one pair of roles. `str()` is a sentence about a contrast that is too low."""

    role: str
    background: str
    ratio: float
    needed: float
    suggestion: str = ""
    """The nearest colour of the same hue with enough contrast; empty if there is none."""

    @property
    def share(self) -> float:
        """The contrast as a share of the needed one; 1 is just enough."""
        return self.ratio / self.needed

    @property
    def enough(self) -> bool:
        return self.ratio >= self.needed

    def __str__(self) -> str:
        # Rounded down, so that 4.49 does not read as 4.5.
        shown = int(self.ratio * 10) / 10
        mend = f"; {self.suggestion} would do" if self.suggestion else ""
        return (
            f"`{self.role}` on `{self.background}` has a contrast of {shown}:1, "
            f"at least {self.needed}:1 is needed{mend}."
        )


def pairs() -> Iterator[tuple[str, str, float]]:
    """Yield every role with a background it is drawn on and the needed contrast."""
    for page in _PAGES:
        yield from ((role, page, TEXT) for role in (*_PROSE, "added", "removed"))
        yield from ((role, page, LINES) for role in ("rule", "cursor"))
    for page in _CODE_PAGES:
        yield from ((role, page, TEXT) for role in ("text", "dim", *_CODE))
    for role in ("added", "removed"):
        yield role, f"{role}_background", TEXT
    for mark in _MARKS:
        yield "text", mark, TEXT
        yield from ((role, mark, LINES) for role in (*_PROSE[1:], *_CODE, "added", "removed"))


def check(skin: Skin) -> list[ContrastFinding]:
    """Return the pairs of `skin` with too little contrast."""
    return [finding for pair in pairs() if (finding := _finding(skin, *pair))]


def tightest(skin: Skin) -> dict[str, ContrastFinding]:
    """Return for each role its pair with the smallest contrast relative to the needed one.

    Roles that are only drawn in the terminal's default colours are left out.
    """
    found: dict[str, ContrastFinding] = {}
    for pair in pairs():
        measured = _measure(skin, *pair)
        if measured is None:
            continue
        for role in (measured.role, measured.background):
            known = found.get(role)
            if known is None or measured.share < known.share:
                found[role] = measured
    return found


def _finding(skin: Skin, role: str, background: str, needed: float) -> ContrastFinding | None:
    measured = _measure(skin, role, background, needed)
    if measured is None or measured.enough:
        return None
    ink = skin.colors[role]
    if is_terminal(ink):
        return measured
    front, back = (
        _visible_rgb(skin, ink, front=True),
        _visible_rgb(skin, skin.colors[background], front=False),
    )
    return replace(measured, suggestion=fix_contrast(front, back, measured.needed))


def _measure(skin: Skin, role: str, background: str, needed: float) -> ContrastFinding | None:
    """Return the contrast of one pair; None if it consists of the terminal's own colours."""
    ink, paper = skin.colors[role], skin.colors[background]
    if ink == DEFAULT and is_terminal(paper):
        # Drawn as text of the terminal, or reversed; see widgets/palette.py.
        return None
    if is_terminal(ink) or is_terminal(paper):
        needed = min(needed, LINES)
    front, back = _visible_rgb(skin, ink, front=True), _visible_rgb(skin, paper, front=False)
    return ContrastFinding(role, background, contrast(front, back), needed)


def fix_contrast(ink: RGB, paper: RGB, needed: float) -> str:
    """Return `ink`, lightened or darkened to reach `needed` on `paper`; empty if that is impossible."""
    aims = sorted((BLACK, WHITE), key=lambda aim: -contrast(aim, paper))
    for aim in aims:
        for step in range(1, 65):
            candidate = blend(ink, aim, step / 64)
            if contrast(candidate, paper) >= needed:
                return candidate.hex
    return ""


def is_dark(colors: Mapping[str, str]) -> bool:
    """Return whether the background is dark; a terminal's default background counts as dark."""
    return luminance(rgb(colors["background"], default=BLACK)) < 0.18


def _visible_rgb(skin: Skin, color: str, *, front: bool) -> RGB:
    return rgb(color, default=WHITE if front == skin.dark else BLACK)
