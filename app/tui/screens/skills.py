"""The screen of skills: read, search, run, switch on and off, with the scan results of each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType
from textual.content import Content

from agent.core.home import Home, from_home
from app.tui.screens.dialog import DetailScreen
from app.tui.screens.entry_page import EntryPage, EntryRows, change_entry, load
from themes.states import state_of
from tools.text.safe_text import clean
from widgets.rows.row_text import one_line, spread

if TYPE_CHECKING:
    from agent.knowledge.skills.catalog import SkillSet
    from agent.knowledge.skills.scanner import SkillFinding, SkillScan
    from agent.knowledge.skills.skill import Skill

MOST_SHOWN = 6_000
"""Characters of the instructions that are shown beside the list."""
MOST_FINDINGS = 12
"""Findings that are shown beside the list."""

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
    """The reason why it is not used, in half a sentence."""
    skill: Skill | None = None
    """None for a broken one."""


@dataclass(frozen=True, slots=True)
class DiskShelf:
    """The skills of a workspace on disk, and the setting that switches single ones off."""

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
        """Use a skill from now on, or no longer. Raises `HermesError`."""
        from agent.core.config.edit import set_setting
        from agent.core.config.loader import load

        disabled = load(self.home, dict(os.environ), self.workspace).settings.skills.disabled
        names = [each for each in disabled if each != name] + ([] if on else [name])
        set_setting(self.home, "skills.disabled", ",".join(names))


def rows_of(found: SkillSet) -> list[SkillRow]:
    """Return all skills by name; a used skill comes before those it shadows. Pure."""
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

    heading = "Skills"
    keys = "⏎ read · F5 run · n install · p pause · / filter · ? keys · esc back"
    ways_on = "n install"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "run", "Begin a message that runs the skill", id="skills.run"),
        Binding("n", "app.order('program.install_skill')", "Install from elsewhere", id="skills.install"),
        Binding("p", "switch", "Use the skill, or no longer", id="skills.switch"),
    ]

    def __init__(self, shelf: DiskShelf, at: str = "") -> None:
        """`at`: the name of the skill it begins with."""
        self._first = at
        super().__init__(SkillRows())
        self._shelf = shelf
        self._scans: dict[Path, SkillScan] = {}
        self.told = ""
        """The skill whose scan is shown."""

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
            self.complain(note, "warning")

    def tell(self) -> None:
        super().tell()
        if (row := self.pointed) is not None and row.skill is not None:
            self._scan(row.skill)

    @work(exclusive=True, group="scan")
    async def _scan(self, skill: Skill) -> None:
        if skill.folder not in self._scans:
            self._scans[skill.folder] = await asyncio.to_thread(self._shelf.scan, skill)
        row = self.pointed
        if row is not None and row.skill is skill:
            super().tell()
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
            self.complain(f"{row.name} is not used: {row.reason}.", "warning")
            return
        self.dismiss(row.name)

    @change_entry
    async def action_switch(self, row: SkillRow) -> None:
        if row.standing in ("used", "off"):
            await asyncio.to_thread(self._shelf.switch, row.name, row.standing == "off")
            self._load(row.name)


class SkillRows(EntryRows[SkillRow]):
    """One row per skill: whether it is used, scope, name, description."""

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
    """Return the details of a skill. Pure; `scan` is None while the scan runs."""
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
    """Return the verdict of the scan, and the findings behind it."""
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
