"""What programs in the background do at guarded places after their call is taken back at the next look."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.events import Noticed
from agent.session.engine import Engine
from tests.agent.session.turns.test_guarded_changes import attended, everything, result
from tests.support.engines import Bench, bench
from tests.support.replies import by_step, call, say

WRITES = """
until [ -e go ]; do sleep 0.02; done
echo evil > .envrc; mkdir -p .vscode; echo evil > .vscode/tasks.json; echo x > code; rm go
"""
SERVER = call("terminal", command="bash act.sh", background=True)


def left(b: Bench) -> dict[str, str]:
    """What stands in the workspace beside the program."""
    return {name: text for name, text in everything(b.workspace).items() if name != "act.sh"}


def furnish(b: Bench, text: str = "sleep 300") -> None:
    """A program that writes when a file stands there, says so by removing it, and continues."""
    (b.workspace / "act.sh").write_text(WRITES + text)


async def written(b: Bench) -> None:
    """Let the process write; it has when the file is gone."""
    (b.workspace / "go").touch()
    await gone(b.workspace / "go")


async def gone(path: Path) -> None:
    async with asyncio.timeout(60):
        while path.exists():
            await asyncio.sleep(0.02)


def told(b: Bench) -> list[str]:
    return [each.text for each in b.seen(Noticed) if "taken back" in each.text]


@pytest.mark.thorough
async def test_it_goes_away_before_the_next_program_runs_and_is_told(tmp_path: Path) -> None:
    looks = call("terminal", command="ls -A")
    replies = by_step([SERVER, say("started"), looks, say("done")])
    async with bench(tmp_path, replies) as b, attended(b) as (engine, asked):
        furnish(b)
        await engine.run("start")
        await written(b)
        assert (b.workspace / ".envrc").exists()
        await engine.run("look")
        assert result(b, 2)["output"].split() == ["act.sh", "code"]
        assert "it was taken back: .envrc" in str(b.server.requests[-1].messages)
        assert left(b) == {"code": "x\n"} and not (b.workspace / ".vscode").exists()
        assert not asked and ".envrc" in told(b)[0] and "rewind" in told(b)[0]


async def test_it_goes_away_when_the_process_ends(tmp_path: Path) -> None:
    replies = by_step([SERVER, say("started")])
    async with bench(tmp_path, replies) as b, attended(b) as (engine, _):
        furnish(b, "true")
        await engine.run("start")
        await written(b)
        await gone(b.workspace / ".vscode")
        await gone(b.workspace / ".envrc")
        assert left(b) == {"code": "x\n"}


async def test_it_goes_away_when_the_session_closes(tmp_path: Path) -> None:
    replies = by_step([SERVER, say("started")])
    async with bench(tmp_path, replies) as b:
        furnish(b)
        async with attended(b) as (engine, _):
            await engine.run("start")
            await written(b)
        assert left(b) == {"code": "x\n"} and len(told(b)) == 1


async def run_and_edit(engine: Engine, b: Bench) -> None:
    furnish(b)
    await engine.run("start")
    (b.workspace / ".envrc").write_text("by hand")
    (b.workspace / ".github/workflows/new.yml").write_text("by hand")
    (b.workspace / "code").write_text("by hand")


@pytest.mark.thorough
async def test_what_was_closed_to_the_process_is_the_persons_and_stays(tmp_path: Path) -> None:
    replies = by_step([SERVER, say("started"), call("terminal", command="true"), say("done")])
    async with bench(tmp_path, replies) as b:
        (b.workspace / ".github/workflows").mkdir(parents=True)
        (b.workspace / ".envrc").write_text("before")
        async with attended(b) as (engine, _):
            await run_and_edit(engine, b)
            await engine.run("look")
        assert set(left(b).values()) == {"by hand"} and not told(b)
