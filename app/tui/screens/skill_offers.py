"""The screen for skills of other sources: search, review, install."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content

from agent.errors import HermesError
from app.tui.screens.closable import ClosableModal
from app.tui.screens.dialog import ConfirmDialog, TextDialog
from app.tui.screens.entry_page import EntryPage, EntryRows
from app.tui.screens.page import HELP, KeyLine, ScreenHeader, Skinned, line
from app.tui.screens.skill_report import candidate_lines, content_lines, continuation_indent
from tools.text.safe_text import clean, reveal
from tools.text.words import plural
from widgets.rows.reader import ReaderLook
from widgets.rows.row_text import one_line, spread

if TYPE_CHECKING:
    from agent.knowledge.skills.hub.lock import SkillOffer
    from agent.knowledge.skills.hub.opening import Candidate, SkillReference
    from agent.knowledge.skills.hub.service import SearchResult, SkillHub


class CandidateScreen(ClosableModal[bool]):
    """The review of a skill. Its result is whether to install. Every character is shown or spelled out."""

    CSS_PATH: ClassVar = Path(__file__).with_name("detail.tcss")
    AUTO_FOCUS = "Reader"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "back"),
        Binding("t", "install", "Install"),
        HELP,
    ]

    def __init__(self, candidate: Candidate) -> None:
        super().__init__()
        self._candidate = candidate
        lines = [*candidate_lines(candidate), "", *content_lines(candidate)]
        self.reader = Skinned(
            "\n".join(lines), reveal, look=ReaderLook(focusable=True), gutter=continuation_indent
        )

    @property
    def is_allowed(self) -> bool:
        """True if the skill may be installed at all."""
        return self._candidate.decision() != "no"

    def compose(self) -> ComposeResult:
        yield ScreenHeader(
            line(f"{self._candidate.name} · {self._candidate.trust} · {self._candidate.scan.verdict}")
        )
        yield self.reader
        yield KeyLine("t install · ↑↓ move · esc back" if self.is_allowed else "↑↓ move · esc back")

    def action_leave(self) -> None:
        self.dismiss(False)

    def action_install(self) -> None:
        if not self.is_allowed:
            text = f"{self._candidate.name} is {self._candidate.scan.verdict}, and its source is not trusted."
            self.notify(line(text), severity="warning", markup=False)
            return
        count, files = len(self._candidate.scan.findings), len(self._candidate.hashes)
        told = f"The scan found {count or 'nothing'}" + (
            f" thing{'s' * (count != 1)} to look at." if count else "."
        )
        question = f"Install {self._candidate.name} with {plural(files, 'file')}? {told}"
        self.app.push_screen(ConfirmDialog(question, "Install"), self._confirm)

    def _confirm(self, is_yes: bool | None) -> None:
        if is_yes:
            self.dismiss(True)


WHAT = "What to look for, or which skill: words, owner/repository/folder, an address, ./folder"


class HubMarket:
    """The skill sources from the settings."""

    def __init__(self, hub: SkillHub) -> None:
        self._hub = hub
        self._known: dict[SkillOffer, SkillReference] = {}

    def find(self, text: str) -> SearchResult:
        """Return the one skill that an identifier names, or the results of a search for the words."""
        found, self._known = self._hub.find(text)
        return found

    def candidate(self, offer: SkillOffer) -> AbstractContextManager[Candidate]:
        """Return a context manager that holds a skill in quarantine."""
        return self._hub.examine(self._known[offer])

    def install(self, candidate: Candidate) -> None:
        """Install a skill into the home."""
        self._hub.installed.install(candidate)


def market_of(workspace: Path) -> HubMarket:
    """Return the skill sources from the settings. Touches the disk."""
    from agent.core.config.loader import load
    from agent.core.home import Home
    from agent.knowledge.skills.hub.service import open_hub

    home = Home.locate()
    loaded = load(home, dict(os.environ), workspace)
    return HubMarket(open_hub(home, loaded.settings, loaded.environ, workspace))


class SkillOffersScreen(EntryPage[str | None, "SkillOffer"]):
    """The list of offered skills. Its result is the name of the last installed skill, or None."""

    heading = "Skills from elsewhere"
    keys = "⏎ fetch and look · n new search · / filter · ? keys · esc back"
    ways_on = "n new search"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "search", "Search for other words, or name a skill", id="skill-offers.search"),
    ]

    def __init__(self, market: HubMarket, text: str) -> None:
        """`text` is what is looked for first."""
        super().__init__(OfferRows())
        self._market = market
        self._text = text
        self._installed: str | None = None
        self.busy = True
        """True while a source is being queried."""

    def about(self, entry: SkillOffer) -> Content:
        return about(entry)

    def on_mount(self) -> None:
        self._find()

    @work(exclusive=True, group="ask")
    async def _find(self) -> None:
        self._begin("asking …")
        self.listed.show(())
        try:
            found = await asyncio.to_thread(self._market.find, self._text)
        except HermesError as error:
            self.busy = False
            self.fail(error)
            return
        number = plural(len(found.offers), "skill")
        self._end(found.offers, f"{number} for {one_line(self._text) or 'everything'}")
        for problem in found.problems[:3]:
            self.complain(problem, "warning")

    def _begin(self, state: str) -> None:
        self.busy = True
        self.state(state)

    def _end(self, offers: Sequence[SkillOffer], state: str) -> None:
        self.list_entries(offers, state)
        self.busy = False

    def open_entry(self, entry: SkillOffer) -> None:
        if not self.busy:
            self._look(entry)

    @work(exclusive=True, group="ask")
    async def _look(self, offer: SkillOffer) -> None:
        offers = self.listed.entries
        before = plural(len(offers), "skill")
        self._begin(f"fetching {one_line(offer.name)} …")
        stack = ExitStack()
        try:
            candidate = await asyncio.to_thread(stack.enter_context, self._market.candidate(offer))
            self._end(offers, before)
            if await self.app.push_screen_wait(CandidateScreen(candidate)):
                await asyncio.to_thread(self._market.install, candidate)
                self._installed = candidate.name
                self.notify(
                    line(f"Installed {candidate.name}; sessions that begin now know it."), markup=False
                )
        except HermesError as error:
            self._end(offers, before)
            self.complain(error)
        finally:
            await asyncio.shield(asyncio.to_thread(stack.close))

    def action_search(self) -> None:
        self.app.push_screen(TextDialog(WHAT, self._text, enters="search"), self._apply_search)

    def _apply_search(self, text: str | None) -> None:
        if text is not None:
            self._text = text
            self._find()

    def action_back(self) -> None:
        self.dismiss(self._installed)


class OfferRows(EntryRows["SkillOffer"]):
    """One row per skill: name, description, source."""

    def __init__(self) -> None:
        super().__init__(
            key=lambda offer: (offer.source, offer.item, offer.name),
            words=lambda offer: f"{offer.name} {offer.source} {one_line(offer.description, 2_000)}",
            empty="No source has such a skill.",
        )

    def draw_entry(self, entry: SkillOffer, width: int) -> list[Text]:
        left = Text(" ").append(f"{one_line(entry.name):<24} ", self.ink("text"))
        left.append(one_line(entry.description), self.ink("dim"))
        return [spread(left, Text(f" {one_line(entry.source)} ", self.ink("dim")), width)]


def about(offer: SkillOffer) -> Content:
    """Return a source's information about a skill. Pure."""
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
