"""Skills of other places: searched, looked at, installed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, ClassVar, Protocol

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from agent.errors import HermesError
from app.screens.confirm import TextDialog
from app.screens.page import WAYS_OUT
from app.screens.skill_candidate import CandidateScreen
from app.screens.split import PointedRows, SplitPage
from app.screens.wording import line
from tools.safe_text import clean
from widgets.row_text import one_line, spread

if TYPE_CHECKING:
    from agent.api.skill_hub import Candidate, SearchResult, SkillOffer

WHAT = "What to look for, or which skill: words, owner/repository/folder, an address, ./folder"


class SkillMarket(Protocol):
    """Where skills come from. All methods touch network and disk, and raise `HermesError`."""

    def find(self, text: str) -> SearchResult:
        """The one skill that an identifier names, or what a search for the words finds."""
        ...

    def candidate(self, offer: SkillOffer) -> AbstractContextManager[Candidate]:
        """A skill in quarantine."""
        ...

    def install(self, candidate: Candidate) -> None:
        """Take it into the home."""
        ...


class SkillOffersScreen(SplitPage[str | None]):
    """Ends with the name of the skill that was installed last, or None."""

    heading = "Skills from elsewhere"
    keys = "⏎ fetch and look · s search · / filter · ? help · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "search", "Search for other words, or name a skill", id="skill-offers.search"),
    ]

    def __init__(self, market: SkillMarket, text: str) -> None:
        """`text` is what is looked for first."""
        self._lines = OfferRows()
        super().__init__(self._lines)
        self._market = market
        self._text = text
        self._installed: str | None = None
        self.busy = True
        """Whether a source is being asked."""

    def beside(self) -> ComposeResult:
        with VerticalScroll(id="skill-about", can_focus=False):
            yield Static(id="skill-text")

    def on_mount(self) -> None:
        self._find()

    @work(exclusive=True, group="ask")
    async def _find(self) -> None:
        self._begin("asking …")
        self._lines.show(())
        try:
            found = await asyncio.to_thread(self._market.find, self._text)
        except HermesError as error:
            self._end("nothing was found")
            self._complain(error)
            return
        self._lines.show(found.offers)
        count = len(found.offers)
        self._end(f"{count:,} skill{'s' * (count != 1)} for {one_line(self._text) or 'everything'}")
        for problem in found.problems[:3]:
            self.notify(line(problem), severity="warning", markup=False)

    def _begin(self, state: str) -> None:
        self.busy = True
        self.state(state)

    def _end(self, state: str) -> None:
        self.state(state)
        self.set_class(not self._lines.entries, "bare")
        self.foot.say(self.keys if self._lines.entries else f"s search · {WAYS_OUT}")
        self._tell()
        self.busy = False

    def _complain(self, error: HermesError) -> None:
        self.notify(line(str(error)), severity="error", markup=False)

    def on_pointed_rows_pointed(self, event: PointedRows.Pointed) -> None:
        event.stop()
        self._tell()

    def _tell(self) -> None:
        offer = self._lines.pointed
        for place in self.query("#skill-text").results(Static):
            place.update(Content("") if offer is None else about(offer))

    def on_row_list_activated(self, event: PointedRows.Activated) -> None:
        event.stop()
        offer = self._lines.pointed
        if offer is not None and not self.busy:
            self._look(offer)

    @work(exclusive=True, group="ask")
    async def _look(self, offer: SkillOffer) -> None:
        before = f"{len(self._lines.entries):,} skills"
        self._begin(f"fetching {one_line(offer.name)} …")
        stack = ExitStack()
        try:
            candidate = await asyncio.to_thread(stack.enter_context, self._market.candidate(offer))
            self._end(before)
            if await self.app.push_screen_wait(CandidateScreen(candidate)):
                await asyncio.to_thread(self._market.install, candidate)
                self._installed = candidate.name
                self.notify(
                    line(f"Installed {candidate.name}; sessions that begin now know it."), markup=False
                )
        except HermesError as error:
            self._end(before)
            self._complain(error)
        finally:
            await asyncio.shield(asyncio.to_thread(stack.close))

    def action_search(self) -> None:
        self.app.push_screen(TextDialog(WHAT, self._text, enters="search"), self._asked)

    def _asked(self, text: str | None) -> None:
        if text is not None:
            self._text = text
            self._find()

    def action_back(self) -> None:
        self.dismiss(self._installed)


class OfferRows(PointedRows):
    """A row for each skill: its name, what it is for, and its source."""

    def __init__(self) -> None:
        super().__init__(
            self._draw_row,
            search_text=lambda index: (
                f"{self.entries[index].name} {self.entries[index].source} "
                f"{one_line(self.entries[index].description, 2_000)}"
            ),
            empty="No source has such a skill.",
        )
        self.entries: Sequence[SkillOffer] = ()
        """The skills that are listed."""

    @property
    def pointed(self) -> SkillOffer | None:
        """The skill under the cursor."""
        return None if self.cursor is None or self.cursor >= len(self.entries) else self.entries[self.cursor]

    def show(self, offers: Sequence[SkillOffer]) -> None:
        """List these."""
        self.entries = offers
        self.reset(len(offers))
        if offers:
            self.move_to(0)

    def _draw_row(self, index: int, width: int) -> list[Text]:
        offer = self.entries[index]
        left = Text(" ").append(f"{one_line(offer.name):<24} ", self.ink("text"))
        left.append(one_line(offer.description), self.ink("dim"))
        return [spread(left, Text(f" {one_line(offer.source)} ", self.ink("dim")), width)]


def about(offer: SkillOffer) -> Content:
    """What a source says of a skill. Pure."""
    parts: list[tuple[str, str] | str] = [
        (f"{clean(offer.name)}", "bold"),
        (f" · {clean(offer.source)}\n", "$text-muted"),
        f"{clean(offer.description) or 'The source says nothing about it.'}\n\n",
    ]
    for title, value in (("Where", offer.address), ("Called", offer.item), ("Version", offer.version)):
        if value:
            parts += [(f"{title}: ", "$text-muted"), f"{clean(value)}\n"]
    parts += [(f"{clean(note)}\n", "$warning") for note in offer.notes]
    parts.append(
        ("\nNothing is installed before you have seen its files and what a scan finds.", "$text-muted")
    )
    return Content.assemble(*parts)
