"""The skills there are: to read, search, run, switch on and off, and what a scan finds in each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from agent.api.home import from_home
from agent.errors import HermesError
from app.screens.detail import DetailScreen
from app.screens.page import WAYS_OUT
from app.screens.split import PointedRows, SplitPage
from app.screens.wording import line
from tools.safe_text import clean
from widgets.row_text import one_line, spread

if TYPE_CHECKING:
    from agent.api.skills import Skill, SkillFinding, SkillScan, SkillSet

MOST_SHOWN = 6_000
"""Characters of the instructions that are shown beside the list."""
MOST_FINDINGS = 12
"""Findings that are shown beside the list."""
MARKS = {"used": "●", "off": "○", "shadowed": "◌", "broken": "✗"}

SkillStanding = Literal["used", "off", "shadowed", "broken"]


@dataclass(frozen=True, slots=True)
class SkillRow:
    """A skill, or a folder that wants to be one."""

    name: str
    scope: str
    description: str
    standing: SkillStanding
    folder: Path
    reason: str = ""
    """Why it is not used, in half a sentence."""
    skill: Skill | None = None
    """None for a broken one."""


class SkillShelf(Protocol):
    """Where the screen gets skills from. All methods touch the disk."""

    def load(self) -> SkillSet: ...

    def scan(self, skill: Skill) -> SkillScan: ...

    def switch(self, name: str, on: bool) -> None:
        """Use a skill from now on, or no longer. Raises `HermesError`."""
        ...


def rows_of(found: SkillSet) -> list[SkillRow]:
    """Everything that was found, by name; what is used comes before what it hides. Pure."""
    rows = [_row(each, "used", "") for each in found.skills]
    rows += [_row(each.skill, "off", each.reason) for each in found.off]
    rows += [_row(each, "shadowed", "a nearer skill has its name") for each in found.shadowed]
    rows += [
        SkillRow(clean(each.folder.name), each.scope, each.reason, "broken", each.folder, each.reason)
        for each in found.broken
    ]
    order = list(MARKS)
    return sorted(rows, key=lambda row: (row.name, order.index(row.standing)))


def _row(skill: Skill, standing: SkillStanding, reason: str) -> SkillRow:
    return SkillRow(skill.name, skill.scope, skill.description, standing, skill.folder, reason, skill)


class SkillsScreen(SplitPage[str | None]):
    """Ends with the name of the skill that is to be run, or None."""

    heading = "Skills"
    keys = "⏎ read · r run · space on/off · i install · / filter · ? help · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "run", "Begin a message that runs the skill", id="skills.run"),
        Binding("i", "app.order('program.install_skill')", "Install from elsewhere", id="skills.install"),
        Binding("space", "switch", "Use the skill, or no longer", id="skills.switch"),
    ]

    def __init__(self, shelf: SkillShelf, at: str = "") -> None:
        """`at`: the name of the skill it begins with."""
        self._first = at
        self._lines = SkillRows()
        super().__init__(self._lines)
        self._shelf = shelf
        self._scans: dict[Path, SkillScan] = {}
        self.loaded = False
        """Whether the skills were read."""
        self.told = ""
        """The skill whose scan is shown."""

    def beside(self) -> ComposeResult:
        with VerticalScroll(id="skill-about", can_focus=False):
            yield Static(id="skill-text")

    def on_mount(self) -> None:
        self._load(self._first)

    def on_screen_resume(self) -> None:
        """What was installed meanwhile is listed too."""
        if self.loaded:
            self._load()

    @work(exclusive=True, group="list")
    async def _load(self, at: str = "") -> None:
        found = await asyncio.to_thread(self._shelf.load)
        rows = rows_of(found)
        self._lines.show(rows, at)
        self.state(_counted(rows))
        self.set_class(not rows, "bare")
        self.foot.say(self.keys if rows else WAYS_OUT)
        self.loaded = True
        for note in (*found.notes, *found.renewed):
            self.notify(line(note), severity="warning", markup=False)
        self._tell(self._lines.pointed)

    def on_pointed_rows_pointed(self, event: PointedRows.Pointed) -> None:
        event.stop()
        self._tell(self._lines.pointed)

    def _tell(self, row: SkillRow | None) -> None:
        self._show(
            Content("") if row is None else about(row, None if row.skill is None else self._known(row))
        )
        if row is not None and row.skill is not None:
            self._scan(row.skill)

    def _known(self, row: SkillRow) -> SkillScan | None:
        return self._scans.get(row.folder)

    def _show(self, content: Content) -> None:
        for place in self.query("#skill-text").results(Static):
            place.update(content)

    @work(exclusive=True, group="scan")
    async def _scan(self, skill: Skill) -> None:
        if skill.folder not in self._scans:
            self._scans[skill.folder] = await asyncio.to_thread(self._shelf.scan, skill)
        row = self._lines.pointed
        if row is not None and row.skill is skill:
            self._show(about(row, self._scans[skill.folder]))
            self.told = skill.name

    def on_row_list_activated(self, event: PointedRows.Activated) -> None:
        event.stop()
        row = self._lines.pointed
        if row is not None and row.skill is not None:
            title = f"{row.name} · {row.scope} · {from_home(row.folder)}"
            self.app.push_screen(DetailScreen(title, row.skill.body))

    def action_run(self) -> None:
        row = self._lines.pointed
        if row is None:
            return
        if row.standing != "used":
            self.notify(line(f"{row.name} is not used: {row.reason}."), severity="warning", markup=False)
            return
        self.dismiss(row.name)

    @work(exclusive=True, group="change")
    async def action_switch(self) -> None:
        row = self._lines.pointed
        if row is None or row.standing not in ("used", "off"):
            return
        try:
            await asyncio.to_thread(self._shelf.switch, row.name, row.standing == "off")
        except HermesError as error:
            self.notify(line(str(error)), severity="error", markup=False)
            return
        self._load(row.name)


class SkillRows(PointedRows):
    """A row for each skill: whether it is used, its scope, its name, what it is for."""

    def __init__(self) -> None:
        super().__init__(
            self._draw_row,
            search_text=lambda index: (
                f"{self.entries[index].scope} {self.entries[index].name} "
                f"{one_line(self.entries[index].description, 2_000)}"
            ),
            empty="There are no skills here.",
        )
        self.entries: Sequence[SkillRow] = ()
        """The skills that are listed."""

    @property
    def pointed(self) -> SkillRow | None:
        """The skill under the cursor."""
        return None if self.cursor is None or self.cursor >= len(self.entries) else self.entries[self.cursor]

    def show(self, rows: Sequence[SkillRow], at: str = "") -> None:
        """List these, the cursor on the skill called `at`, else where it was."""
        before = self.cursor or 0
        self.entries = rows
        self.reset(len(rows))
        names = [row.name for row in rows]
        if rows:
            self.move_to(names.index(at) if at in names else min(before, len(rows) - 1))

    def _draw_row(self, index: int, width: int) -> list[Text]:
        row = self.entries[index]
        ink = {"used": "success", "broken": "error"}.get(row.standing, "dim")
        shown = "text" if row.standing == "used" else "dim"
        left = Text(" ").append(f"{MARKS[row.standing]} ", self.ink(ink))
        left.append(f"{row.name:<20} ", self.ink(shown)).append(one_line(row.description), self.ink("dim"))
        return [spread(left, Text(f" {row.scope} ", self.ink("dim")), width)]


def _counted(rows: Sequence[SkillRow]) -> str:
    parts = [
        (sum(row.standing == standing for row in rows), words)
        for standing, words in (
            ("used", "used"),
            ("off", "off"),
            ("shadowed", "shadowed"),
            ("broken", "broken"),
        )
    ]
    return " · ".join(f"{count:,} {words}" for count, words in parts if count)


def about(row: SkillRow, scan: SkillScan | None) -> Content:
    """What is to be known of a skill. Pure; `scan` is None while it is under way."""
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
    """The verdict and what led to it."""
    if scan is None:
        return [("Scan: …\n\n", "$text-muted")]
    tone = {"safe": "$success", "caution": "$warning", "dangerous": "$error"}[scan.verdict]
    parts: list[tuple[str, str] | str] = [("Scan: ", "$text-muted"), (f"{scan.verdict}\n", tone)]
    for each in scan.findings[:MOST_FINDINGS]:
        parts.append((f"  {each.severity} ", _tone(each)))
        parts.append(f"{clean(each.file)}{f':{each.line}' if each.line else ''} {clean(each.why)}\n")
    if len(scan.findings) > MOST_FINDINGS:
        parts.append((f"  and {len(scan.findings) - MOST_FINDINGS} more\n", "$text-muted"))
    return [*parts, "\n"]


def _tone(finding: SkillFinding) -> str:
    return {"critical": "$error", "high": "$warning"}.get(finding.severity, "$text-muted")
