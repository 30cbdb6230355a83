"""The dialog that installs a missing extra, after which the command that needed it continues."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
from collections.abc import Awaitable, Callable

from textual import work
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from agent.errors import HermesError
from agent.integrations.extras import ExtrasChange
from app.tui.screens.dialog import Choices, Dialog, Hints, ProblemLine
from app.tui.screens.page import line, words
from app.tui.terminal.pip_progress import failure_hint, with_raw_progress
from app.tui.terminal.pip_progress import run as run_pip
from themes.states import NEEDS_YOU
from tools.extras import EXTRAS, is_installed, named_extra
from tools.kit.umask import person_umask


class ExtraDialog(Dialog[bool]):
    """Asks whether to install an extra; True once it is installed. Nothing is fetched before a yes."""

    at_once = True

    def __init__(self, name: str, why: str, change: ExtrasChange) -> None:
        """`why` says which feature needs the extra; `change` holds the command that installs it."""
        super().__init__()
        self._name = name
        self._why = why
        self._change = change
        self._runs = False

    def body(self) -> ComposeResult:
        extra, line_of = EXTRAS[self._name], self._change.line
        yield Static(Content(f"{NEEDS_YOU} Add the extra {self._name}?"), classes="who")
        if obstacle := self._change.obstacle:
            does = f"Hermes cannot add it itself: {obstacle}. Run this in a shell:"
        else:
            does = f"This command runs and fetches about {extra.size} MB:"
        # The dialog itself offers the installation: the sentence need not name the command.
        why = self._why.replace("`", "").partition("; add it with")[0].rstrip(".")
        brings = "" if extra.brings in why else f" It brings {extra.brings}."
        yield words(f"{why}.{brings} {does}", "text")
        yield words(line_of, "text")
        progress = Static(id="progress", classes="note")
        progress.display = False
        yield progress
        yield ProblemLine()
        yield Choices(["Not now"] if obstacle else ["Add it, then continue", "Not now"])
        yield Hints()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        if self._change.obstacle or event.option_index == 1:
            self.decline()
        elif not self._runs:
            self._add()

    @work(exclusive=True, group="extra")
    async def _add(self) -> None:
        self._runs = True
        self.query_one(ProblemLine).say("")
        self._show("asking the package index …")
        command, size = self._change.command, EXTRAS[self._name].size * 1_000_000

        def install() -> tuple[int, str]:
            shown = lambda said: self.app.call_from_thread(self._show, said)  # noqa: E731
            return run_pip(with_raw_progress(command), size, shown, person_umask())

        try:
            code, said = await asyncio.to_thread(install)
        except (OSError, subprocess.SubprocessError) as error:
            code, said = 1, f"The command could not be run: {error}."
        importlib.invalidate_caches()
        if code == 0 and is_installed(self._name):
            self.dismiss(True)
            return
        self._runs = False
        self._show("")
        last = said.strip().rpartition("\n")[2] or "the package cannot be used after all"
        self.query_one(ProblemLine).say(f"It could not be added: {failure_hint(said) or last}")
        self._fit()

    def _show(self, said: str) -> None:
        if self.is_mounted:
            progress = self.query_one("#progress", Static)
            progress.display = bool(said)
            progress.update(Content(line(said)))

    def decline(self) -> None:
        self.dismiss(False)


async def offer_extra(show: Callable[[ExtraDialog], Awaitable[bool | None]], problem: str) -> bool:
    """Offer to install the extra that an error names; return whether it is installed afterwards.

    `show` shows a screen and returns its result.
    """
    name = named_extra(problem)
    if not name or is_installed(name):
        return False
    from agent.integrations.extras import adding

    try:
        change = await asyncio.to_thread(adding, [name])
    except HermesError:
        return False
    try:
        return bool(await show(ExtraDialog(name, problem, change)))
    finally:
        change.clear()
