"""The dialog that adds what a command needs: nothing before a yes, progress, then what was wanted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from textual.widgets import Static

from agent.errors import HermesError
from agent.integrations import extras as extras_api
from agent.integrations.extras import ExtrasChange
from app.tui.application import HermesApp
from app.tui.commands import session_command
from app.tui.screens import extra_dialog
from app.tui.screens.extra_dialog import ExtraDialog
from tests.app.tui.test_application import stage
from tests.support.waiting import until
from tools import extras

PIP = """
import pathlib, sys
print("Downloading uvicorn-1.whl (2 MB)", flush=True)
if {works}: pathlib.Path({mark!r}).touch()
else: print("ERROR: no route to the index"); sys.exit(1)
"""


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that stands for the extra: it is installed once the command has made it."""
    made = tmp_path / "installed"
    for module in (extras, extra_dialog, session_command):
        monkeypatch.setattr(module, "is_installed", lambda name: name != "serve" or made.exists())
    return made


def pip(mark: Path, *, works: bool) -> ExtrasChange:
    return ExtrasChange((sys.executable, "-c", PIP.format(mark=str(mark), works=works)))


def text_on_screen(app: HermesApp) -> str:
    return " ".join(str(each.render()) for each in app.screen.query(Static))


async def test_a_command_offers_what_it_needs_adds_it_on_a_yes_and_goes_on(
    tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = False
    monkeypatch.setattr(extras_api, "adding", lambda _names: pip(mark, works=works), raising=False)
    begun: list[bool] = []

    async def started() -> None:
        begun.append(mark.exists())
        raise HermesError("This is as far as the test goes.")

    monkeypatch.setattr(session_command, "_start_service", started)
    async with stage(tmp_path, []) as scene:
        app, pilot = scene.app, scene.pilot
        await until(pilot, lambda: app.host.client is not None, "the session")
        said: list[str] = []
        monkeypatch.setattr(app, "show_warning", said.append)
        app.session.prompt.set_text("/serve")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ExtraDialog), "the offer")
        assert isinstance(app.screen, ExtraDialog)
        text = app.screen.full_text()
        assert "The service needs the extra serve" in text and "about 2 MB" in text and "-c" in text
        await pilot.press("1")
        await until(pilot, lambda: "no route to the index" in text_on_screen(app), "the reason")
        assert not mark.exists() and not begun
        # A refusal is the sentence, as before.
        await pilot.press("escape")
        await until(pilot, lambda: bool(said), "the sentence")
        assert "extras add serve" in said[0] and not begun
        works = True
        app.session.prompt.set_text("/serve")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ExtraDialog), "the offer")
        await pilot.press("1")
        await until(pilot, lambda: len(said) == 2, "what was wanted")
        assert begun == [True] and said[1] == "This is as far as the test goes."


def test_only_a_sentence_that_names_an_extra_offers_one() -> None:
    assert extras.named_extra(extras.missing("The service", "serve")) == "serve"
    assert (
        extras.named_extra("Nothing speaks; `.venv/bin/hermes extras add speech`, or install it.") == "speech"
    )
    assert extras.named_extra("Use `hermes extras add nonsense`.") == ""
    assert extras.named_extra("There is nothing to undo.") == ""
