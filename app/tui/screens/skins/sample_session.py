"""A few lines of a made-up session, to see a skin at work."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from themes.skin import Skin
from widgets.palette import Palette

Piece = tuple[str, str]
"""A text and its role."""

_CODE: tuple[Piece, ...] = (
    ("return ", "keyword"),
    ("rounded", "function"),
    ("(total, ", "text"),
    ('"JPY"', "string"),
    (", ", "text"),
    ("2", "number"),
    (")  ", "text"),
    ("# yen has none", "comment"),
)


def sample(skin: Skin, width: int = 76, *, banner: bool = True) -> list[Text]:
    """`skin` on a page of `width` columns: every role at least once, its art only with `banner`."""
    return _Page(Palette(skin), width).lines(banner)


class _Page:
    """Draws lines that fill their width with the colour of their background."""

    def __init__(self, palette: Palette, width: int) -> None:
        self._palette = palette
        self._skin = palette.skin
        self._width = width

    def lines(self, banner: bool) -> list[Text]:
        skin = self._skin
        return [
            self._line([(f" {skin.agent_name}", "accent"), (f"  {skin.name}", "text")], "surface", "61%"),
            self._line([("─" * self._width, "rule")]),
            *(self._line([(f"   {line}", "accent")]) for line in skin.banner.splitlines() if banner),
            self._line([("   ", "text"), (skin.welcome, "dim")]),
            self._line([]),
            self._line(
                [
                    (f" {skin.prompt_symbol} ", "user"),
                    ("The totals are off by a cent. Find out why.", "user"),
                ]
            ),
            self._line([(" ▸ Thought for 4 s", "reasoning")]),
            self._line(
                [
                    ("   See how ", "text"),
                    ("round", "text", "match"),
                    (" treats yen ", "text"),
                    ("without decimals", "text", "selection"),
                    (".", "text"),
                ]
            ),
            self._line([(" ✓ ", "success"), ("read     src/money.py 1–80", "text")], hint="0.1 s"),
            self._line([(" ✗ ", "error"), ("terminal pytest -q", "text")], hint="1.9 s"),
            self._line([(" ◆ ", "warning"), ("history  asks a question", "text")], hint="⏎"),
            self._line([("   41 ", "dim"), ("- total = round(amount)", "removed")], "removed_background"),
            self._line([("   41 ", "dim"), ("+ total = exact(amount)", "added")], "added_background"),
            self._line([("   42 ", "dim"), ("  ", "text"), *_CODE], "code_background"),
            self._line(
                [
                    (f" {skin.spinner[len(skin.spinner) // 2]} ", "accent"),
                    (" ".join((*skin.faces[:1], skin.verbs[0])) + "…", "dim"),
                ]
            ),
            self._line(
                [
                    (" ✓ ", "success"),
                    ("Reproduce", "dim"),
                    ("  ▶ ", "accent"),
                    ("Round exactly", "text"),
                    ("  ○ ", "dim"),
                    ("Run the suite", "dim"),
                ],
                "surface",
                "1/3",
            ),
            self._line([("─" * self._width, "rule")]),
            self._line(
                [
                    (f" {skin.prompt_symbol} ", "user"),
                    ("and add a changelog line", "text"),
                    (" ", "background", "cursor"),
                ],
                "surface",
                "esc stop",
            ),
        ]

    def _line(self, pieces: list[tuple[str, ...]], background: str = "background", hint: str = "") -> Text:
        line = Text(no_wrap=True, end="")
        for text, role, *own in pieces:
            line.append(text, self._palette.style(role, own[0] if own else background))
        room = max(self._width - cell_len(hint) - 3 * bool(hint), 0)
        line.truncate(room, overflow="ellipsis")
        gap = self._width - cell_len(line.plain) - cell_len(hint) - bool(hint)
        line.append(" " * max(gap, 0) + hint + " " * bool(hint), self._palette.style("dim", background))
        line.truncate(self._width)
        return line
