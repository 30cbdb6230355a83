"""`hermes running`, with sessions that real processes have open."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent.core.home import Home
from agent.core.store.locks import SessionLock
from agent.core.store.store import Store
from app.cli.command_line import SUBCOMMANDS, module_of
from tests.support import command


def _running(env: dict[str, str], folder: Path) -> list[dict[str, Any]]:
    done = command.run("running", "--json", env=env, cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    return found


def test_a_session_that_waits_for_its_model_is_listed_as_working_until_it_ends(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = command.environment(tmp_path / "home", f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
        assert _running(env, tmp_path) == []
        asking = subprocess.Popen([*command.HERMES, "-p", "Count the files"], env=env, cwd=tmp_path)
        try:
            while not (rows := _running(env, tmp_path)) or rows[0]["state"] != "working":
                assert asking.poll() is None
            shown = command.run("running", env=env, cwd=tmp_path).stdout
        finally:
            asking.kill()
            asking.wait()
    (found,) = rows
    assert found["pid"] == asking.pid
    assert found["workspace"] == str(tmp_path)
    assert (found["state"], found["service"]) == ("working", False)
    assert f"process {asking.pid}" in shown
    assert found["session"] in shown
    assert _running(env, tmp_path) == [], "what was killed has no session open"
    assert command.run("running", env=env, cwd=tmp_path).stdout == "No session is open.\n"


def test_an_answered_session_waits_and_foreign_files_among_the_locks_do_not_matter(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")

    async def fill() -> str:
        async with await Store.open(home.database) as store:
            session = await store.create_session(workspace=str(tmp_path), model="m", title="A \x1b[31mtitle")
            await store.append(session.id, "user", "Hi")
            await store.append(session.id, "assistant", "Hello", {"state": "complete"})
            return session.id

    id = asyncio.run(fill())
    env = command.environment(home.root)
    with SessionLock(home.run, id), SessionLock(home.run, "of-no-session"):
        (home.run / "session-left.lock").write_text("none")
        os.mkfifo(home.run / "session-pipe.lock")
        (found,) = _running(env, tmp_path)
        shown = command.run("running", env=env, cwd=tmp_path).stdout
    assert (found["session"], found["state"], found["pid"]) == (id, "waiting", os.getpid())
    assert "\x1b" not in shown


def _actions(parser: argparse.ArgumentParser, names: tuple[str, ...]) -> list[tuple[str, bool]]:
    groups = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not groups:
        return [(" ".join(names), "--json" in parser._option_string_actions)]
    return [
        found
        for group in groups
        for name, action in group.choices.items()
        for found in _actions(action, (*names, name))
    ]


@pytest.mark.parametrize("name", sorted(SUBCOMMANDS))
def test_everything_that_lists_or_shows_prints_json_on_request(name: str) -> None:
    parser = argparse.ArgumentParser()
    module_of(name).declare(parser)
    for action, has_json in _actions(parser, (name,)):
        last = action.split()[-1]
        assert has_json or last not in ("list", "show", "get", "status", "search", "running"), action
