"""The screen of agent kinds: the purpose, limits and problems of each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from rich.text import Text
from textual import work
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
from app.tui.screens.dialog import TextDialog
from app.tui.screens.page import Page, line
from tools.text.words import shorten
from widgets.rows.row_list import RowList
from widgets.rows.row_text import one_line, spread

WAITS = "those of the project wait for hermes config trust"
NAME_CELLS = 18
"""Cells of the names; longer ones are cut."""


class KindsSource(Protocol):
    """The source of the kinds; `AgentMenu` implements it."""

    async def list_kinds(self) -> tuple[list[AgentKind], str]:
        """Return all kinds, and the reason why kinds of the project are ignored, if any."""
        ...

    async def text(self, kind: AgentKind) -> str:
        """Return the text of a kind's file. Raises `HermesError`."""
        ...

    async def new(self, name: str) -> str:
        """Return the template for a new kind. Raises `HermesError` if the name is not valid or taken."""
        ...

    async def create(self, name: str, text: str) -> None: ...

    async def change(self, kind: AgentKind, text: str) -> str:
        """Save a new text for a kind; return a notice."""
        ...

    def edit_text(self, text: str) -> str:
        """Open `text` in the person's editor, which takes over the terminal; return the result. Raises
        `HermesError`.
        """
        ...


class KindsScreen(Page[str | None]):
    """The list of agent kinds. Its result is the name of a kind to mention, or None."""

    heading = "Kinds of agents"
    keys = "⏎ mention · n new · e edit · / filter · ? help · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "edit", "Open its file in the editor", id="kinds.edit"),
    ]

    def __init__(self, menu: KindsSource) -> None:
        self._list = KindRows()
        super().__init__(self._list)
        self._menu = menu

    def below(self) -> list[Widget]:
        return [Static(id="page-about")]

    def on_mount(self) -> None:
        self._fill()

    @work(exclusive=True, group="list")
    async def _fill(self, at: str = "") -> None:
        kinds, problem = await self._menu.list_kinds()
        self._list.show(kinds, at)
        self.state(WAITS if problem == UNTRUSTED else problem)
        self.pointed()

    def pointed(self) -> None:
        """Show details of the kind under the cursor."""
        kind = self._list.pointed
        for place in self.query("#page-about").results(Static):
            place.update(Content("") if kind is None else about(kind))

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        if (kind := self._list.pointed) is not None:
            if kind.definition is None:
                self.notify(line(kind.problems[0]), severity="warning", markup=False)
            else:
                self.dismiss(kind.name)

    @work(exclusive=True, group="change")
    async def action_new(self) -> None:
        """Ask for a name, open the template in the editor, and save the result."""
        name = await self.app.push_screen_wait(TextDialog("Name of the new kind: a-z, 0-9 and -"))
        if name is None or not name.strip():
            return
        try:
            text = self._in_editor(await self._menu.new(name))
            if text.strip():
                await self._menu.create(name.strip(), text)
                self._fill(name.strip())
        except HermesError as error:
            self._complain(error)

    @work(exclusive=True, group="change")
    async def action_edit(self) -> None:
        """Edit the file of the kind under the cursor."""
        kind = self._list.pointed
        if kind is None:
            return
        try:
            before = await self._menu.text(kind)
            after = self._in_editor(before)
            if after not in (before, ""):
                self.notify(line(await self._menu.change(kind, after)), markup=False)
                self._fill(kind.name)
        except HermesError as error:
            self._complain(error)

    def _in_editor(self, text: str) -> str:
        try:
            with self.app.suspend():
                return self._menu.edit_text(text)
        except SuspendNotSupported:
            raise HermesError("This terminal cannot be left to an editor.") from None

    def _complain(self, error: HermesError) -> None:
        self.notify(line(str(error)), severity="warning", timeout=8, markup=False)


class KindRows(RowList):
    """One row per kind: name, purpose, origin."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # Bound here, as lists of rows use the key otherwise.
        Binding("n", "screen.new", "Write a new kind of agent in the editor", id="kinds.new"),
    ]

    def __init__(self) -> None:
        super().__init__(self._lines, search_text=self._text)
        self._kinds: Sequence[AgentKind] = ()

    @property
    def pointed(self) -> AgentKind | None:
        """The kind under the cursor."""
        return None if self.cursor is None or self.cursor >= len(self._kinds) else self._kinds[self.cursor]

    def show(self, kinds: Sequence[AgentKind], at: str = "") -> None:
        """List the kinds; the cursor moves to the one named `at`, or stays on its kind."""
        before = self.pointed
        self._kinds = kinds
        self.reset(len(kinds))
        names = [kind.name for kind in kinds]
        wanted = at or (before.name if before else "")
        self.move_to(names.index(wanted) if wanted in names else 0)

    def cursor_moved(self) -> None:
        super().cursor_moved()
        self._tell()

    def repaint(self) -> None:
        super().repaint()
        # A filter may have left the cursor on another kind.
        self._tell()

    def _tell(self) -> None:
        if self.is_attached and isinstance(self.screen, KindsScreen):
            self.screen.pointed()

    def _text(self, index: int) -> str:
        kind = self._kinds[index]
        return f"{kind.name} {kind.definition.description if kind.definition else ''} {kind.source}"

    def _lines(self, index: int, width: int) -> list[Text]:
        kind = self._kinds[index]
        glyph, role = (
            ("✗", "error") if kind.definition is None else ("▲", "warning") if kind.doubts else (" ", "dim")
        )
        left = Text(" ").append(f"{glyph} ", self.ink(role))
        name = one_line(kind.name)
        name = shorten(name, NAME_CELLS)
        left.append(f"{name:<{NAME_CELLS}} ", self.ink("text"))
        words = kind.definition.description if kind.definition else "cannot be sent"
        left.append(one_line(words), self.ink("dim"))
        return [spread(left, Text(f" {kind.source} ", self.ink("dim")), width)]


def about(kind: AgentKind) -> Content:
    """Return a kind's limits or problem, and the path of its file, in two lines. Pure."""
    if kind.definition is None:
        more = len(kind.problems) - 1
        first = Content.assemble(
            ("✗ ", "$error"), line(kind.problems[0]), f" And {more} more." if more else ""
        )
    elif kind.doubts:
        first = Content.assemble(("▲ ", "$warning"), line(kind.doubts[0]))
    else:
        first = Content(line(limits(kind.definition)))
    hides = f" · takes the place of: {', '.join(kind.hides)}" if kind.hides else ""
    return Content.assemble(first, "\n", (line(f"{kind.path}{hides}"), "$text-muted"))


class AgentMenu:
    """Reads and changes the kinds of agents in one workspace."""

    def __init__(self, workspace: Path, environ: Mapping[str, str] = os.environ) -> None:
        self._workspace = workspace
        self._environ = dict(environ)
        self._home = Home.locate(self._environ)

    async def list_kinds(self) -> tuple[list[AgentKind], str]:
        """Return all kinds, and the reason why kinds of the project are ignored, if any."""
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
        """Save a new text for a kind; return a notice. For a built-in kind, the person gets a file that
        replaces it.
        """
        if kind.source == "built-in":
            await asyncio.to_thread(agent_files.create, self._home, kind.name, text)
            return f"{kind.name} is yours now; the built-in one is back when you remove the file."
        await asyncio.to_thread(agent_files.save, kind.path, text)
        if kind.source == "project":
            return "Kept. The project is not trusted any more, as it has changed: hermes config trust."
        return f"{kind.name} is kept."

    def edit_text(self, text: str) -> str:
        """Open `text` in the person's editor; return the result. Raises `HermesError`."""
        from app.tui.terminal.editor import edit

        return edit(text)
