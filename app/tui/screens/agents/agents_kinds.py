"""The screen of agent kinds: the purpose, limits and problems of each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from agent.core.home import Home
from agent.errors import ConfigError, HermesError
from agent.session.subagents.definitions import UNTRUSTED
from app.tui.screens.agents import agent_files
from app.tui.screens.agents.agent_files import AgentKind, limits
from app.tui.screens.entry_page import EntryRows, ListPage, change, change_entry, load
from app.tui.screens.page import line
from themes.states import DOUBT, glyph, state_glyph
from tools.text.words import shorten
from widgets.rows.row_text import one_line, spread

WAITS = "those of the project wait for hermes config trust"
EMPTY = "Kinds of agents stand here, each with a task, tools and limits of its own. Press n to write one."
NAME_CELLS = 18
"""The width of the names in cells; longer ones are cut."""


class KindsScreen(ListPage[str | None, AgentKind]):
    """The list of agent kinds. Its result is the name of a kind to mention, or None."""

    CSS = "KindsScreen #page-about { height: 5; } KindsScreen.bare #page-about { display: none; }"
    heading = "Kinds of agents"
    keys = "⏎ mention · n new · e edit · / filter · ? keys · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "edit", "Open its file in the editor", id="kinds.edit"),
    ]

    severity = "warning"
    ways_on = "n new"

    def __init__(self, menu: AgentMenu) -> None:
        super().__init__(KindRows())
        self._menu = menu

    def about(self, entry: AgentKind) -> Content:
        return about(entry)

    def below(self) -> list[Widget]:
        return [Static(id="page-about")]

    def on_mount(self) -> None:
        self._fill()

    @load
    async def _fill(self, at: str = "") -> None:
        kinds, problem = await self._menu.list_kinds()
        self.list_entries(kinds, WAITS if problem == UNTRUSTED else "", at)
        if problem not in ("", UNTRUSTED):
            self.show_problem(problem)

    def open_entry(self, entry: AgentKind) -> None:
        if entry.definition is None:
            self.show_problem(entry.problems[0])
        else:
            self.dismiss(entry.name)

    @change
    async def action_new(self) -> None:
        """Ask for a name, open the template in the user's editor, and save the result unless it is empty."""
        name = await self.ask("Name of the new kind: a-z, 0-9 and -")
        if name and (text := self._in_editor(await self._menu.new(name))).strip():
            await self._menu.create(name, text)
            self._fill(name)

    @change_entry
    async def action_edit(self, kind: AgentKind) -> None:
        """Open the file of the kind under the cursor in the user's editor, and save changes."""
        before = await self._menu.text(kind)
        after = self._in_editor(before)
        if after not in (before, ""):
            self.notify(line(await self._menu.change(kind, after)), markup=False)
            self._fill(kind.name)

    def _in_editor(self, text: str) -> str:
        try:
            with self.app.suspend():
                return self._menu.edit_text(text)
        except SuspendNotSupported:
            raise HermesError("This terminal cannot be left to an editor.") from None


class KindRows(EntryRows[AgentKind]):
    """One row per kind: name, purpose, origin."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # Bound here, as lists of rows use the key otherwise.
        Binding("n", "screen.new", "Write a new kind of agent in the editor", id="kinds.new"),
    ]

    def __init__(self) -> None:
        super().__init__(key=lambda kind: kind.name, words=_words, empty=EMPTY)

    def draw_entry(self, entry: AgentKind, width: int) -> list[Text]:
        doubts = (DOUBT, "warning") if entry.doubts else (" ", "dim")
        glyph, role = state_glyph("failed") if entry.definition is None else doubts
        left = Text(" ").append(f"{glyph} ", self.ink(role))
        name = shorten(one_line(entry.name), NAME_CELLS)
        left.append(f"{name:<{NAME_CELLS}} ", self.ink("text"))
        words = entry.definition.description if entry.definition else "cannot be sent"
        left.append(one_line(words), self.ink("dim"))
        return [spread(left, Text(f" {entry.source} ", self.ink("dim")), width)]


def _words(kind: AgentKind) -> str:
    return f"{kind.name} {kind.definition.description if kind.definition else ''} {kind.source}"


def about(kind: AgentKind) -> Content:
    """Return the details of a kind: its description and limits, or its problem, and its path. Pure."""
    if kind.definition is None:
        more = len(kind.problems) - 1
        first = Content.assemble(
            (f"{glyph('failed')} ", "$error"), line(kind.problems[0]), f" And {more} more." if more else ""
        )
    elif kind.doubts:
        first = Content.assemble((f"{DOUBT} ", "$warning"), line(kind.doubts[0]))
    else:
        first = Content(line(kind.definition.description))
    can = f"{limits(kind.definition)} · " if kind.definition and not kind.doubts else ""
    hides = f" · takes the place of: {', '.join(kind.hides)}" if kind.hides else ""
    return Content.assemble(first, "\n", (line(f"{can}{kind.path}{hides}"), "$text-muted"))


class AgentMenu:
    """Reads and changes the kinds of agents in one workspace."""

    def __init__(self, workspace: Path, environ: Mapping[str, str] = os.environ) -> None:
        self._workspace = workspace
        self._environ = dict(environ)
        self._home = Home.locate(self._environ)

    async def list_kinds(self) -> tuple[list[AgentKind], str]:
        """Return all kinds, and the reason why kinds of the project are ignored, or ""."""
        return await asyncio.to_thread(agent_files.read_kinds, self._home, self._workspace, self._environ)

    async def text(self, kind: AgentKind) -> str:
        """Return the text of a kind's file. Raises `ConfigError`."""
        return await asyncio.to_thread(agent_files.read_text, kind.path)

    async def new(self, name: str) -> str:
        """Return the template for a new kind. Raises `ConfigError` if the name is not valid or taken."""
        text = agent_files.new_text(name)
        path = agent_files.own_file(self._home, agent_files.valid_name(name))
        if await asyncio.to_thread(os.path.lexists, path):
            raise ConfigError(f"{path} is there already; edit it, or choose another name.")
        return text

    async def create(self, name: str, text: str) -> None:
        """Write a new kind's file. Raises `ConfigError`."""
        await asyncio.to_thread(agent_files.create, self._home, name, text)

    async def change(self, kind: AgentKind, text: str) -> str:
        """Save a new text for a kind; return a notice. Raises `ConfigError`.

        For a built-in kind, the user gets a file of their own that replaces it.
        """
        if kind.source == "built-in":
            await asyncio.to_thread(agent_files.create, self._home, kind.name, text)
            return f"{kind.name} is yours now; the built-in one is back when you remove the file."
        await asyncio.to_thread(agent_files.save, kind.path, text)
        if kind.source == "project":
            return "Kept. The project is not trusted any more, as it has changed: hermes config trust."
        return f"{kind.name} is kept."

    def edit_text(self, text: str) -> str:
        """Open `text` in the user's editor on this terminal; return the result. Raises `HermesError`."""
        from app.tui.terminal.editor import edit

        return edit(text)
