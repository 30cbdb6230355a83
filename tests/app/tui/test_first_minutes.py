"""The first minutes without a model: a key, the weights of a local model, and what is said meanwhile.

Keys are checked by a provider on loopback, weights come from a hub on loopback that the settings name.
"""

from __future__ import annotations

import hashlib
import os
import random
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from agent.api.opening import open_session
from agent.core.config.loader import load
from agent.core.home import Home
from agent.errors import HermesError
from agent.model.detect import DetectedServer
from agent.model.key_check import KeyCheck, KeyProvider
from agent.model.providers import NoModelError, UnusableModelError
from agent.session.options import Options
from app.tui.application import HermesApp
from app.tui.conversation.session_host import Listener, SessionRequest
from app.tui.questions import request_queue
from app.tui.screens import dialog as dialogs
from app.tui.screens import extra_dialog
from app.tui.screens.extra_dialog import ExtraDialog
from app.tui.screens.models import key_dialog, model_menu
from app.tui.screens.models.key_dialog import FetchDialog, KeyDialog, ProviderDialog, ServerDialog
from app.tui.screens.models.model_menu import ModelMenu
from app.tui.screens.models.models import ModelsScreen, OnboardingScreen
from tests.agent.model.local.hub import Hub, serving
from tests.app.tui.pages import PageHost
from tests.support.model_server import ModelServer
from tests.support.replies import say
from tests.support.waiting import until
from tools import extras
from widgets.transcript.parts import AnswerItem, UserItem

WEIGHTS = b"GGUF" + random.Random(5).randbytes(400_000)
KEY = "right-key-0123456789"


@pytest.fixture(autouse=True)
def _first_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.02)
    monkeypatch.setattr(request_queue, "TYPING_PAUSE", 0.05)
    monkeypatch.setattr(model_menu, "can_run_local", lambda: True)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@dataclass
class First:
    """An application that begins without a model; whatever model is chosen, the server answers."""

    app: HermesApp
    pilot: Pilot[None]
    server: ModelServer
    home: Path
    wishes: list[str | None]

    async def until(self, true: Any, what: str) -> None:
        await until(self.pilot, true, what)

    async def shows(self, screen: type[Any]) -> Any:
        def is_there() -> bool:
            shown = self.app.screen
            return isinstance(shown, screen) and getattr(shown, "armed", True)

        await self.until(is_there, screen.__name__)
        return self.app.screen

    def said(self) -> str:
        return " ".join(str(each.render()) for each in self.app.screen.query(Static))

    def items(self, kind: type[Any]) -> list[str]:
        entries = self.app.session.transcript.document.entries
        return [entry.item.text for entry in entries if isinstance(entry.item, kind)]


@asynccontextmanager
async def first_start(folder: Path, config: str) -> AsyncIterator[First]:
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    async with ModelServer(
        [say("I am here."), say("Again.")], api_key=KEY, models=("mini", "maxi")
    ) as server:
        (home / "config.yaml").write_text(config.format(base_url=server.base_url))
        wishes: list[str | None] = []

        async def opener(wish: SessionRequest, listener: Listener) -> Any:
            wishes.append(wish.model)
            if wish.model is None:
                raise NoModelError
            environ = {
                "HERMES_HOME": str(home),
                "OPENAI_BASE_URL": server.base_url,
                "OPENAI_API_KEY": KEY,
                "HERMES_MODEL": "mini",
            }
            return await open_session(Options(workspace=work, attended=True), listener, environ=environ)

        app = HermesApp(opener)
        try:
            async with app.run_test(size=(80, 24)) as pilot:
                yield First(app, pilot, server, home, wishes)
        finally:
            await app.host.close()


def local(hub: Hub) -> str:
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    return f"local: {{{{url: '{hub.base}/tiny.gguf', sha256: {digest}}}}}\n"


@pytest.mark.thorough
async def test_one_enter_fetches_the_local_model_and_what_was_said_meanwhile_is_sent(tmp_path: Path) -> None:
    with serving(Hub(WEIGHTS, stall_after=100_000)) as hub:
        async with first_start(tmp_path, local(hub)) as first:
            await first.shows(OnboardingScreen)
            await first.pilot.press("enter")
            await first.shows(FetchDialog)
            await first.until(lambda: "25%" in first.said() or "24%" in first.said(), "its progress")
            await first.pilot.press(*"hello", "enter")
            await first.until(lambda: "1 message waits" in first.said(), "the held message")
            assert not first.server.requests
            hub.released.set()
            await first.until(lambda: first.items(AnswerItem) == ["I am here."], "the answer")
            assert first.items(UserItem) == ["hello"]
        fetched = first.home / "models" / "tiny.gguf"
        assert fetched.read_bytes() == WEIGHTS and stat.S_IMODE(fetched.stat().st_mode) == 0o600
        assert first.wishes == [None, "local"]
        assert "name: local" in (first.home / "config.yaml").read_text()


@pytest.mark.thorough
async def test_a_fetch_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    with serving(Hub(WEIGHTS, cuts=[len(WEIGHTS), 150_000, 0, 0])) as hub:
        async with first_start(tmp_path, local(hub)) as first:
            await first.shows(OnboardingScreen)
            await first.pilot.press("enter")
            await first.shows(FetchDialog)
            await first.until(lambda: "✗" in first.said(), "the failure")
            assert "continues where it stopped" in first.said()
            await first.pilot.press("escape")
            await first.shows(OnboardingScreen)
            assert (first.home / "models" / "tiny.gguf.part").stat().st_size == 150_000
            await first.pilot.press("enter")
            await first.until(lambda: first.wishes == [None, "local"], "the model")
        assert "bytes=150000- /tiny.gguf" in hub.asked


async def test_weights_that_are_not_those_named_are_never_used(tmp_path: Path) -> None:
    with serving(Hub(WEIGHTS[:-1] + b"!")) as hub:
        async with first_start(tmp_path, local(hub)) as first:
            await first.shows(OnboardingScreen)
            await first.pilot.press("enter")
            await first.shows(FetchDialog)
            await first.until(lambda: "SHA-256 is wrong" in first.said(), "the refusal")
            assert list((first.home / "models").iterdir()) == []
            assert first.wishes == [None]


@pytest.mark.thorough
async def test_a_text_that_begins_with_a_digit_fetches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(Hub(WEIGHTS)) as hub:
        async with first_start(tmp_path, local(hub)) as first:
            await first.shows(OnboardingScreen)
            monkeypatch.setattr(dialogs, "ARMING_DELAY", 60.0)  # the moment in which a text goes on
            await first.pilot.press(*"12 tests fail")
            assert first.app.session.prompt.text == "12 tests fail"
            assert not hub.asked and isinstance(first.app.screen, OnboardingScreen)
            # Nothing follows: the digit chooses, and return does at once.
            await first.pilot.press("up", "1", "enter")
            await first.until(lambda: first.wishes == [None, "local"], "the model")


async def test_a_model_that_cannot_be_used_leads_to_the_choice_with_the_reason() -> None:
    refused = UnusableModelError("The model m at lab needs a key; put it into LAB_KEY.")
    for wish, asked in ((refused, True), (HermesError("The disk is full."), False)):
        app = HermesApp(None)  # type: ignore[arg-type]

        async def failing(_wish: SessionRequest, _listener: Listener, wish: HermesError = wish) -> Any:
            raise wish

        app.host._opener = failing
        async with app.run_test(size=(80, 24)) as pilot:
            if asked:
                await until(pilot, lambda app=app: isinstance(app.screen, OnboardingScreen), "the dialog")
                await until(pilot, lambda app=app: app.screen.armed, "its keys")  # type: ignore[attr-defined]
                said = " ".join(str(each.render()) for each in app.screen.query(Static))
                assert "put it into LAB_KEY" in said and "No model is chosen" not in said
                await pilot.press("escape")
            await until(pilot, lambda app=app: app.failure is not None, "the end")
            assert app.failure is wish


OWN = "providers: {{mine: {{base_url: '{base_url}', api_key_env: MINE_API_KEY}}}}\n"


@pytest.mark.thorough
async def test_a_key_is_checked_masked_and_kept_and_a_model_of_its_provider_answers(tmp_path: Path) -> None:
    async with first_start(tmp_path, OWN) as first:
        first.app.session.prompt.set_text("a draft")
        screen = await first.shows(OnboardingScreen)
        # Digits are for the draft while there is one; an arrow leads back to the choices.
        await first.pilot.press("up")
        await first.pilot.press(str(1 + next(at for at, way in enumerate(screen._ways) if way.act == "key")))
        await first.shows(ProviderDialog)
        await first.pilot.press("1")
        dialog = await first.shows(KeyDialog)
        await first.pilot.press(*"wrong-key", "enter")
        await first.until(lambda: "does not take this key" in first.said(), "the refusal")
        field = dialog.query_one(Input)
        assert field.password and "wrong-key" not in first.said()
        assert not (first.home / ".env").exists()
        field.value = KEY
        await first.pilot.press("enter")
        await first.shows(ModelsScreen)
        await first.until(lambda: first.app.screen._list.pointed is not None, "its models")
        assert [each.name for each in first.app.screen._list._choices] == ["mine/mini", "mine/maxi"]
        await first.pilot.press("down", "enter")
        await first.until(lambda: first.app.host.client is not None, "the session")
        env = first.home / ".env"
        assert env.read_text() == f"MINE_API_KEY={KEY}\n" and stat.S_IMODE(env.stat().st_mode) == 0o600
        assert first.wishes == [None, "mine/maxi"]
        assert "name: mine/maxi" in (first.home / "config.yaml").read_text()
        assert first.app.session.prompt.text == "a draft"
        assert [request.path for request in first.server.requests] == []


async def test_a_model_of_a_server_on_this_machine_is_kept_for_later_starts(tmp_path: Path) -> None:
    server = DetectedServer("ollama", "http://127.0.0.1:11434/v1", ("qwen3:8b",))
    menu = ModelMenu(tmp_path, {"HERMES_HOME": str(tmp_path)})
    host = PageHost(lambda: OnboardingScreen(NoModelError((), (server,)), setup=menu))
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: getattr(host.screen, "armed", False), "the dialog")
        await pilot.press("enter")
        await until(pilot, lambda: host.outcomes == ["ollama/qwen3:8b"], "the choice")
    assert load(Home(tmp_path), {}).settings.model.name == "ollama/qwen3:8b"


async def choose_way(pilot: Pilot[object], screen: OnboardingScreen, act: str) -> None:
    """Press the digit of a way to a model, once the dialog takes keys."""
    await until(pilot, lambda: screen.armed, "the dialog")
    await pilot.press(str(1 + next(at for at, way in enumerate(screen._ways) if way.act == act)))


async def test_what_runs_a_local_model_is_offered_before_it_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (model_menu, key_dialog):
        monkeypatch.setattr(module, "can_run_local", lambda: False)
    for module in (extras, extra_dialog):
        monkeypatch.setattr(module, "is_installed", lambda _name: False)
    menu = ModelMenu(tmp_path, {"HERMES_HOME": str(tmp_path)})
    screen = OnboardingScreen(NoModelError(), offers=await menu.offers(), setup=menu)
    host = PageHost(lambda: screen)
    async with host.run_test(size=(80, 24)) as pilot:
        await choose_way(pilot, screen, "fetch")
        await until(pilot, lambda: isinstance(host.screen, ExtraDialog), "the offer")
        await pilot.press("escape")
        await until(pilot, lambda: host.screen is screen, "the ways")
    assert not host.outcomes and not (tmp_path / "models").exists()


async def test_the_only_model_of_a_server_is_not_asked_about(tmp_path: Path) -> None:
    menu = ModelMenu(tmp_path, {"HERMES_HOME": str(tmp_path)})
    async with ModelServer([], models=("mini",)) as server:
        screen = OnboardingScreen(NoModelError(), offers=await menu.offers(), setup=menu)
        host = PageHost(lambda: screen)
        async with host.run_test(size=(80, 24)) as pilot:
            await choose_way(pilot, screen, "server")
            await until(pilot, lambda: isinstance(host.screen, ServerDialog), "the dialog of servers")
            host.screen.query_one("#address", Input).value = server.base_url
            await pilot.press("enter")
            await until(pilot, lambda: bool(host.outcomes), "the choice")
    assert host.outcomes[0].endswith("/mini")
    assert load(Home(tmp_path), {}).settings.model.name == host.outcomes[0]


@pytest.mark.thorough
async def test_a_server_at_an_address_is_asked_until_it_answers_and_kept(tmp_path: Path) -> None:
    async with first_start(tmp_path, "{{}}\n") as first:
        screen = await first.shows(OnboardingScreen)
        await first.pilot.press(
            str(1 + next(at for at, way in enumerate(screen._ways) if way.act == "server"))
        )
        dialog = await first.shows(ServerDialog)
        # One dialog at a time: the one below is out of sight, and back when this one is left.
        assert not screen._frame.visible
        address, key = dialog.query_one("#address", Input), dialog.query_one("#key", Input)
        for wrong, reason in (
            ("ftp://x", "http"),
            (
                "http://127.0.0.1:1/v1",
                "Cannot reach http://127.0.0.1:1/v1: connection refused; start the server",
            ),
            (first.server.base_url, "wants a key (401)"),
        ):
            address.value = wrong
            address.focus()
            await first.pilot.press("enter")
            await first.until(lambda reason=reason: reason in first.said(), reason)
        assert key.has_focus
        for letter in "wrong-key":
            await first.pilot.press(letter)
        await first.pilot.press("enter")
        await first.until(lambda: "does not take this key (401)" in first.said(), "the refusal")
        # A second try is for the key, and neither is shown.
        assert key.has_focus and key.password and "wrong-key" not in first.said() and "✗" in first.said()
        assert not (first.home / ".env").exists()
        key.value = KEY
        await first.pilot.press("enter")
        await first.shows(ModelsScreen)
        await first.until(lambda: first.app.screen._list.pointed is not None, "its models")
        await first.pilot.press("enter")
        await first.until(lambda: first.app.host.client is not None, "the session")
        env = first.home / ".env"
        assert KEY in env.read_text() and stat.S_IMODE(env.stat().st_mode) == 0o600
        assert KEY not in (first.home / "config.yaml").read_text()
        assert first.wishes[-1] is not None and first.wishes[-1].endswith("/mini")


@pytest.mark.thorough
async def test_a_model_without_a_key_is_given_one_in_the_list_of_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def check(_menu: Any, provider: KeyProvider, _key: str) -> KeyCheck:
        asked.append(provider.name)
        return KeyCheck()

    monkeypatch.setattr(model_menu.ModelMenu, "check", check)
    async with first_start(tmp_path, "") as first:
        menu = model_menu.ModelMenu(tmp_path / "work")
        chosen: list[Any] = []
        screen = ModelsScreen("", menu, setup=menu)
        await first.shows(OnboardingScreen)
        await first.app.push_screen(screen, chosen.append)
        await first.until(lambda: screen._list.pointed is not None, "the list")
        screen._list.move_to(screen._list.count - 2)
        await first.pilot.press("enter")  # Models that need a key are one line that opens.
        names = [each.name for each in screen._list._choices]
        screen._list.move_to(names.index("anthropic/claude-haiku-4-5"))
        await first.pilot.press("enter")
        await first.shows(KeyDialog)
        first.app.screen.query_one(Input).value = KEY
        await first.pilot.press("enter")
        await first.until(lambda: chosen == ["anthropic/claude-haiku-4-5"], "the model")
        assert asked == ["anthropic"]
        assert (first.home / ".env").read_text() == f"ANTHROPIC_API_KEY={KEY}\n"


@pytest.mark.thorough
async def test_a_key_that_was_refused_is_replaced_in_the_list_of_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE_API_KEY", "a-revoked-key")
    async with first_start(tmp_path, OWN) as first:
        menu = model_menu.ModelMenu(tmp_path / "work")
        chosen: list[Any] = []
        screen = ModelsScreen("", menu, setup=menu)
        await first.shows(OnboardingScreen)
        await first.app.push_screen(screen, chosen.append)
        await first.until(lambda: screen._list.pointed is not None, "the list")
        screen._list.move_to(screen._list.count - 2)
        await first.pilot.press("enter")
        screen._list.move_to([each.name for each in screen._list._choices].index("mine/…"))
        await first.pilot.press("e")
        await first.shows(KeyDialog)
        first.app.screen.query_one(Input).value = KEY
        await first.pilot.press("enter")
        await first.until(lambda: f"MINE_API_KEY={KEY}" in (first.home / ".env").read_text(), "the key")
