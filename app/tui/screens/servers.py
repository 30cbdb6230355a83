"""The screen of MCP servers: state, tools and log of each, and questions that wait for the user."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
import webbrowser
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input

from agent.core.home import Home
from agent.errors import ConfigError, HermesError
from app.tui.screens.dialog import (
    ChangeDialog,
    Choices,
    ConfirmDialog,
    DetailScreen,
    Dialog,
    Hints,
    difference_parts,
)
from app.tui.screens.entry_page import EntryForm, EntryPage, EntryRows, FormLine, change, change_entry, load
from app.tui.screens.page import BETWEEN, Field, line, words
from themes.states import glyph, state_of
from tools.text.words import plural
from widgets.rows.reader import Reader
from widgets.rows.row_text import one_line, spread

if TYPE_CHECKING:
    from agent.api.session import McpService
    from agent.integrations.mcp.server_state import ServerState, ToolState

SIGN_IN_POLL = 0.25
"""Seconds between two checks whether the server has sent the sign-in address."""
COPY, BROWSE, LEAVE = "Copy the address", "Open it in a browser", "Cancel"
ASKING = "Asking {name} where to sign in …"


class SignInDialog(Dialog[str]):
    """Shows the sign-in address until the sign-in has succeeded or failed. Returns the result as text."""

    at_once = True
    opens = True
    enters = "continue with it"
    leaves: ClassVar[str] = "cancel"

    def __init__(self, servers: McpService, name: str, environ: Mapping[str, str] = os.environ) -> None:
        super().__init__()
        self._servers = servers
        self._server = name
        self._environ = environ
        self._address = ""

    def body(self) -> ComposeResult:
        yield words(ASKING.format(name=line(self._server)))
        yield Field(placeholder="Signed in elsewhere? Paste the address of the last page.", compact=True)
        yield Choices([COPY, BROWSE, LEAVE], chosen=2)
        yield Hints()

    def on_mount(self) -> None:
        self._wait()
        self.set_interval(SIGN_IN_POLL, self._look)

    @work(exclusive=True, group="sign-in")
    async def _wait(self) -> None:
        try:
            await self._servers.sign_in(self._server)
        except HermesError as error:
            self.dismiss(str(error))
        else:
            self.dismiss(f"Signed in to {line(self._server)}.")

    @work(exclusive=True, group="look")
    async def _look(self) -> None:
        if self._address:
            return
        with suppress(HermesError):
            states = await self._servers.states()
            self._address = next((each.sign_in or "" for each in states if each.name == self._server), "")
            if self._address:
                # Immediate, because the next check cancels this one wherever it waits.
                self.query_one(Reader).read(sign_in_text(self._server, self._address, self._environ))
                self._fit()
                if shows_pages(self._environ):
                    self._browse()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        match event.option_index:
            case 0 if self._address:
                self.app.copy_to_clipboard(self._address)
            case 1 if self._address:
                self._browse()
            case 2:
                self.decline()

    @work(exclusive=True, group="back")
    async def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            await self._servers.came_back(self._server, event.value)
        except HermesError as error:
            self.notify(line(str(error)), severity="warning", markup=False)

    def _hints(self, *, scrolls: bool) -> str:
        return f"tab field or choices{BETWEEN}{super()._hints(scrolls=scrolls)}"

    def decline(self) -> None:
        self._give_up()

    @work(exclusive=True, group="leave")
    async def _give_up(self) -> None:
        with suppress(HermesError):
            await self._servers.leave_sign_in(self._server)
        self.dismiss("")

    @work(exclusive=True, group="browse")
    async def _browse(self) -> None:
        def open_page() -> bool:
            try:
                return webbrowser.open(self._address)
            except webbrowser.Error:
                return False

        if not await asyncio.to_thread(open_page):
            self.notify("No browser can be opened here; copy the address.", severity="warning", markup=False)


def shows_pages(environ: Mapping[str, str]) -> bool:
    """Return whether a browser opened on this machine is visible to the user. Pure."""
    if environ.get("BROWSER"):
        return True
    is_remote = bool(environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"))
    return not is_remote and (
        sys.platform == "darwin" or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
    )


def sign_in_text(name: str, address: str, environ: Mapping[str, str]) -> str:
    """Return the sign-in address, with instructions for remote machines. Pure."""
    parts = [f"Sign in to {name}:\n\n{address}"]
    back = urlsplit(next(iter(parse_qs(urlsplit(address).query).get("redirect_uri", ())), ""))
    if environ.get("SSH_CONNECTION") and back.port:
        parts.append(
            f"From another machine, `ssh -L {back.port}:{back.hostname}:{back.port} …` brings its browser "
            "back here. Or paste below the address of the page at which it ends."
        )
    return "\n\n".join(parts)


POLL = 1.0
"""Seconds between two updates of the list."""
EMPTY = "MCP servers stand here: programs and addresses that bring tools. Press n to add one."
NEXT = "used from the next session"
ABOUT_NEW = "A program on this machine with its arguments, or the address of a server elsewhere."
MEANS = {
    "ready": "It runs.",
    "idle": "It starts when one of its tools is called.",
    "failed": "It is tried again when it is used.",
    "parked": "It failed several times in a row, and is tried again after a pause.",
    "sign-in": "It asks for a sign-in; t signs in.",
    "not agreed": "This project brings it, and nobody agreed to it yet; t agrees.",
    "off": "It is switched off in the settings.",
}
LOG_SHOWN = 6
"""The number of log lines in the details of a server; `i` shows all stored ones."""


class ServerFile:
    """The servers in the user's own settings file."""

    def __init__(self, home: Home, workspace: Path) -> None:
        self._home, self._workspace = home, workspace

    def add(self, name: str, place: str) -> ServerState:
        """Add a server to the settings, given by a command line or a URL. Raises `ConfigError`."""
        from agent.core.config.loader import load
        from agent.integrations.mcp.server_config import add_server, declared_servers
        from agent.integrations.mcp.server_state import Health, ServerState

        if re.match(r"https?://", place):
            entry: dict[str, Any] = {"url": place}
        else:
            try:
                command, *arguments = shlex.split(place)
            except ValueError as error:
                raise ConfigError(f"The command cannot be read ({error}); close its quotes.") from None
            entry = {"command": command, "args": arguments}
        settings = load(self._home, dict(os.environ), self._workspace).settings
        declared = declared_servers(settings, self._home.servers, self._workspace)
        place = add_server(self._home, declared, name, entry).place
        return ServerState(name=name, origin="settings", place=place, health=Health(reason=NEXT))

    def remove(self, name: str) -> Callable[[], None]:
        """Remove a server; return a function that restores it. Raises `ConfigError` if it is not there."""
        from agent.core.config.edit import drop_entry

        if (back := drop_entry(self._home, ("mcp_servers", name))) is None:
            raise ConfigError(f"{name} does not stand in your own settings; take it out where it comes from.")
        return back


class ServersScreen(EntryPage[None, "ServerState"]):
    """The list of MCP servers, refreshed while it is open."""

    DEFAULT_CLASSES = "rows-first"
    heading = "MCP servers"
    keys = "⏎ tools in full · n new · t trust or sign in · i log · F5 restart · ? keys · esc back"
    ways_on = "n new"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "add", "Add a server", id="servers.add"),
        Binding("d,delete", "remove", "Delete the server from your settings", id="servers.remove"),
        Binding("u", "undo", "Take back the last change made here", id="servers.undo"),
        Binding("f5", "restart", "Restart the server", id="servers.restart"),
        Binding("t", "trust", "Agree to what waits, or sign in", id="servers.trust"),
        Binding("x,o", "sign_out", "Sign out of the server", id="servers.sign_out"),
        Binding("i,l", "log", "Its log", id="servers.log"),
    ]

    severity = "warning"

    def __init__(self, servers: McpService, file: ServerFile, at: str = "") -> None:
        super().__init__(ServerRows(), at)
        self._servers = servers
        self._file = file
        self._added: dict[str, ServerState] = {}
        """Servers added here, which only the next session uses, by name."""

    def about(self, entry: ServerState) -> Content:
        return about(entry)

    def on_mount(self) -> None:
        self._look()
        self.set_interval(POLL, self._look)

    @load
    async def _look(self) -> None:
        states = await self._servers.states()
        names = {each.name for each in states}
        self.list_entries(
            [*states, *(each for each in self._added.values() if each.name not in names)],
            server_counts(states),
        )

    def open_entry(self, entry: ServerState) -> None:
        text = tools_in_full(entry)
        self.app.push_screen(DetailScreen(f"Tools of {entry.name}", text, spelled=True, diffs=True))

    def action_log(self) -> None:
        if (server := self.pointed) is not None:
            text = "\n".join(server.log) or "It has written nothing into its log in this session."
            self.app.push_screen(DetailScreen(f"Log of {server.name}", text))

    @change
    async def action_add(self) -> None:
        lines = (FormLine("name", "its name"), FormLine("place", "npx -y some-server, or https://…/mcp"))

        async def add(typed: Mapping[str, str]) -> ServerState:
            return await asyncio.to_thread(self._file.add, typed["name"], typed["place"])

        form = EntryForm("A new MCP server", ABOUT_NEW, lines, add)
        if (server := await self.app.push_screen_wait(form)) is not None:
            self._added[server.name] = server

            async def undo() -> None:
                await asyncio.to_thread(self._file.remove, server.name)
                del self._added[server.name]
                self._look()

            self.undo.append(undo)
            self.notify(f"{line(server.name)} is {NEXT}.", markup=False)
        self._look()

    @change_entry
    async def action_remove(self, server: ServerState) -> None:
        back = await asyncio.to_thread(self._file.remove, server.name)
        added = self._added.pop(server.name, None)

        async def undo() -> None:
            await asyncio.to_thread(back)
            if added is not None:
                self._added[server.name] = added
            self._look()

        self.undo.append(undo)
        self._look()
        until = "" if added is not None else "; this session uses it to its end"
        self.notify(f"Deleted{until}. u takes it back.", markup=False)

    @change_entry
    async def action_restart(self, server: ServerState) -> None:
        self.notify(f"{line(server.name)} is being restarted.", markup=False)
        await self._apply_change(self._servers.restart(server.name), f"{line(server.name)} runs again.")

    @change_entry
    async def action_trust(self, server: ServerState) -> None:
        if not waits(server):
            await self._sign_in(server)
            return
        dialog = ChangeDialog(agreement_text(server), difference(server), "Agree", "Leave it")
        if await self.app.push_screen_wait(dialog):
            agreed = self._servers.agree(server.name, server.seen)
            await self._apply_change(agreed, f"Agreed to {line(server.name)}.")

    async def _sign_in(self, server: ServerState) -> None:
        if not server.signs_in:
            self.notify("Nothing of it waits for you.", markup=False)
            return
        if told := await self.app.push_screen_wait(SignInDialog(self._servers, server.name)):
            self.notify(line(told), markup=False)
        self._look()

    @change_entry
    async def action_sign_out(self, server: ServerState) -> None:
        if not server.signed_in:
            self.notify(f"Nobody is signed in to {line(server.name)}.", markup=False)
            return
        question = f"Sign out of {server.name}?\n\nWhat signing in gave is forgotten, and the server ends."
        if await self.app.push_screen_wait(ConfirmDialog(question, "Sign out")):
            await self._apply_change(
                self._servers.sign_out(server.name), f"Signed out of {line(server.name)}."
            )

    async def _apply_change(self, change: Awaitable[object], words: str) -> None:
        try:
            await change
            self.notify(words, markup=False)
        finally:
            self._look()


class ServerRows(EntryRows["ServerState"]):
    """One row per server: state, name, number of tools, response time."""

    def __init__(self) -> None:
        super().__init__(key=lambda server: server.name, words=_words, empty=EMPTY)

    def draw_entry(self, entry: ServerState, width: int) -> list[Text]:
        mark, ink, *_ = state_of(entry.health.state)
        left = Text(" ").append(f"{mark} ", self.ink(ink)).append(one_line(entry.name), self.ink("text"))
        if entry.parked:
            count = len(entry.parked)
            left.append(f"  ▲ {count} wait{'s' if count == 1 else ''}", self.ink("warning"))
        if entry.health.reason and entry.health.state != "ready":
            left.append(f"  {one_line(entry.health.reason)}", self.ink("dim"))
        speed = f"  {milliseconds(entry.health.answered_in)}" if entry.health.calls else ""
        count = len(entry.tools)
        holds = plural(count, "tool") if entry.offer else entry.health.state
        right = Text(f" {holds}{speed} ", self.ink("dim"))
        return [spread(left, right, width)]


def _words(server: ServerState) -> str:
    return one_line(" ".join((server.name, server.place, server.health.state, *server.tools)), 4_000)


def waits(server: ServerState) -> bool:
    """Return whether the server or one of its tools waits for the user's approval. Pure."""
    return server.health.state == "not agreed" or bool(server.parked)


def server_counts(states: Sequence[ServerState]) -> str:
    """Return the number of servers by state, such as `2 ready · 1 failed`. Pure."""
    failed = sum(each.health.state in ("failed", "parked") for each in states)
    found = (
        (sum(each.health.state == "ready" for each in states), "ready"),
        (failed, "failed"),
        (sum(waits(each) for each in states), "waiting for you"),
    )
    return " · ".join(f"{count} {what}" for count, what in found if count) or plural(len(states), "server")


def milliseconds(seconds: float) -> str:
    """Return a duration as `12 ms` or `3.4 s`. Pure."""
    return f"{seconds * 1_000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def about(server: ServerState) -> Content:
    """Return the details of a server: state, tools, pending questions, end of its log. Pure."""
    health = server.health
    means = MEANS.get(health.state, "").format(name=server.name)
    facts = [f"{health.state.capitalize()}. {means}".strip()]
    if health.reason and health.state != "sign-in":
        facts.append(f"Last error: {one_line(health.reason, 600)}.")
    if server.retry_in:
        facts.append(f"Left alone for {server.retry_in:.0f} s more.")
    if server.signed_in and health.state != "sign-in":
        facts.append("You are signed in; x signs out.")
    if health.protocol:
        facts.append(f"Protocol {line(health.protocol)}, start {health.starts} within {health.took:.1f} s.")
    if health.calls:
        answers = plural(health.calls, "answer")
        facts.append(f"{answers}, the last within {milliseconds(health.answered_in)}.")
    where = {"project": "of the project", "plugin": "of a plugin"}.get(server.origin, "of your settings")
    ready = [tool for tool in server.offer if not tool.why]
    return Content.assemble(
        one_line(server.name),
        (f"  {where}\n{one_line(server.place, 400)}\n\n", "$text-muted"),
        "\n".join(facts) + "\n",
        *(part for tool in server.offer if tool.why for part in _held_back_parts(tool)),
        ("\nTools\n" if ready else "", "$accent"),
        *(part for tool in ready for part in _tool(tool)),
        ("\nPrompts\n" if server.prompts else "", "$accent"),
        one_line(", ".join(server.prompts), 2_000) + ("\n" if server.prompts else ""),
        *((f"\n{glyph('failed')} {one_line(problem, 400)}", "$error") for problem in server.problems),
        ("\nLog\n" if server.log else "", "$accent"),
        ("\n".join(one_line(each, 300) for each in server.log[-LOG_SHOWN:]), "$text-muted"),
    )


def _held_back_parts(tool: ToolState) -> list[str | tuple[str, str]]:
    return [
        (f"\n▲ {one_line(tool.name)}", "$warning"),
        f" {one_line(tool.why, 400)}\n",
        *difference_parts(tool.difference, "⏎ shows all"),
    ]


def _tool(tool: ToolState) -> list[str | tuple[str, str]]:
    said = one_line(tool.description, 160)
    return [one_line(tool.name), (f"  {said}\n" if said else "\n", "$text-muted")]


def agreement_text(server: ServerState) -> str:
    """Return the question that a user must approve, which contains outside text. Pure."""
    parts = []
    if server.health.state == "not agreed":
        lines = (server.place, *server.terms)
        parts.append("\n".join([f"This project brings the MCP server {server.name}:", *lines]))
        parts.append("May it be used?")
    for tool in server.offer:
        if tool.why:
            parts.append(f"▲ {tool.name} {tool.why}.")
            if not tool.difference:
                parts.append(f"It says:\n{tool.description or '(nothing)'}")
    parts.append("What it says is read by the model; it comes from that server.")
    return "\n\n".join(parts)


def difference(server: ServerState) -> str:
    """Return the changes to tools since their approval as unified diffs, which are outside text. Pure."""
    return "\n".join(tool.difference for tool in server.offer if tool.why and tool.difference)


def tools_in_full(server: ServerState) -> str:
    """Return all tools with their full descriptions and changes, which are outside text. Pure."""
    blocks = [
        f"{tool.name}{f' ▲ {tool.why}' if tool.why else ''}\n{tool.description or '(no description)'}"
        + (f"\n\n{tool.difference}" if tool.difference else "")
        for tool in server.offer
    ]
    return "\n\n".join(blocks) or "Nothing is known of its tools yet; r starts it."
