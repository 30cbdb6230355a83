"""A session whose engine works in a process of its own, against the scripted model server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.api.opening import open_session
from agent.errors import HermesError
from agent.events import ApprovalAsked, Decision, Noticed, QueueChanged, TextAdded, TurnEnded
from agent.integrations.mcp.server_state import ServerState
from agent.model.providers import NoModelError
from agent.session.options import Options
from app.tui.commands.history_actions import session_changes
from tests.support import plain_server
from tests.support.engines import Bench, bench
from tests.support.replies import by_step, call, say
from tests.support.waiting import PATIENCE
from tests.support.web_server import web_server

if TYPE_CHECKING:
    from agent.api.session import SessionClient


@asynccontextmanager
async def remote(made: Bench, **options: Any) -> AsyncIterator[SessionClient]:
    environ = {
        **os.environ,
        "HERMES_HOME": str(made.home),
        "OPENAI_BASE_URL": made.server.base_url,
        "OPENAI_API_KEY": "test-key",
        "HERMES_MODEL": "scripted",
        **made.environ,
    }
    chosen = Options(**{"workspace": made.workspace, "approve": "all", **options})
    client = await open_session(chosen, made.events.append, environ=environ, process=True)
    try:
        yield client
    finally:
        await client.aclose()


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.01)


@pytest.mark.thorough
async def test_a_turn_is_worked_on_and_its_view_follows_the_events(tmp_path: Path) -> None:
    script = by_step([call("terminal", command="echo made > a.txt"), say("All done."), say("Again.")])
    async with bench(tmp_path, script) as made, remote(made, attended=True) as client:
        assert (client.workspace, client.branch, client.busy, client.queue) == (
            made.workspace,
            "main",
            False,
            (),
        )
        assert client.keeps_files and client.mode == "yolo" and client.model == "custom/scripted"
        ended = await client.run("Make a file")
        assert (ended.outcome, ended.text) == ("done", "All done.")
        assert (made.workspace / "a.txt").read_text() == "made\n"
        assert [node.kind for node in client.path] == ["system", "user", "assistant", "tool", "assistant"]
        assert "".join(event.text for event in made.seen(TextAdded)) == "All done."
        await until(lambda: not client.busy)
        client.submit("And again")
        assert client.busy
        await until(lambda: not client.busy)
        assert client.path[-1].content == "Again."
        await _goes_back(client, made)


async def _goes_back(client: SessionClient, made: Bench) -> None:
    """Everything that going back needs crosses: plans, conflicts, contents, operations."""
    history = client.history
    plan = await history.plan(0)
    assert [item.path for item in plan.items] == ["a.txt"] and plan == await history.plan(0)
    changes = await history.changes(0, (await history.place()).step)
    assert changes[0].after is not None and changes[0].after.digest is not None
    assert await history.contents(changes[0].after.digest) == b"made\n"
    assert [row.path for row in await session_changes(history)] == ["a.txt"]
    operation, went = await history.undo()
    assert (operation.label, went.draft) == ("And again", "And again")
    assert client.path[-1].content == "All done." and client.branch != "main"
    assert [row.kind for row in await history.outline()][:2] == ["system", "user"]
    compared = await client.compare("main", client.branch)
    assert [node.content for node in compared.left.nodes] == ["And again", "Again."]
    assert (await client.context()).layers and (await client.usage()).session
    assert (await client.stored.newest(5))[0].id == client.id
    assert (await client.stored.search("again")).total > 0
    assert (await client.export(client.path[-1].id)).read_text("utf-8").startswith("<!doctype html>")
    assert await client.agents.recall() == [] and await client.attempts.list_attempts() == ()
    with pytest.raises(HermesError, match="no agent"):
        await client.agents.toggle_pause("agent-7")


async def test_a_person_is_asked_and_heard(tmp_path: Path) -> None:
    script = by_step([call("terminal", command="rm -rf ~/made"), say("It stays.")])
    async with bench(tmp_path, script) as made, remote(made, attended=True, approve="ask") as client:
        client.submit("Tidy up")
        await until(lambda: made.seen(ApprovalAsked))
        asked = made.seen(ApprovalAsked)[0]
        assert [each.id for each in await client.approvals.pending()] == [asked.id]
        asked.reply.set_result(Decision("deny", "keep it"))
        await until(lambda: made.seen(TurnEnded))
        assert made.seen(TurnEnded)[0].text == "It stays."
        assert any("keep it" in str(node.content) for node in client.path if node.kind == "tool")


@pytest.mark.thorough
async def test_a_queue_is_edited_and_an_interrupt_leaves_it(tmp_path: Path) -> None:
    script = by_step([call("terminal", command="sleep 30"), say("Stopped.")])
    async with bench(tmp_path, script) as made, remote(made, attended=True) as client:
        client.submit("Wait")
        await until(lambda: any(event.type == "tool_started" for event in made.events))
        client.submit("second")
        client.submit("third")
        await until(lambda: client.queue == ("second", "third"))
        client.set_queue(["third"])
        await until(lambda: made.seen(QueueChanged)[-1].queued == ("third",))
        client.interrupt()
        await until(lambda: made.seen(TurnEnded))
        await until(lambda: not client.busy)
        assert made.seen(TurnEnded)[0].outcome == "interrupted" and client.queue == ("third",)


async def test_a_message_that_is_stopped_at_once_asks_no_model(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("never")])) as made, remote(made) as client:
        os.kill(client.pid, signal.SIGSTOP)
        turn = asyncio.ensure_future(client.run("Begin"))
        await asyncio.sleep(0)
        client.interrupt()
        os.kill(client.pid, signal.SIGCONT)  # It reads both at once.
        assert (await turn).outcome == "interrupted"
        assert not made.server.requests


@pytest.mark.thorough
async def test_an_engine_that_is_killed_is_told_of_once_and_its_session_goes_on(tmp_path: Path) -> None:
    script = by_step([say("First."), call("terminal", command="sleep 30"), say("Here again.")])
    async with bench(tmp_path, script) as made:
        async with remote(made, attended=True) as client:
            await client.run("Begin")
            client.submit("Go on")
            await until(lambda: any(event.type == "tool_started" for event in made.events))
            os.kill(client.pid, signal.SIGKILL)  # type: ignore[attr-defined]
            await until(lambda: not client.busy)
            ended = made.seen(TurnEnded)[-1]
            assert ended.outcome == "failed" and "was ended by SIGKILL" in ended.error
            assert f"/resume {client.id}" in ended.error and not made.seen(Noticed)
            with pytest.raises(HermesError, match="SIGKILL"):
                await client.context()
            with pytest.raises(HermesError, match="SIGKILL"):
                client.submit("hello?")
            session = client.id
        async with remote(made, attended=True, resume=session) as again:
            assert again.id == session
            assert [node.content for node in again.path if node.kind == "user"][:2] == ["Begin", "Go on"]
            assert (await again.run("Are you there?")).text == "Here again."


@pytest.mark.thorough
async def test_servers_are_signed_in_to_and_agreed_to_over_the_border(tmp_path: Path) -> None:
    mark = tmp_path / "work" / "mark"
    box = {"command": sys.executable, "args": ["-IS", plain_server.__file__, "changes", str(mark)]}
    script = by_step([call("mcp__box__echo", text="hi"), say("Once."), say("Twice.")])
    with web_server(asks_sign_in=True) as web:
        async with bench(tmp_path, script) as made:
            servers = {"box": {**box, "writable": ["."]}, "web": {"url": f"{web.url}/mcp"}}
            slow = {name: {**each, "connect_timeout": 60} for name, each in servers.items()}
            made.config(json.dumps({"mcp_servers": slow}))
            async with remote(made, attended=True) as client:

                async def state(name: str) -> ServerState:
                    return next(each for each in await client.servers.states() if each.name == name)

                async def address() -> str:
                    async with asyncio.timeout(PATIENCE):
                        while not (found := (await state("web")).sign_in):
                            await asyncio.sleep(0.02)
                    return found

                signing = asyncio.create_task(client.servers.sign_in("web"))
                await address()
                await client.servers.leave_sign_in("web")
                with pytest.raises(HermesError, match="the sign-in was left"):
                    await signing
                signing = asyncio.create_task(client.servers.sign_in("web"))
                where = await address()
                with pytest.raises(HermesError, match="not where its sign-in ends"):
                    await client.servers.came_back("web", "http://evil.example/callback?code=1")
                await asyncio.to_thread(follow, where)
                await asyncio.wait_for(signing, PATIENCE)
                assert (await state("web")).signed_in and (await state("web")).health.state == "ready"
                assert await client.servers.sign_out("web") and not (await state("web")).signed_in
                # What changed in a tool crosses as well, and a yes counts for exactly that.
                await client.run("Begin")
                await client.run("Go on")
                changed = await state("box")
                (tool,) = [each for each in changed.offer if each.why]
                assert "+Says it to everybody." in tool.difference
                with pytest.raises(HermesError, match="changed while you looked"):
                    await client.servers.agree("box", "of another look")
                await client.servers.agree("box", changed.seen)
                assert (await state("box")).parked == ()


def follow(url: str) -> None:
    """What a browser does whose owner says yes to all."""
    with urllib.request.urlopen(url, timeout=20) as response:
        response.read()


async def test_a_session_that_cannot_be_opened_fails_as_it_does_in_this_process(tmp_path: Path) -> None:
    async with bench(tmp_path, [say("hi")]) as made:
        made.environ = {"HERMES_MODEL": "", "OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
        with pytest.raises(NoModelError) as caught:
            async with remote(made):
                pass
        assert caught.value.exit_code == 2 and isinstance(caught.value.servers, tuple)


@pytest.mark.thorough
async def test_a_surface_that_does_not_read_holds_the_engine_up_and_loses_nothing(tmp_path: Path) -> None:
    words = [f"word{number} " * 40 for number in range(3_000)]
    async with bench(tmp_path, [say("".join(words))]) as made:
        async with remote(made) as client:
            client.submit("Talk")
            # Nothing is read meanwhile: the event loop does nothing else.
            time.sleep(0.3)
            await until(lambda: made.seen(TurnEnded))
        assert "".join(event.text for event in made.seen(TextAdded)) == "".join(words)
