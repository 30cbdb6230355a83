"""A chat as a head of a session: hub, engine and messenger in this process, on a store that may fail."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.core.config.loader import load
from agent.core.home import Home
from agent.core.store.store import Store
from app.service.hosted_session import HostedSession, SessionHub
from app.service.service import Messengers
from tests.support.model_server import ModelServer
from tests.support.replies import say
from tests.support.signal_server import SignalServer
from tests.support.thorough import thoroughly

PATIENCE = 60.0


def script(request: Any) -> Any:
    asked = [str(each["content"]) for each in request.messages if each.get("role") == "user"]
    return say(f"Echo: {asked[-1]}")


class Stage:
    """One messenger with a service in this process, which may be closed and opened again."""

    def __init__(self, home: Home, signal: SignalServer) -> None:
        self.home = home
        self.signal = signal

    @asynccontextmanager
    async def service(self) -> AsyncIterator[Messengers]:
        loaded = load(self.home, dict(os.environ), Path.cwd())
        self.hub = hub = SessionHub(self.home, None)
        messengers = await Messengers.start(hub, self.home, loaded.settings, loaded.environ)
        try:
            yield messengers
        finally:
            await messengers.aclose()
            await hub.aclose()

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait until something is true; what became of all messages if it never is."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"{what} did not come:\n{self.story()}"
            await asyncio.sleep(0.02)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(f"file:{self.home.database}?mode=ro", uri=True, timeout=20)
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def change(self, sql: str, *values: Any) -> None:
        connection = sqlite3.connect(self.home.database, timeout=20)
        try:
            with connection:
                connection.execute(sql, values)
        finally:
            connection.close()

    def lock(self, seconds: float) -> None:
        """What another program does that works on the store. Blocking."""
        connection = sqlite3.connect(self.home.database, timeout=20, isolation_level=None)
        try:
            connection.execute("BEGIN EXCLUSIVE")
            time.sleep(seconds)
            connection.execute("ROLLBACK")
        finally:
            connection.close()

    def open_ends(self, written: int) -> bool:
        """Whether something waits to become a turn, runs, or waits to be sent."""
        received = self.rows("SELECT count(*) FROM received WHERE state = 'done'")[0][0]
        waiting = self.rows("SELECT 1 FROM deliveries WHERE state = 'waiting'")
        return received < written or bool(waiting)

    def story(self) -> str:
        """What became of all messages."""
        tables = ("SELECT id, message, state, text, node FROM received", "SELECT * FROM deliveries",
                  "SELECT id, kind, content FROM nodes", "SELECT * FROM gateway_places")  # fmt: skip
        shown = [f"shown: {each.text}" for each in self.signal.shown]
        return "\n".join([*(str(row)[:300] for sql in tables for row in self.rows(sql)), *shown])

    def said(self, words: str) -> int:
        return sum(each.text == f"Echo: {words}" for each in self.signal.shown)


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path / "work")
    with SignalServer() as signal:
        async with ModelServer(script) as model:
            for name, value in {
                "HERMES_HOME": str(tmp_path / "home"),
                "OPENAI_BASE_URL": model.base_url,
                "OPENAI_API_KEY": "test-key",
                "HERMES_MODEL": "scripted",
            }.items():
                monkeypatch.setenv(name, value)
            url = signal.settings()["api_url"]
            (tmp_path / "home" / "config.yaml").write_text(
                f"gateways:\n  signal: {{enabled: true, api_url: '{url}', approve: ['{signal.owner}']}}\n"
            )
            yield Stage(Home(tmp_path / "home"), signal)
        assert signal.refusals == []


@pytest.mark.thorough
@pytest.mark.parametrize("times", [4, *thoroughly(60)])
@pytest.mark.parametrize("who", ["messenger", "session"])
async def test_a_store_that_is_locked_at_any_moment_costs_no_message_and_no_answer(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, who: str, times: int
) -> None:
    """Locked for longer than the messenger waits, or the session too, whose turn then fails and says so."""
    defaults: dict[str, Any] = getattr(Store.open, "__func__").__kwdefaults__  # noqa: B009
    usual = defaults["wait"]
    monkeypatch.setitem(defaults, "wait", 0.5)
    chance = random.Random(times)
    async with stage.service():
        if who == "messenger":
            monkeypatch.setitem(defaults, "wait", usual)
        stage.signal.write("first")
        await stage.until(lambda: stage.said("first"), "the first answer")
        for number in range(times):
            stage.signal.write(f"words {number}")
            await asyncio.sleep(chance.uniform(0, 0.2))
            await asyncio.to_thread(stage.lock, chance.uniform(0.7, 1.2))
        await stage.until(lambda: not stage.open_ends(times + 1), "an end")
    texts = [text for (text,) in stage.rows("SELECT content FROM nodes WHERE kind = 'user'")]
    assert sorted(texts) == sorted(["first", *(f"words {number}" for number in range(times))])
    answers = [stage.said(f"words {number}") for number in range(times)]
    assert max(answers) == 1
    excuses = sum("is locked by another program" in each.text for each in stage.signal.shown)
    assert answers.count(0) <= (excuses if who == "session" else 0), stage.story()


async def test_an_attachment_that_cannot_be_had_leaves_the_message(stage: Stage) -> None:
    """And one beside it that can be had is kept."""
    stage.signal.files["kept.txt"] = b"kept"
    told = {"contentType": "text/plain", "size": 4}
    async with stage.service():
        gone, kept = ({**told, "id": name, "filename": name} for name in ("gone.txt", "kept.txt"))
        stage.signal.write("look at both", attachments=[gone, kept])
        await stage.until(lambda: stage.signal.shown, "an answer")
    ((text,),) = stage.rows("SELECT content FROM nodes WHERE kind = 'user'")
    assert text.startswith("look at both\n\n[file gone.txt: it could not be fetched: ")
    assert text.endswith("[file: received/kept.txt, 4 B]"), text
    assert Path("received/kept.txt").read_bytes() == b"kept"
    assert stage.signal.refusals.pop() == "Could not find attachment with ID"


@pytest.mark.thorough
async def test_an_unknown_command_is_refused_and_a_skill_and_two_slashes_are_messages(stage: Stage) -> None:
    skill = stage.home.root / "skills" / "deploying" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: deploying\ndescription: How to deploy\n---\nDeploy.\n")
    async with stage.service():
        for number, text in enumerate(("/modle gpt", "/deploying now", "/qqqq", "//qqqq now")):
            stage.signal.write(text)
            await stage.until(lambda number=number: len(stage.signal.shown) > number, f"an answer to {text}")
            await stage.until(lambda number=number: not stage.open_ends(number + 1), "an end")
    refused, _, unknown, _ = (each.text for each in stage.signal.shown)
    assert refused.startswith("There is no command /modle; did you mean /model?")
    assert unknown.startswith("There is no command /qqqq. /help lists them; //qqqq ")
    asked = [text for (text,) in stage.rows("SELECT content FROM nodes WHERE kind = 'user' ORDER BY created")]
    assert asked == ["/deploying now", "/qqqq now"]


@pytest.mark.thorough
async def test_a_chat_whose_session_was_deleted_begins_a_new_one(stage: Stage) -> None:
    async with stage.service():
        stage.signal.write("first")
        await stage.until(lambda: stage.said("first"), "the first answer")
    ((old,),) = stage.rows("SELECT session FROM gateway_places")
    async with await Store.open(stage.home.database) as store:
        await store.delete(old)
    async with stage.service():
        stage.signal.write("second")
        await stage.until(lambda: stage.said("second"), "the second answer")
        await stage.until(
            lambda: any("was deleted" in each.text for each in stage.signal.shown), "the reason"
        )
    ((new,),) = stage.rows("SELECT session FROM gateway_places")
    assert new != old


@pytest.mark.thorough
async def test_a_chat_that_could_not_be_attached_whole_hears_the_rest_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a session said while no messenger ran is told, also if the store fails in the middle of it."""
    async with stage.service():
        for words in ("one", "two", "three"):
            stage.signal.write(words)
            await stage.until(lambda words=words: stage.said(words), "an answer")
    # As if the program had ended before anything of it was told.
    stage.change("UPDATE gateway_places SET told = 0")
    stage.change("DELETE FROM deliveries")
    stage.signal.shown.clear()
    stage.change("CREATE TRIGGER full BEFORE INSERT ON deliveries WHEN NEW.body LIKE '%two%' "
                 "BEGIN SELECT RAISE(ABORT, 'disk full'); END")  # fmt: skip
    async with stage.service():
        stage.signal.write("four")
        await stage.until(lambda: stage.said("one"), "the first answer")
        stage.change("DROP TRIGGER full")
        await stage.until(lambda: stage.said("four"), "the last answer")
    assert [each.text for each in stage.signal.shown] == [
        f"Echo: {words}" for words in ("one", "two", "three", "four")
    ]


async def test_a_group_keeps_its_session_under_another_id(stage: Stage) -> None:
    """Telegram gives a group that becomes a supergroup a new one."""
    from agent.integrations.gateways.adapter import Incoming, Place, Sender

    async with stage.service() as messengers:
        stage.signal.write("//first", group="old")
        await stage.until(lambda: stage.said("/first"), "the first answer")
        gateway: Any = messengers.gateways._running["signal"]  # pyright: ignore[reportPrivateUsage]
        moved = Incoming(
            id="1", kind="moved", place=Place("group:old"), sender=Sender(""), moved_to="group:new"
        )
        await gateway.take(moved)
        await gateway.take(moved)
        stage.signal.write("//second", group="new")
        await stage.until(lambda: stage.said("/second"), "the second answer")
    assert stage.rows("SELECT chat FROM gateway_places") == [("group:new",)]
    sessions = stage.rows("SELECT DISTINCT session FROM nodes WHERE kind = 'user'")
    assert len(sessions) == 1


async def test_another_model_chosen_in_a_chat_takes_along_who_else_has_the_session(stage: Stage) -> None:
    async with stage.service():
        stage.signal.write("hello")
        await stage.until(lambda: stage.signal.shown and not stage.open_ends(1), "an answer")
        (before,) = stage.hub.sessions
        followed: list[HostedSession] = []
        before.followers.append(followed.append)
        for number, text in enumerate(("/model demo", "the tour, please"), 2):
            stage.signal.write(text)
            await stage.until(lambda number=number: len(stage.signal.shown) >= number, f"an answer to {text}")
            followed[-1].followers[:] = [followed.append]
        assert "demo" in stage.signal.shown[1].text and followed[-1] is stage.hub.sessions[0] is not before
        assert followed[-1].client.model == "demo" and "closed" not in stage.signal.shown[2].text


async def test_a_chat_is_answered_although_the_log_of_events_finds_the_disk_full(stage: Stage) -> None:
    async with stage.service():
        stage.signal.write("one")
        await stage.until(lambda: stage.said("one"), "the first answer")
        log = stage.hub.sessions[0].log
        os.dup2(os.open("/dev/full", os.O_RDWR | os.O_CLOEXEC), log._file)
        stage.signal.write("two")
        await stage.until(lambda: stage.said("two"), "the second answer")
