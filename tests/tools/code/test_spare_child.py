"""The child that waits."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tools.code.conftest import Scripts, living, until
from tools.code import runner
from tools.code.runner import CodeRunner, SpareChild


@pytest.fixture
async def warm(tmp_path: Path) -> AsyncIterator[Scripts]:
    made = Scripts(tmp_path)
    await made.runner.aclose()
    made.runner = CodeRunner()
    # Fixed: the test's own environment tells the phase of the test.
    environ = {"PATH": os.environ["PATH"]}
    job = made.job
    made.job = lambda script, **given: job(script, **{"environ": environ, **given})
    made.runner.prepare(made.job(""))
    await made.runner.ready()
    yield made
    await made.runner.aclose()


@pytest.mark.thorough
async def test_a_waiting_child_is_used_once(warm: Scripts) -> None:
    pids = []
    for _ in range(3):
        outcome = await warm.run("import os; print(os.getpid()); leftover = 1")
        assert outcome.metadata["warm"] is True
        pids.append(outcome.stdout)
        warm.runner.prepare_next()
        await warm.runner.ready()
    assert len(set(pids)) == 3
    assert "NameError" in (await warm.run("leftover")).stderr


async def test_a_child_for_other_circumstances_is_not_used(warm: Scripts) -> None:
    environ = {**os.environ, "CI": "yes"}
    outcome = await warm.run("import os; print(os.environ['CI'])", environ=environ)
    assert (outcome.metadata["warm"], outcome.stdout) == (False, "yes\n")


async def test_a_waiting_child_that_died_is_not_used(warm: Scripts) -> None:
    assert warm.runner._spare is not None
    waiting = warm.runner._spare._child
    assert waiting is not None
    os.kill(waiting.pid, signal.SIGKILL)
    await waiting.exited
    outcome = await warm.run("print(1)")
    assert (outcome.status, outcome.metadata["warm"]) == ("ok", False)


async def test_a_stale_child_is_let_go(warm: Scripts) -> None:
    marker = f"NVM_STALE={os.getpid()}"
    job = warm.job("", environ={**os.environ, "NVM_STALE": str(os.getpid())})
    assert warm.runner._spare is not None
    await warm.runner._spare.aclose()
    warm.runner._spare = SpareChild(warm.runner._home, stale=0.05)
    warm.runner.prepare(job)
    await until(lambda: living(marker))
    await until(lambda: not living(marker))


async def test_tracebacks_of_threads_quote_the_script(warm: Scripts) -> None:
    outcome = await warm.run("import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()")
    assert outcome.metadata["warm"] is True
    assert 'File "script.py", line 2, in <lambda>' in outcome.stderr
    assert "t = threading.Thread(target=lambda: 1 / 0)" in outcome.stderr


async def test_closing_leaves_no_child(tmp_path: Path) -> None:
    marker = f"NVM_WAITING={os.getpid()}"
    scripts = Scripts(tmp_path)
    runner = CodeRunner()
    runner.prepare(scripts.job("", environ={**os.environ, "NVM_WAITING": str(os.getpid())}))
    await scripts.runner.aclose()
    await runner.aclose()
    assert living(marker) == []


async def test_nothing_waits_where_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "SCARCE", float("inf"))
    scripts = Scripts(tmp_path)
    await scripts.runner.aclose()
    scripts.runner = CodeRunner()
    scripts.runner.prepare(scripts.job(""))
    await scripts.runner.ready()
    assert (await scripts.run("print(1)")).metadata["warm"] is False
    await scripts.runner.aclose()


@pytest.mark.thorough
async def test_a_child_asked_for_later_comes_later_and_not_after_closing(tmp_path: Path) -> None:
    marker = f"NVM_LATER={os.getpid()}"
    scripts = Scripts(tmp_path)
    job = scripts.job("", environ={**os.environ, "NVM_LATER": str(os.getpid())})
    runner, closed = CodeRunner(), CodeRunner()
    closed.prepare(job, after=0.01)
    await closed.aclose()
    await asyncio.sleep(0.05)
    assert living(marker) == []
    runner.prepare(job, after=2.0)
    await runner.ready()
    assert living(marker) == []
    await until(lambda: living(marker))
    await runner.aclose()
    assert living(marker) == []
    await scripts.runner.aclose()
