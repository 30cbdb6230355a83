"""The screen of skills: read, search, run, enable and disable them, with the scan results of each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content

from agent.core.home import Home, from_home
from agent.errors import HermesError
from app.tui.screens.closable import ClosableModal
from app.tui.screens.dialog import ConfirmDialog, DetailScreen, TextDialog
from app.tui.screens.entry_page import EntryPage, EntryRows, change_entry, load
from app.tui.screens.page import HELP, KeyLine, ScreenHeader, Skinned, line
from app.tui.screens.skill_report import candidate_lines, content_lines, continuation_indent
from themes.states import state_of
from tools.text.safe_text import clean, reveal
from tools.text.words import plural
from widgets.rows.reader import ReaderLook
from widgets.rows.row_text import one_line, spread

if TYPE_CHECKING:
    from agent.knowledge.skills.catalog import SkillSet
    from agent.knowledge.skills.hub.bundle import SkillOffer
    from agent.knowledge.skills.hub.opening import Candidate, SkillReference
    from agent.knowledge.skills.hub.service import SearchResult, SkillHub
    from agent.knowledge.skills.scanner import SkillFinding, SkillScan
    from agent.knowledge.skills.skill import Skill

MOST_SHOWN = 6_000
"""The number of characters of the instructions that are shown beside the list."""
MOST_FINDINGS = 12
"""The number of findings that are shown beside the list."""

SkillStanding = Literal["used", "off", "shadowed", "broken"]
STANDINGS: tuple[SkillStanding, ...] = get_args(SkillStanding)


@dataclass(frozen=True, slots=True)
class SkillRow:
    """A skill, or a folder that is not a valid skill."""

    name: str
    scope: str
    description: str
    standing: SkillStanding
    folder: Path
    reason: str = ""
    """The reason why the skill is not used, as a clause."""
    skill: Skill | None = None
    """The parsed skill; None if it is invalid."""


@dataclass(frozen=True, slots=True)
class DiskShelf:
    """The skills of a workspace on disk, and the setting that disables single ones."""

    home: Home
    workspace: Path

    def load(self) -> SkillSet:
        from agent.core.config.loader import load
        from agent.integrations.plugins.shelf import skill_catalog

        settings = load(self.home, dict(os.environ), self.workspace).settings
        return skill_catalog(self.home, self.workspace, settings).load()

    def scan(self, skill: Skill) -> SkillScan:
        from agent.knowledge.skills.scanner import scan_folder

        return scan_folder(skill.folder, outside=False)

    def switch(self, name: str, on: bool) -> None:
        """Enable or disable a skill in the settings. Raises `HermesError`."""
        from agent.core.config.edit import set_setting
        from agent.core.config.loader import load

        disabled = load(self.home, dict(os.environ), self.workspace).settings.skills.disabled
        names = [each for each in disabled if each != name] + ([] if on else [name])
        set_setting(self.home, "skills.disabled", ",".join(names))


def rows_of(found: SkillSet) -> list[SkillRow]:
    """Return all skills sorted by name; a used skill comes before those it shadows. Pure."""
    rows = [_row(each, "used", "") for each in found.skills]
    rows += [_row(each.skill, "off", each.reason) for each in found.off]
    rows += [_row(each, "shadowed", "a nearer skill has its name") for each in found.shadowed]
    rows += [
        SkillRow(clean(each.folder.name), each.scope, each.reason, "broken", each.folder, each.reason)
        for each in found.broken
    ]
    return sorted(rows, key=lambda row: (row.name, STANDINGS.index(row.standing)))


def _row(skill: Skill, standing: SkillStanding, reason: str) -> SkillRow:
    return SkillRow(skill.name, skill.scope, skill.description, standing, skill.folder, reason, skill)


class SkillsScreen(EntryPage[str | None, SkillRow]):
    """The list of skills. Its result is the name of the skill to run, or None."""

    DEFAULT_CLASSES = "rows-first"
    heading = "Skills"
    keys = "⏎ read · F5 run · n install · p pause · / filter · ? keys · esc back"
    ways_on = "n install"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "run", "Begin a message that runs the skill", id="skills.run"),
        Binding("n", "app.order('program.install_skill')", "Install from elsewhere", id="skills.install"),
        Binding("p", "switch", "Use the skill, or no longer", id="skills.switch"),
    ]

    def __init__(self, shelf: DiskShelf, at: str = "") -> None:
        """`at` is the name of the skill that the cursor starts on."""
        self._first = at
        super().__init__(SkillRows())
        self._shelf = shelf
        self._scans: dict[Path, SkillScan] = {}
        self.told = ""
        """The name of the skill whose scan is shown."""

    def about(self, entry: SkillRow) -> Content:
        return about(entry, self._scans.get(entry.folder))

    def on_mount(self) -> None:
        self._load(self._first)

    def on_screen_resume(self) -> None:
        """Reload the list, as skills may have been installed on another screen."""
        if self.loaded:
            self._load()

    @load
    async def _load(self, at: str = "") -> None:
        found = await asyncio.to_thread(self._shelf.load)
        rows = rows_of(found)
        self.list_entries(rows, _standing_counts(rows), at)
        for note in (*found.notes, *found.renewed):
            self.show_problem(note, "warning")

    def show_details(self) -> None:
        super().show_details()
        if (row := self.pointed) is not None and row.skill is not None:
            self._scan(row.skill)

    @work(exclusive=True, group="scan")
    async def _scan(self, skill: Skill) -> None:
        if skill.folder not in self._scans:
            self._scans[skill.folder] = await asyncio.to_thread(self._shelf.scan, skill)
        row = self.pointed
        if row is not None and row.skill is skill:
            super().show_details()
            self.told = skill.name

    def open_entry(self, entry: SkillRow) -> None:
        if entry.skill is not None:
            title = f"{entry.name} · {entry.scope} · {from_home(entry.folder)}"
            self.app.push_screen(DetailScreen(title, entry.skill.body))

    def action_run(self) -> None:
        row = self.pointed
        if row is None:
            return
        if row.standing != "used":
            self.show_problem(f"{row.name} is not used: {row.reason}.", "warning")
            return
        self.dismiss(row.name)

    @change_entry
    async def action_switch(self, row: SkillRow) -> None:
        if row.standing in ("used", "off"):
            await asyncio.to_thread(self._shelf.switch, row.name, row.standing == "off")
            self._load(row.name)


class SkillRows(EntryRows[SkillRow]):
    """One row per skill: state, scope, name, description."""

    def __init__(self) -> None:
        super().__init__(
            key=lambda row: row.name,
            words=lambda row: f"{row.scope} {row.name} {one_line(row.description, 2_000)}",
            empty="There are no skills here. n installs one; the agent writes others.",
        )

    def draw_entry(self, entry: SkillRow, width: int) -> list[Text]:
        mark, ink, *_ = state_of(entry.standing)
        shown = "text" if entry.standing == "used" else "dim"
        left = Text(" ").append(f"{mark} ", self.ink(ink))
        left.append(f"{entry.name:<20} ", self.ink(shown)).append(
            one_line(entry.description), self.ink("dim")
        )
        return [spread(left, Text(f" {entry.scope} ", self.ink("dim")), width)]


def _standing_counts(rows: Sequence[SkillRow]) -> str:
    counts = ((sum(row.standing == standing for row in rows), standing) for standing in STANDINGS)
    return " · ".join(f"{count:,} {standing}" for count, standing in counts if count)


def about(row: SkillRow, scan: SkillScan | None) -> Content:
    """Return the details of a skill. `scan` is None while the scan runs. Pure."""
    parts: list[tuple[str, str] | str] = [(row.name, "bold"), (f" · {row.scope}\n", "$text-muted")]
    if row.reason:
        parts.append((f"Not used: {clean(row.reason)}.\n", "$warning"))
    skill = row.skill
    if skill is None:
        return Content.assemble(*parts, (f"\n{clean(from_home(row.folder))}", "$text-muted"))
    parts.append(f"{clean(row.description)}\n\n")
    parts += _facts(skill)
    parts += _findings(scan)
    parts.append(clean(skill.body[:MOST_SHOWN]))
    if len(skill.body) > MOST_SHOWN:
        parts.append(f"\n… {len(skill.body) - MOST_SHOWN:,} more characters")
    parts.append((f"\n\n{clean(from_home(row.folder))}", "$text-muted"))
    return Content.assemble(*parts)


def _facts(skill: Skill) -> list[tuple[str, str] | str]:
    facts: list[tuple[str, str] | str] = []
    for title, values in (
        ("Allows", skill.allowed_tools or ()),
        ("Needs", skill.required_variables),
        ("Odd", skill.warnings),
    ):
        if values:
            facts += [(f"{title}: ", "$text-muted"), f"{', '.join(map(clean, values))}\n"]
    return facts


def _findings(scan: SkillScan | None) -> list[tuple[str, str] | str]:
    """Return the verdict of the scan and its findings, with their colours."""
    if scan is None:
        return [("Scan: …\n\n", "$text-muted")]
    tone = {"safe": "$success", "caution": "$warning", "dangerous": "$error"}[scan.verdict]
    parts: list[tuple[str, str] | str] = [("Scan: ", "$text-muted"), (f"{scan.verdict}\n", tone)]
    for each in scan.findings[:MOST_FINDINGS]:
        parts.append((f"{each.severity} ", _tone(each)))
        parts.append(f"{clean(each.file)}{f':{each.line}' if each.line else ''} {clean(each.why)}\n")
    if len(scan.findings) > MOST_FINDINGS:
        parts.append((f"and {len(scan.findings) - MOST_FINDINGS} more\n", "$text-muted"))
    return [*parts, "\n"]


def _tone(finding: SkillFinding) -> str:
    return {"critical": "$error", "high": "$warning"}.get(finding.severity, "$text-muted")


class CandidateScreen(ClosableModal[bool]):
    """The review of a skill. Its result is True to install it. Invisible characters are spelled out."""

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
        """True if the scan allows the skill to be installed, possibly after a question."""
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
    """The search for skills in the sources from the settings."""

    def __init__(self, hub: SkillHub) -> None:
        self._hub = hub
        self._known: dict[SkillOffer, SkillReference] = {}

    def find(self, text: str) -> SearchResult:
        """Return the one skill that an identifier names, or the results of a search for its words."""
        found, self._known = self._hub.find(text)
        return found

    def candidate(self, offer: SkillOffer) -> AbstractContextManager[Candidate]:
        """Return a context manager that fetches a skill into quarantine."""
        return self._hub.examine(self._known[offer])

    def install(self, candidate: Candidate) -> None:
        """Install a skill into the home."""
        self._hub.installed.install(candidate)


def market_of(workspace: Path) -> HubMarket:
    """Return the search over the sources from the settings, which are read from disk."""
    from agent.core.config.loader import load
    from agent.core.home import Home
    from agent.knowledge.skills.hub.service import open_hub

    home = Home.locate()
    loaded = load(home, dict(os.environ), workspace)
    return HubMarket(open_hub(home, loaded.settings, loaded.environ, workspace))


class SkillOffersScreen(EntryPage[str | None, "SkillOffer"]):
    """The skills found in the sources. The result is the name of the last installed skill, or None."""

    DEFAULT_CLASSES = "rows-first"
    heading = "Skills from elsewhere"
    keys = "⏎ fetch and look · n new search · / filter · ? keys · esc back"
    ways_on = "n new search"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "search", "Search for other words, or name a skill", id="skill-offers.search"),
    ]

    def __init__(self, market: HubMarket, text: str) -> None:
        """`text` is the first search."""
        super().__init__(OfferRows())
        self._market = market
        self._text = text
        self._installed: str | None = None
        self.busy = True
        """True while a source is being queried."""

    def about(self, entry: SkillOffer) -> Content:
        return offer_text(entry)

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
            self.show_problem(problem, "warning")

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
            self.show_problem(error)
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


def offer_text(offer: SkillOffer) -> Content:
    """Return the information that a source gives about a skill. Pure."""
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
