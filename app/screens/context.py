"""The context table: what fills the model's window, what was spent, why the cache began anew."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.text import Text
from textual.binding import Binding, BindingType

from agent.api.usage import ContextLayer, ContextTable
from app.screens.counted import CountedPage, CountedRows
from app.screens.wording import line
from widgets.panes.figures import UNKNOWN, money, percent, tokens
from widgets.row_text import fit

NAME_CELLS = 20
COUNT_CELLS = 6
TOKEN_CELLS = 9
SHARE_CELLS = 6
LONGEST_BAR = 40


@dataclass(frozen=True, slots=True)
class ContextRow:
    """One entry of the table, as words."""

    kind: Literal["layer", "free", "fact", "heading", "sentence", "blank"]
    name: str = ""
    count: str = ""
    tokens: str = ""
    share: float | None = None
    """Of the window; of what is used while the window is unknown."""
    below: str = ""
    """A second line: where it comes from."""
    note: str = ""
    """What was done to it; drawn as a warning."""

    @property
    def text(self) -> str:
        """The row as it is searched and copied."""
        words = (self.name, self.count, self.tokens, part(self.share) if self.share is not None else "")
        return "  ".join(filter(None, (*words, self.below, self.note)))


class ContextScreen(CountedPage[ContextTable, ContextRow]):
    """Opens at once and shows the numbers when they are counted."""

    heading = "Context and cost"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "count", "Count again", id="context.count")]

    def __init__(self, count: Callable[[], Awaitable[ContextTable]]) -> None:
        """`count` makes the table; it may take a while. Raises `HermesError`."""
        super().__init__(count, ContextRows())

    def told(self, found: ContextTable) -> tuple[Sequence[ContextRow], str]:
        """The table, and how full the window is."""
        return rows_of(found), filled(found)


class ContextRows(CountedRows[ContextRow]):
    """The table; a row is a line, and a second one that says where it comes from."""

    def heading(self, width: int) -> Text:
        head = f" {'layer':<{NAME_CELLS}}{'parts':>{COUNT_CELLS}}{'tokens':>{TOKEN_CELLS}}"
        return fit(Text(f"{head}{'share':>{SHARE_CELLS}}", self.ink("dim")), width)

    def lines(self, index: int, width: int) -> list[Text]:
        """See `CountedRows.lines`."""
        row = self.entries[index]
        match row.kind:
            case "heading":
                return [Text(f" {row.name}", self.ink("accent", bold=True))]
            case "sentence":
                return self._sentence(row, width)
            case "blank":
                return [Text(" ")]
            case _:
                return self._figures(row, width)

    def _sentence(self, row: ContextRow, width: int) -> list[Text]:
        text = Text(line(row.name), self.ink("text"))
        wrapped = text.wrap(self.app.console, max(width - 4, 1))
        return [Text(" ").append_text(each) for each in wrapped]

    def _figures(self, row: ContextRow, width: int) -> list[Text]:
        name = fit(Text(row.name), NAME_CELLS - 1).plain
        words = f" {name:<{NAME_CELLS}}{row.count:>{COUNT_CELLS}}{row.tokens:>{TOKEN_CELLS}}"
        share = part(row.share) if row.share is not None else ""
        text = Text(f"{words}{share:>{SHARE_CELLS}}", self.ink("dim" if row.kind == "free" else "text"))
        if row.kind != "fact" and row.share is not None:
            cells = min(width - text.cell_len - 4, LONGEST_BAR)
            text.append("  ").append(
                bar(row.share, cells), self.ink("dim" if row.kind == "free" else "accent")
            )
        lines = [fit(text, width)]
        if row.below or row.note:
            below = Text("   ").append(line(row.below), self.ink("dim"))
            below.append("  " if row.below else "").append(row.note, self.ink("warning"))
            lines.append(fit(below, width))
        return lines


def part(share: float) -> str:
    """A share of one as `61%`; what is more than nothing never looks like nothing. Pure."""
    return "<1%" if 0 < share < 0.005 else percent(share)


def bar(share: float, cells: int) -> str:
    """A bar that is as long as its share of `cells`, in steps of an eighth of a cell. Pure."""
    eighths = round(min(max(share, 0.0), 1.0) * max(cells, 0) * 8)
    whole, rest = divmod(max(eighths, 1 if share > 0 and cells > 0 else 0), 8)
    return "█" * whole + ("", *"▏▎▍▌▋▊▉")[rest]


def rows_of(table: ContextTable) -> list[ContextRow]:
    """The table as rows. Pure."""
    whole = table.window or table.used or 1
    rows = [_layer_row(layer, whole) for layer in table.layers]
    if table.free is not None:
        rows.append(
            ContextRow("free", "Free room", tokens=f"~{tokens(table.free)}", share=table.free / whole)
        )
    used = table.totals
    share = used.cached / used.input if used.input else None
    rows += [
        ContextRow("blank"),
        ContextRow("heading", "This session"),
        ContextRow("fact", "Last request", tokens=tokens(table.counted)),
        ContextRow("fact", "Requests", tokens=str(used.requests)),
        ContextRow("fact", "Tokens in", tokens=tokens(used.input)),
        ContextRow("fact", "… from the cache", tokens=tokens(used.cached), share=share),
        ContextRow("fact", "Tokens out", tokens=tokens(used.output)),
        ContextRow("fact", "Cost", tokens=money(used.cost)),
        ContextRow("blank"),
        ContextRow("heading", "The provider's cache began anew"),
    ]
    reasons = [f"{'' if each.declared else 'unannounced: '}{each.reason}" for each in table.breaks]
    return rows + [ContextRow("sentence", reason) for reason in reasons or ["Never in this session."]]


def _layer_row(layer: ContextLayer, whole: int) -> ContextRow:
    return ContextRow(
        "layer",
        layer.name,
        str(layer.count) if layer.count > 1 else "",
        f"~{tokens(layer.tokens)}",
        layer.tokens / whole,
        layer.source,
        " · ".join(layer.notes),
    )


def filled(table: ContextTable) -> str:
    """How full the window is, in a few words. Pure."""
    if table.window is None:
        return f"{table.model} · ~{tokens(table.used)} of {UNKNOWN} (window unknown)"
    share = percent(table.used / table.window)
    return f"{table.model} · ~{tokens(table.used)} of {tokens(table.window)} · {share}"
