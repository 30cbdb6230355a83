"""The dialog for signing in to a tool server: its address to copy or open, and the return to Hermes."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qs, urlsplit

from textual import work
from textual.app import ComposeResult
from textual.widgets import Input

from agent.errors import HermesError
from app.tui.screens.dialog import Choices, Dialog, Hints
from app.tui.screens.page import BETWEEN, Field, line, words
from widgets.rows.reader import Reader

if TYPE_CHECKING:
    from agent.api.session import McpService

POLL = 0.25
"""Seconds between two checks whether the server has given the address."""
COPY, BROWSE, LEAVE = "Copy the address", "Open it in a browser", "Cancel"
ASKING = "Asking {name} where to sign in …"


class SignInDialog(Dialog[str]):
    """Waits until the person has signed in, the sign-in failed, or the person left. Returns the result."""

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
        self.set_interval(POLL, self._look)

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
    """Return whether a browser opened on this machine is visible to the person. Pure."""
    if environ.get("BROWSER"):
        return True
    is_remote = bool(environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"))
    return not is_remote and (
        sys.platform == "darwin" or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
    )


def sign_in_text(name: str, address: str, environ: Mapping[str, str]) -> str:
    """Return the full address, with instructions for machines where no browser can be opened. Pure."""
    parts = [f"Sign in to {name}:\n\n{address}"]
    back = urlsplit(next(iter(parse_qs(urlsplit(address).query).get("redirect_uri", ())), ""))
    if environ.get("SSH_CONNECTION") and back.port:
        parts.append(
            f"From another machine, `ssh -L {back.port}:{back.hostname}:{back.port} …` brings its browser "
            "back here. Or paste below the address of the page at which it ends."
        )
    return "\n\n".join(parts)
