"""The context table: the content of the model's window, tokens used, and the reasons for cache rebuilds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.text import Text
from textual.binding import Binding, BindingType

from agent.knowledge.context.context_table import ContextLayer, ContextTable
from agent.knowledge.context.quarantine import SHORT, KeptPassage
from app.tui.screens.dialog import ConfirmDialog, DetailScreen
from app.tui.screens.entry_page import CountedPage, CountedRows, change
from app.tui.screens.page import line
from themes.states import NEEDS_YOU
from tools.text.words import plural
from widgets.panes.status import UNKNOWN, money, percent, tokens
from widgets.rows.row_text import fit

NAME_CELLS = 20
COUNT_CELLS = 6
TOKEN_CELLS = 9
BUDGET_CELLS = 8
SHARE_CELLS = 6
CUT_CELLS = 5
HASH_CELLS = 9
LONGEST_BAR = 40
LONGEST_PASSAGE = 6
"""The number of lines of a passage in the table; all of it is shown when it is opened."""
LONGEST_ASKED = 600
"""The number of characters of a passage in the question whether to admit it."""
RENEWED = 1.0
"""Seconds between two checks for changes to the session."""

KEEPS_BACK = (
    "It reads like an order to an agent ({rules}), so it is kept back; the rest of the file is used. Let in, "
    "these very words count wherever they stand."
)


@dataclass(frozen=True, slots=True)
class ContextRow:
    """One row of the table, as text."""

    kind: Literal["layer", "free", "fact", "heading", "sentence", "blank", "passage"]
    name: str = ""
    count: str = ""
    tokens: str = ""
    share: float | None = None
    """The share of the window, or of the used tokens if the window's size is unknown."""
    budget: str = ""
    cut: str = ""
    digest: str = ""
    """The beginning of the hash of the content."""
    below: str = ""
    """The origin of the content, shown as a second line."""
    note: str = ""
    """A note on how the content was shortened or changed, shown as a warning."""
    passage: KeptPassage | None = None
    """The withheld passage, if the row shows one."""

    @property
    def text(self) -> str:
        """The row as text for search and copying."""
        if self.passage is not None:
            return f"{self.name}\n{self.passage.text}"
        share = share_text(self.share) if self.share is not None else ""
        words = (self.name, self.count, self.tokens, self.budget and f"of {self.budget}", share, self.cut)
        return "  ".join(filter(None, (*words, self.digest, self.below, self.note)))


class ContextScreen(CountedPage[ContextTable, ContextRow]):
    """The table of the model's context. It opens at once, and counts in the background after changes."""

    heading = "Context and cost"
    keys = "⏎ in full · t let in · F5 count again · / filter · y copy · ? keys · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "count", "Count again", id="context.count"),
        Binding("t", "let_in", "Let in", id="context.let-in"),
    ]

    def __init__(
        self,
        count: Callable[[], Awaitable[ContextTable]],
        standing: Callable[[], object] = lambda: None,
        let_in: Callable[[KeptPassage], Awaitable[str]] | None = None,
    ) -> None:
        """`count` makes the table and may take a while. `standing` returns a value that changes as the
        session continues.

        `let_in` admits a withheld passage and returns a sentence on when it takes effect. `count` and
        `let_in` raise `HermesError`.
        """
        super().__init__(count, ContextRows())
        self._standing = standing
        self._counted_at: object = None
        self._let_in = let_in

    def on_mount(self) -> None:
        self._counted_at = self._standing()
        self.set_interval(RENEWED, self._renew)

    def rows_and_title(self, found: ContextTable) -> tuple[Sequence[ContextRow], str]:
        """Return the rows of the table, and a summary of how full the window is."""
        return rows_of(found), window_text(found)

    def open_entry(self, entry: ContextRow) -> None:
        """Show a withheld passage in full, with invisible characters spelled out."""
        if (passage := entry.passage) is not None:
            why = KEEPS_BACK.format(rules=", ".join(passage.rules))
            text = f"{why}\n\n{passage.digest}\n\n{passage.text}"
            self.app.push_screen(DetailScreen(passage.place, text, spelled=True))

    @change
    async def action_let_in(self) -> None:
        passage = self.pointed.passage if self.pointed is not None else None
        if passage is None or self._let_in is None:
            self.notify(f"Nothing is kept back here; the rows that begin with {NEEDS_YOU} are.", markup=False)
            return
        more = "" if len(passage.text) <= LONGEST_ASKED else " … (⏎ in the table shows all of it)"
        said = f"{passage.text[:LONGEST_ASKED]}{more}"
        question = f"Let in {passage.place}? The agent will follow it:\n\n{said}"
        if not await self.app.push_screen_wait(ConfirmDialog(question, "Let it in", "Keep it back")):
            return
        self.notify(line(await self._let_in(passage)), markup=False)

    def _renew(self) -> None:
        """Count again if the session has changed; the old numbers stay visible until then."""
        if (standing := self._standing()) != self._counted_at:
            self._counted_at = standing
            self.action_count(quiet=True)


class ContextRows(CountedRows[ContextRow]):
    """The rows of the table: one line each, with a second one for an origin."""

    def heading(self, width: int) -> Text | None:
        if self.problem:
            return None
        head = f" {'layer':<{NAME_CELLS}}{'parts':>{COUNT_CELLS}}{'tokens':>{TOKEN_CELLS}}"
        head += (
            f"{'budget':>{BUDGET_CELLS}}{'share':>{SHARE_CELLS}}{'cut':>{CUT_CELLS}}{'hash':>{HASH_CELLS}}"
        )
        return fit(Text(head, self.ink("dim")), width)

    def draw_entry(self, entry: ContextRow, width: int) -> list[Text]:
        match entry.kind:
            case "heading":
                return [Text(f" {entry.name}", self.ink("accent", bold=True))]
            case "sentence":
                text = Text(line(entry.name), self.ink("text"))
                wrapped = text.wrap(self.app.console, max(width - 4, 1))
                return [Text(" ").append_text(each) for each in wrapped]
            case "blank":
                return [Text(" ")]
            case "passage":
                return self._passage(entry, width)
            case _:
                return self._figures(entry, width)

    def _passage(self, row: ContextRow, width: int) -> list[Text]:
        """Return the lines of a withheld passage: its source, then the beginning of its plain text."""
        assert row.passage is not None
        said = row.passage.text.split("\n")
        shown = [Text("     ").append(line(each), self.ink("text")) for each in said[:LONGEST_PASSAGE]]
        if len(said) > LONGEST_PASSAGE:
            shown.append(Text(f"     … {plural(len(said) - LONGEST_PASSAGE, 'more line')}", self.ink("dim")))
        return [fit(each, width) for each in (Text(f"   {row.name}", self.ink("warning")), *shown)]

    def _figures(self, row: ContextRow, width: int) -> list[Text]:
        name = fit(Text(row.name), NAME_CELLS - 1).plain
        words = f" {name:<{NAME_CELLS}}{row.count:>{COUNT_CELLS}}{row.tokens:>{TOKEN_CELLS}}"
        share = share_text(row.share) if row.share is not None else ""
        words += f"{row.budget:>{BUDGET_CELLS}}{share:>{SHARE_CELLS}}"
        text = Text(words, self.ink("dim" if row.kind == "free" else "text"))
        text.append(f"{row.cut:>{CUT_CELLS}}", self.ink("warning"))
        text.append(f"{row.digest:>{HASH_CELLS}}", self.ink("dim"))
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


def share_text(share: float) -> str:
    """Return a fraction as a percentage such as `61%`; a small positive one is `<1%`. Pure."""
    return "<1%" if 0 < share < 0.005 else percent(share)


def bar(share: float, cells: int) -> str:
    """Return a bar that fills the fraction `share` of `cells`, in steps of an eighth of a cell. Pure."""
    eighths = round(min(max(share, 0.0), 1.0) * max(cells, 0) * 8)
    whole, rest = divmod(max(eighths, 1 if share > 0 and cells > 0 else 0), 8)
    return "█" * whole + ("", *"▏▎▍▌▋▊▉")[rest]


def rows_of(table: ContextTable) -> list[ContextRow]:
    """Return the rows of the table: the layers, the free space, and figures of the session. Pure."""
    whole = table.window or table.used_tokens or 1
    rows = [row for layer in table.layers for row in _layer_rows(layer, whole)]
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
        ContextRow("heading", "The provider's cache started over"),
    ]
    reasons = [f"{'' if each.declared else 'unannounced: '}{each.reason}" for each in table.breaks]
    return rows + [ContextRow("sentence", reason) for reason in reasons or ["Never in this session."]]


def _layer_rows(layer: ContextLayer, whole: int) -> list[ContextRow]:
    """Return the rows of a layer and of its withheld passages."""
    row = ContextRow(
        "layer",
        layer.name,
        str(layer.count) if layer.count > 1 else "",
        f"~{tokens(layer.tokens)}",
        layer.tokens / whole,
        tokens(layer.budget) if layer.budget is not None else "",
        "cut" if layer.notes else "",
        layer.digest[: HASH_CELLS - 1],
        layer.source,
        " · ".join(layer.notes),
    )
    return [row, *(_passage_row(passage) for passage in layer.passages)]


def _passage_row(passage: KeptPassage) -> ContextRow:
    rules = ", ".join(passage.rules)
    name = f"{NEEDS_YOU} {passage.place} kept back · {rules} · {passage.digest[:SHORT]}"
    return ContextRow("passage", name, passage=passage)


def window_text(table: ContextTable) -> str:
    """Return model and fill level of the window as text. Pure."""
    if table.window is None:
        return f"{table.model} · ~{tokens(table.used_tokens)} of {UNKNOWN} (window unknown)"
    share = percent(table.used_tokens / table.window)
    told = " (reported by the server)" if table.window_told else ""
    return f"{table.model} · ~{tokens(table.used_tokens)} of {tokens(table.window)}{told} · {share}"
