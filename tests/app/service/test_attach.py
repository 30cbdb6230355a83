"""Terminals and the page on one session: `hermes --attach` over the private socket."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from acp import schema

from agent.api.opening import open_session
from agent.api.remote import pack
from agent.core.home import Home
from agent.core.store.store import Store
from agent.errors import HermesError
from agent.events import ApprovalAsked, Decision, Event
from agent.session.options import Options
from app.service.doors import RequestRefusedError
from app.service.hosted_session import HostedSession, SessionHub
from app.service.service import TerminalServer
from app.tui.commands.session_command import move
from tests.app.service.conftest import SCRIPT
from tests.support import command
from tests.support.editor import editor
from tests.support.model_process import ServerProcess
from tests.support.replies import say
from tests.support.service import Head, Service
from tools.context import PersonAnswer


@pytest.fixture(scope="module")
def owner(service: Service) -> Head:
    return service.device("approve", "phone")


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.01)


class Terminal:
    """A terminal without a screen."""

    def __init__(self, service: Service) -> None:
        self.events: list[Event] = []
        self._socket = service.home / "run" / "service.sock"

    async def attach(self, workspace: Path, resume: str | None) -> Any:
        options = Options(workspace=workspace, resume=resume, surface="tui", attended=True)
        return await open_session(options, self.events.append, service=self._socket)

    def types(self) -> list[str]:
        return [each.type for each in self.events]


async def test_a_terminal_hears_and_answers_beside_another_head(
    service: Service, owner: Head, workspace: Path
) -> None:
    session = await asyncio.to_thread(owner.session, workspace)
    terminal = Terminal(service)
    client = await terminal.attach(workspace, session)
    assert client.id == session and terminal.types()[0] == "session_opened"
    client.submit("ask")
    await until(lambda: "approval" in terminal.types())
    asked = next(each for each in terminal.events if isinstance(each, ApprovalAsked))
    client.answer(asked.id, Decision("deny"))
    await until(lambda: "turn_ended" in terminal.types())
    code, told = await asyncio.to_thread(
        owner.post, f"/api/sessions/{session}/requests/{asked.id}", {"answer": "once"}
    )
    assert code == 409 and "terminal: process" in told["error"]
    assert [each.kind for each in client.path if each.kind == "user"] == ["user"]
    await client.aclose()
    await asyncio.to_thread(owner.say, session, "greet")
    events = await asyncio.to_thread(owner.until, session, "turn_ended", 0, 2)
    assert events[-1]["outcome"] == "done"


async def test_a_terminal_stays_when_another_head_chooses_another_model(
    service: Service, owner: Head, workspace: Path
) -> None:
    session = await asyncio.to_thread(owner.session, workspace)
    terminal = Terminal(service)
    client = await terminal.attach(workspace, session)
    before = client.model
    for text in ("title Named", "/model demo"):
        commands = f"/api/sessions/{session}/commands"
        code, said = await asyncio.to_thread(owner.post, commands, {"text": text})
        assert code == 200, said
    await until(lambda: "notice" in terminal.types())
    assert (before, client.model) == ("custom/scripted", "demo")
    client.submit("the tour, please")
    await until(lambda: "assistant_message" in terminal.types())
    await client.aclose()


async def test_terminals_are_taken_again_after_the_service_had_no_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    terminals = TerminalServer(SessionHub(home, None), home)
    await terminals.listen()
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        os.close(free := os.dup(one.fileno()))
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
        try:
            one.connect(str(home.service_socket))
            for _ in range(20):
                await asyncio.sleep(0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        other.connect(str(home.service_socket))
        other.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(other, pack({"call": 1, "check_move": "nowhere"}))
        async with asyncio.timeout(20):
            assert b"messengers" in await loop.sock_recv(other, 10_000)
    await terminals.aclose()


async def test_a_terminal_that_comes_later_is_asked_what_waits(
    service: Service, owner: Head, workspace: Path
) -> None:
    session = await asyncio.to_thread(owner.session, workspace)
    await asyncio.to_thread(owner.say, session, "clarify")
    await asyncio.to_thread(owner.until, session, "question")
    terminal = Terminal(service)
    client = await terminal.attach(workspace, session)
    assert client.busy and "question" in terminal.types()
    client.interrupt()
    await until(lambda: "turn_ended" in terminal.types())
    await client.aclose()


async def test_a_terminal_that_comes_later_sees_what_was_used(
    service: Service, owner: Head, workspace: Path
) -> None:
    id = owner.session(workspace)
    first, second = Terminal(service), Terminal(service)
    early = await first.attach(workspace, id)
    owner.say(id, "greet me")
    await until(lambda: "turn_ended" in first.types())
    late = await second.attach(workspace, id)
    await until(lambda: "usage" in second.types())
    await early.aclose()
    await late.aclose()


async def test_a_session_that_is_handed_over_keeps_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    async with await Store.open(home.database) as store:
        record = await store.create_session(workspace=str(tmp_path), model="demo")
    wanted: list[str | None] = []

    async def opened(options: Options, _folder: Path) -> Any:
        wanted.append(options.model)
        raise HermesError("That is enough.")

    monkeypatch.setattr(HostedSession, "open", opened)
    with pytest.raises(RequestRefusedError):
        await SessionHub(home, "mine/usual").find_session(record.id, "mine/other")
    with pytest.raises(RequestRefusedError):
        await SessionHub(home, "mine/usual").find_session(record.id)
    assert wanted == ["mine/other", "mine/usual"]


class Screen:
    """What `/move` asks of the application; notes what becomes of the session."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.host = SimpleNamespace(is_served=False)
        self.opened: list[Any] = []

    def need_client(self) -> Any:
        return self.client

    async def open_session(self, wish: Any) -> None:
        self.opened.append(wish)


async def test_a_messenger_that_cannot_take_the_session_leaves_it_where_it_is(
    service: Service, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(service.home))
    screen = Screen(await Terminal(service).attach(workspace, None))
    for where, reason in (("telegram", "is not set up"), ("nowhere", "There is no messenger")):
        with pytest.raises(HermesError, match=reason):
            await cast("Any", move)(screen, where)
    assert screen.opened == []
    await screen.client.aclose()


async def test_what_is_not_there_is_said(service: Service, workspace: Path, tmp_path: Path) -> None:
    with pytest.raises(HermesError, match="nothing-like-it"):
        await Terminal(service).attach(workspace, "nothing-like-it")
    elsewhere = Service(tmp_path / "home", "http://127.0.0.1:9/v1")
    with pytest.raises(HermesError, match="hermes serve"):
        await Terminal(elsewhere).attach(workspace, None)
    done = command.run("--attach", "x", "-p", "hi", env=service.env, cwd=tmp_path)
    assert done.returncode == 2 and "--attach" in done.stderr


@pytest.mark.thorough
async def test_any_interleaving_of_two_heads_ends_alike_and_a_yes_counts_once(
    service: Service, owner: Head, workspace: Path
) -> None:
    """A terminal and a program answer, write and stop in any order; both hear the same in the end."""
    chance = random.Random(11)
    session = await asyncio.to_thread(owner.session, workspace)
    terminal = Terminal(service)
    client = await terminal.attach(workspace, session)
    for _ in range(12):
        before = len([each for each in terminal.events if each.type == "turn_ended"])
        client.submit("clarify")
        await until(lambda: bool(pending(terminal)))
        asked = pending(terminal)[0]
        answered: list[int] = []

        async def by_program(asked: Any = asked, answered: list[int] = answered) -> None:
            path = f"/api/sessions/{session}/requests/{asked.id}"
            answered.append((await asyncio.to_thread(owner.post, path, {"answer": "red"}))[0])

        async def by_terminal(asked: Any = asked) -> None:
            client.answer(asked.id, PersonAnswer("answered", "blue"))

        async def more() -> None:
            client.steer("greet")

        acts = [by_program(), by_terminal(), more()]
        chance.shuffle(acts)
        await asyncio.gather(*acts)
        await until(lambda before=before: terminal.types().count("turn_ended") > before)
        await asyncio.wait_for(client.idle(), 20)
        resolved = [each for each in terminal.events if getattr(each, "id", "") == asked.id][1:]
        assert [each.type for each in resolved] == ["request_resolved"]
        assert answered == [200] or answered == [409]
    heard = await asyncio.to_thread(owner.events, session)
    own = {each.seq: each.to_json() for each in terminal.events[1:]}
    assert [own[each["seq"]]["type"] for each in heard if each["seq"] in own] == [
        each["type"] for each in heard if each["seq"] in own
    ]
    assert max(own) == heard[-1]["seq"]
    await client.aclose()


@pytest.mark.thorough
async def test_an_editor_works_on_a_session_of_the_service_beside_others(tmp_path: Path) -> None:
    work = tmp_path / "work"
    async with editor(tmp_path, lambda _request: say("Nobody asks this one.")) as there:
        with ServerProcess(SCRIPT, tmp_path) as model, Service(tmp_path / "home", model.base_url) as served:
            head = await asyncio.to_thread(served.device, "approve", "phone")
            session = await asyncio.to_thread(head.session, work)
            await there.agent.load_session(cwd=str(work), session_id=session)
            await there.agent.prompt(
                session_id=session, prompt=[schema.TextContentBlock(type="text", text="greet")]
            )
            heard = await asyncio.to_thread(head.until, session, "turn_ended")
            assert [e["text"] for e in heard if e["type"] == "user_message"] == ["greet"]
            there.choose = lambda options: next(e.option_id for e in options if e.kind == "reject_once")
            await asyncio.to_thread(head.say, session, "ask")
            heard = await asyncio.to_thread(head.until, session, "turn_ended", heard[-1]["seq"])
            (resolved,) = [each for each in heard if each["type"] == "request_resolved"]
            assert resolved["outcome"] == "deny" and resolved["by"].startswith("terminal: process")
            await there.until(lambda: there.said(session) == "Hi.Pushed or not.", "what was said")
            await there.agent.close_session(session_id=session)
            assert (await asyncio.to_thread(head.get, f"/api/sessions/{session}"))[0] == 200


def pending(terminal: Terminal) -> list[Any]:
    over = {each.id for each in terminal.events if each.type == "request_resolved"}  # type: ignore[attr-defined]
    return [each for each in terminal.events if each.type == "question" and each.id not in over]  # type: ignore[attr-defined]
