"""Language servers after edits: real processes, good and bad ones, behind the real boundary."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.core.config.schema import Settings
from agent.core.home import Home
from agent.integrations.diagnostics.server_process import LANGUAGES, find_server
from agent.integrations.diagnostics.service import LanguageServers, ServerPlace
from agent.safety.sandbox.opening import probe
from tests.support.engines import bench
from tests.support.replies import by_step, call, say
from tests.support.tool_context import FakeContext
from tools.discovery import discover
from tools.registry import registry
from tools.services.diagnostics import FileEdit

SERVER = Path(__file__).parents[3] / "support" / "language_server.py"
pytestmark = pytest.mark.skipif(probe("auto").name == "none", reason="nothing confines programs here")

Change = Callable[[str, str], Awaitable[Any]]


def command(kind: str, *paths: Path) -> str:
    return shlex.join([sys.executable, str(SERVER), kind, *map(str, paths)])


@asynccontextmanager
async def servers(tmp_path: Path, own: str | None, **settings: Any) -> AsyncIterator[LanguageServers]:
    commands = {} if own is None else {"commands": {"python": own}}
    given = Settings.model_validate({"diagnostics": {"seconds": 20, **commands, **settings}})
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    environ = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    place = ServerPlace(
        workspace=work.resolve(), home=Home(tmp_path / "home"), environ=environ, sandbox=given.sandbox
    )
    opened = LanguageServers(place, given.diagnostics)
    try:
        yield opened
    finally:
        await opened.close()


def changes(opened: LanguageServers, path: Path) -> Change:
    async def change(before: str | None, after: str | None) -> Any:
        if after is not None:
            path.write_text(after)
        return await opened.after([FileEdit(path=path.resolve(), before=before, after=after)])

    return change  # type: ignore[return-value]


@pytest.mark.parametrize("kind", ["good", "pulled"])
async def test_only_what_is_newly_wrong_is_told(tmp_path: Path, kind: str) -> None:
    async with servers(tmp_path, command(kind)) as opened:
        change = changes(opened, tmp_path / "work" / "a.py")
        old = "BAD one\n"
        assert await change(old, new := "fine\nBAD one\nBAD two\n") == {
            "new": ["a.py:3:1 error: BAD two is bad [small no-bad]"]
        }
        assert await change(new, "BAD two\n" + new) == {
            "new": ["a.py:4:1 error: BAD two is bad [small no-bad]"]
        }
        assert await change("BAD two\n" + new, "fine\n") is None
        # What somebody else wrote meanwhile is not the edit's doing.
        assert await change("BAD three\n", "BAD three\nBAD four\n") == {
            "new": ["a.py:2:1 error: BAD four is bad [small no-bad]"]
        }
        assert await change("BAD three\nBAD four\n", None) is None
        many = "".join(f"BAD {number}\n" for number in range(30))
        told = await change(None, many)
        assert (len(told["new"]), told["more"]) == (10, 20)
        assert await changes(opened, tmp_path / "work" / "notes.txt")("", "BAD") is None


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("crash", "it ended with code 4 (it is all too much)"),
        ("garbage", "it sent something else than messages"),
        ("huge", "it sent a message of 9,000,000,000 bytes"),
        ("flood", "it floods its output"),
    ],
)
async def test_a_server_that_misbehaves_is_named_once_and_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.integrations.diagnostics.server_process.MOST_MESSAGES", 2_000)
    async with servers(tmp_path, command(kind)) as opened:
        change = changes(opened, tmp_path / "work" / "a.py")
        assert await change("fine\n", "BAD\n") is None
        assert await change("BAD\n", "BAD\nBAD\n") is None
    named = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(named) == 1 and named[0].endswith(f"is off for this session: {reason}")


@pytest.mark.parametrize("kind", ["silent", "deaf"])
async def test_a_server_that_hangs_is_waited_for_less_and_less_and_then_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "deaf":
        monkeypatch.setattr("agent.integrations.diagnostics.server_process._STARTING", 0.5)
    async with servers(tmp_path, command(kind), seconds=0.2) as opened:
        change = changes(opened, tmp_path / "work" / "a.py")
        assert await change("fine\n", "BAD\n") == {"still_running": [Path(sys.executable).name]}
        while (said := await change("fine\n", "BAD\n")) is not None:
            assert said == {"still_running": [Path(sys.executable).name]}
            await asyncio.sleep(0.05)
    assert len([each for each in caplog.records if "is off for this session" in each.getMessage()]) == 1


async def test_a_server_reads_no_secrets_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    secret, source = tmp_path / "work" / ".env", tmp_path / "work" / "b.py"
    secret.write_text("KEY=x")
    source.write_text("ours")
    async with servers(tmp_path, command("reaches", secret, source)) as opened:
        told = await changes(opened, tmp_path / "work" / "a.py")(None, "BAD\n")
    assert "KEY" not in str(told) and "read ours, kept from writing" in str(told)
    assert (secret.read_text(), source.read_text()) == ("KEY=x", "ours")


async def test_what_a_server_asks_for_is_answered_without_an_effect(tmp_path: Path) -> None:
    async with servers(tmp_path, command("asks")) as opened:
        told = await changes(opened, tmp_path / "work" / "a.py")(None, "BAD\n")
    assert "configured: [None, None] {'applied': False}" in str(told)


async def test_a_server_ends_when_idle_and_starts_again(tmp_path: Path) -> None:
    async with servers(tmp_path, command("good")) as opened:
        change = changes(opened, tmp_path / "work" / "a.py")
        assert await change(None, "BAD\n") is not None
        first = opened._running["python"]
        opened._idle("python")
        await next(iter(opened._ending))
        assert first.server is not None and first.server.fault and "python" not in opened._running
        assert await change("BAD\n", "BAD\nBAD x\n") == {
            "new": ["a.py:2:1 error: BAD x is bad [small no-bad]"]
        }


async def test_nothing_is_started_where_it_is_off_or_not_installed(tmp_path: Path) -> None:
    for own, settings in ((command("good"), {"mode": "off"}), ("", {}), ("no-such-server", {})):
        async with servers(tmp_path, own, **settings) as opened:
            assert await changes(opened, tmp_path / "work" / "a.py")(None, "BAD\n") is None
            assert opened._running == {}


def test_a_server_that_rustup_only_names_is_not_installed(tmp_path: Path) -> None:
    rust = next(each for each in LANGUAGES if each.name == "rust")
    rustup, named = tmp_path / "bin" / "rustup", tmp_path / "bin" / "rust-analyzer"
    rustup.parent.mkdir()
    rustup.touch(0o700)
    named.symlink_to("rustup")
    environ = {"PATH": str(rustup.parent), "HOME": str(tmp_path)}
    assert find_server(rust, {}, environ) is None
    own = tmp_path / ".rustup" / "toolchains" / "stable" / "bin"
    own.mkdir(parents=True)
    (own / "rust-analyzer").touch()
    found = find_server(rust, {}, environ)
    assert found is not None and found.command == (str(named),)


async def test_pyright_finds_what_an_edit_breaks(tmp_path: Path) -> None:
    async with servers(tmp_path, None) as opened:
        path = tmp_path / "work" / "a.py"
        told = await changes(opened, path)('x: int = ""\n', 'x: int = ""\nprint(missing)\n')
    assert told == {"new": ['a.py:2:7 error: "missing" is not defined [Pyright reportUndefinedVariable]']}


async def test_the_file_tools_tell_it_with_their_result(tmp_path: Path) -> None:
    discover()
    async with servers(tmp_path, command("good")) as opened:
        context = FakeContext(tmp_path / "work")
        context.diagnostics = opened
        written = await registry.dispatch("write_file", {"path": "a.py", "content": "a = 1\n"}, context)
        assert "diagnostics" not in written
        arguments = {"mode": "replace", "path": "a.py", "old_string": "a = 1", "new_string": "BAD = 1"}
        patched = await registry.dispatch("patch", arguments, context)
        assert patched["diagnostics"] == {"new": ["a.py:1:1 error: BAD = 1 is bad [small no-bad]"]}


async def test_a_session_has_them(tmp_path: Path) -> None:
    replies = by_step([call("write_file", path="a.py", content="BAD\n"), say("done")])
    own = json.dumps(command("good"))
    settings = f"diagnostics:\n  seconds: 20\n  commands:\n    python: {own}\n"
    async with bench(tmp_path, replies) as b:
        b.config(settings)
        assert (await b.turn("go")).outcome == "done"
        assert "a.py:1:1 error: BAD is bad" in str(b.server.requests[-1])
