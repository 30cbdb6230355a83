"""A terminal in tmux, the page in Chromium and a chat on one session: all show the same end."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support import command
from tests.support.chat_platform import until
from tests.support.chat_stage import ChatStage
from tests.support.chromium import Browser
from tests.support.service import Head
from tests.support.telegram_server import TelegramServer
from tests.support.three_heads import SCRIPT
from tests.support.tmux import PROGRAM, Tmux

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(PROGRAM is None, reason="tmux is not on this machine"),
]
ROUNDS = 8
ITEMS = (
    "[...document.querySelectorAll('.item.user, .item.answer, .item.call')].map((each) => each.textContent)"
)


@pytest.fixture(scope="module")
def telegram() -> TelegramServer:
    return TelegramServer()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, telegram: TelegramServer) -> Iterator[ChatStage]:
    with ChatStage(tmp_path_factory.mktemp("real"), telegram, script=SCRIPT) as running:
        telegram.write("say m0")
        until(lambda: any("Answer to m0" in each.text for each in telegram.shown), "the first answer")
        yield running


class RealHeads:
    """The three, on one session."""

    def __init__(self, stage: ChatStage, telegram: TelegramServer, stack: ExitStack, folder: Path) -> None:
        self._stage, self._telegram, self._stack, self._folder = stage, telegram, stack, folder
        self.device: Head = stage.service.device("approve", "program")
        (folder / "work").mkdir()
        self.session = self.device.session(folder / "work")
        assert self.device.post(f"/api/sessions/{self.session}/move", {"to": "telegram"})[0] == 200
        self._begin = len(telegram.shown)
        self.browser = stack.enter_context(Browser(folder / "chromium"))
        self.browser.open(f"{stage.service.url}/#pair={stage.service.code('approve')}")
        self.browser.until("document.querySelector('#list button')")
        self.reload()
        self.attach(1)

    def attach(self, number: int) -> None:
        """A terminal comes in."""
        folder = self._folder / f"tmux{number}"
        folder.mkdir()
        env = {**self._stage.service.env, "TERM": "tmux-256color"}
        line = [*command.HERMES, "--attach", self.session]
        self.tmux = self._stack.enter_context(Tmux(line, env, self._folder, folder, (100, 30)))
        self.tmux.until("attached")

    def reload(self) -> None:
        """The page is opened anew."""
        self.browser.open("about:blank")
        self.browser.open(f"{self._stage.service.url}/#session={self.session}")
        self.browser.until("document.querySelector('#scroll .item, #scroll .welcome')")

    @property
    def shown(self) -> list[Any]:
        return self._telegram.shown[self._begin :]

    def say(self, who: str, text: str) -> None:
        """Send a message."""
        match who:
            case "terminal":
                self.tmux.type(text)
                self.tmux.until(text)
                self.tmux.press("Enter")
            case "page":
                self.browser.run("document.querySelector('#draft').focus()")
                self.browser.type(text)
                self.browser.key("Enter")
            case _:
                self._telegram.write(text)

    def asked(self, kind: str) -> None:
        """Wait until all three are asked, and long enough to have read it."""
        words = "git push origin main" if kind == "push" else "Which?"
        self.tmux.until(lambda screen: words in screen and ("Deny" in screen or "red" in screen))
        self.browser.until("document.querySelector('.request button')")
        until(lambda: any(each.buttons for each in self.shown), "buttons in the chat")
        time.sleep(2)

    def decide(self, who: str, kind: str) -> None:
        """Say no, or take the first choice, if it is still to be decided."""
        match who:
            case "terminal":
                self.tmux.press("Enter")
            case "page":
                self.browser.run("document.querySelector('.request .answers button')?.click()")
            case _:
                message = next((each for each in self.shown if each.buttons), None)
                if message is not None:
                    self._telegram.press(message, "No" if kind == "push" else "red")

    def answered(self, name: str) -> None:
        """Wait until all three show the answer."""
        words = f"Answer to {name}."
        self.browser.until(f"document.querySelector('#conversation').textContent.includes({words!r})")
        self.tmux.until(words)
        until(lambda: any(words in each.text for each in self.shown), f"{words!r} in the chat")
        self.browser.until("document.querySelector('#send').textContent === 'Send'")

    def kill(self) -> None:
        """The service dies; everybody comes back."""
        service = self._stage.service
        port = service.port
        service.kill()
        self.tmux.until("✗ service ended")
        service.start(port)
        self.browser.until("document.querySelector('#link').hidden")
        self.tmux.type(f"/resume {self.session}")
        self.tmux.press("Enter")
        self.tmux.until(lambda screen: "attached" in screen and "✗ service" not in screen)


@pytest.mark.parametrize("seed", range(4))
def test_real_screens_show_the_same_end(
    seed: int, stage: ChatStage, telegram: TelegramServer, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    with ExitStack() as stack:
        heads = RealHeads(stage, telegram, stack, tmp_path)
        names = [f"m{seed + 1}{number:03}" for number in range(ROUNDS)]
        kill_at, leave_at, reload_at = chance.sample(range(ROUNDS), 3)
        for number, name in enumerate(names):
            kind = chance.choice(("push", "which", "say"))
            heads.say(chance.choice(("terminal", "page", "chat")), f"{kind} {name}")
            if kind != "say":
                heads.asked(kind)
                for who in chance.sample(("terminal", "page", "chat"), chance.randint(1, 3)):
                    heads.decide(who, kind)
            heads.answered(name)
            if number == kill_at:
                heads.kill()
            elif number == leave_at:
                heads.tmux.press("M-q")
                heads.tmux.until("The session continues in the service.")
                heads.attach(number + 2)
            elif number == reload_at:
                heads.reload()
        live = heads.browser.run(ITEMS)
        heads.reload()
        heads.browser.until(f"{ITEMS}.length >= {2 * ROUNDS}")
        assert heads.browser.run(ITEMS) == live
        history = heads.device.get(f"/api/sessions/{heads.session}/history?limit=500")[1]["events"]
        assert [e["text"].split()[-1] for e in history if e["type"] == "user_message"] == names
        resolved = [e for e in heads.device.events(heads.session) if e["type"] == "request_resolved"]
        assert len({each["id"] for each in resolved}) == len(resolved)
        stage.settled()
        assert [each.text for each in heads.shown if each.buttons] == []
