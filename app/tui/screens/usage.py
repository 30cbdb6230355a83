"""The cost screen: this session and today, by agent, compared with the ceilings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.text import Text
from textual.binding import Binding, BindingType

from agent.session.spending.report import SpendingBound, SpendingOverview, UsageLine
from agent.session.spending.request_table import MAIN, SENT, SIDE
from app.tui.screens.context import bar, share_text
from app.tui.screens.entry_page import CountedPage, CountedRows
from widgets.panes.status import UNKNOWN, money, tokens
from widgets.rows.row_text import fit

NAME_CELLS = 22
NUMBER_CELLS = 9
LONGEST_BAR = 30
NEAR = 0.8
"""The share of a ceiling from which it is shown as a warning."""

NAMES = {MAIN: "Main agent", SENT: "Agents it sent", SIDE: "Side model"}
MEASURES = {"turns": "requests", "tokens": "tokens", "money": "cost"}
NO_CEILING = "None is set. `/settings` sets one, such as budget.session.money: 5."


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One row of the table, as text."""

    kind: Literal["heading", "figures", "total", "bound", "sentence", "blank"]
    name: str = ""
    cells: tuple[str, ...] = ()
    share: float | None = None
    """The used share of a ceiling; None if unknown."""

    @property
    def text(self) -> str:
        """The row as text for search and copying."""
        return "  ".join(filter(None, (self.name, *self.cells)))


class UsageScreen(CountedPage[SpendingOverview, UsageRow]):
    """The cost table. It opens at once and shows the numbers once they are added up."""

    heading = "Usage"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("f5", "count", "Count again", id="usage.count")]

    def __init__(self, count: Callable[[], Awaitable[SpendingOverview]]) -> None:
        """`count` adds up the costs; it may take a while and raises `HermesError`."""
        super().__init__(count, UsageRows())

    def rows_and_title(self, found: SpendingOverview) -> tuple[Sequence[UsageRow], str]:
        """Return the rows, and an empty text for the title."""
        return rows_of(found), ""


class UsageRows(CountedRows[UsageRow]):
    """The rows of the table, a line each."""

    def heading(self, width: int) -> Text | None:
        if self.problem:
            return None
        return fit(Text(_columns("who", ("requests", "in", "cached", "out", "cost")), self.ink("dim")), width)

    def draw_entry(self, entry: UsageRow, width: int) -> list[Text]:
        match entry.kind:
            case "heading":
                return [fit(Text(f" {entry.name}", self.ink("accent", bold=True)), width)]
            case "sentence":
                wrapped = Text(entry.name, self.ink("dim")).wrap(self.app.console, max(width - 4, 1))
                return [Text(" ").append_text(each) for each in wrapped]
            case "blank":
                return [Text(" ")]
            case "bound":
                return [self._bound(entry, width)]
            case _:
                ink = self.ink("text", bold=entry.kind == "total")
                return [fit(Text(_columns(entry.name, entry.cells), ink), width)]

    def _bound(self, row: UsageRow, width: int) -> Text:
        used, ceiling = row.cells
        text = Text(f" {row.name:<{NAME_CELLS}}{used:>{NUMBER_CELLS}} of {ceiling:<{NUMBER_CELLS}}")
        text.append(f"{UNKNOWN if row.share is None else share_text(row.share):>5}  ")
        text.stylize(self.ink("text"))
        share = row.share or 0.0
        cells = min(width - text.cell_len - 2, LONGEST_BAR)
        text.append(bar(share, cells), self.ink("warning" if share >= NEAR else "accent"))
        return fit(text, width)


def _columns(name: str, cells: Sequence[str]) -> str:
    return f" {name:<{NAME_CELLS}}" + "".join(f"{cell:>{NUMBER_CELLS}}" for cell in cells)


def rows_of(found: SpendingOverview) -> list[UsageRow]:
    """Return the rows for session, day and ceilings. Pure."""
    rows = [*_section("This session", found.session), UsageRow("blank")]
    rows += [
        *_section("Today, all sessions", found.today),
        UsageRow("blank"),
        UsageRow("heading", "Ceilings"),
    ]
    rows += [_bound_row(bound) for bound in found.bounds] or [UsageRow("sentence", NO_CEILING)]
    return rows


def _section(title: str, lines: Sequence[UsageLine]) -> list[UsageRow]:
    rows = [UsageRow("heading", title)]
    if not lines:
        return [*rows, UsageRow("sentence", "No request was made yet.")]
    total = sum(lines, UsageLine("total"))
    rows += [UsageRow("figures", NAMES[line.key], _figures(line)) for line in lines]
    if len(lines) > 1:
        rows.append(UsageRow("total", "Together", _figures(total)))
    if total.uncounted:
        most = f"at most {tokens(total.assumed)} tokens, {money(total.assumed_cost or None)}"
        rows.append(UsageRow("sentence", f"not counted, or still on its way: {most}"))
    return rows


def _figures(line: UsageLine) -> tuple[str, ...]:
    known = None if line.unpriced and line.unpriced == line.requests else line.cost
    cost = money(known) + ("+" if line.unpriced and known is not None else "")
    return (f"{line.requests:,}", tokens(line.input), tokens(line.cached), tokens(line.output), cost)


def _bound_row(bound: SpendingBound) -> UsageRow:
    def value_text(value: float | None) -> str:
        if bound.measure == "money":
            return money(value)
        return f"{value or 0:,.0f}" if bound.measure == "turns" else tokens(round(value or 0))

    whose = "Session" if ".session." in bound.setting else "Day"
    return UsageRow(
        "bound",
        f"{whose}, {MEASURES[bound.measure]}",
        (value_text(bound.used), value_text(bound.ceiling)),
        bound.share,
    )
