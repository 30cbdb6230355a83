"""Interpreters that stay."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.tools.code.conftest import Scripts, living, until
from tools.code.runner import Kernels


async def test_a_session_keeps_what_scripts_define(scripts: Scripts) -> None:
    await scripts.output("def double(x):\n    return 2 * x\nn = 21", session="a")
    assert await scripts.output("print(double(n))", session="a") == "42\n"


@pytest.mark.thorough
async def test_sessions_and_tasks_are_apart(scripts: Scripts) -> None:
    await scripts.output("x = 1", session="a")
    for other in ({"session": "b"}, {"session": "a", "task": "other"}):
        outcome = await scripts.run("print(x)", **other)
        assert "NameError" in outcome.stderr


async def test_a_reset_starts_anew(scripts: Scripts) -> None:
    await scripts.output("x = 1", session="a")
    outcome = await scripts.run("print(x)", session="a", reset=True)
    assert "NameError" in outcome.stderr


async def test_errors_and_exits_end_the_script_not_the_session(scripts: Scripts) -> None:
    await scripts.output("x = 1", session="a")
    failed = await scripts.run("print('seen')\nx = 2\n1 / 0", session="a")
    assert (failed.status, failed.stdout) == ("error", "seen\n")
    assert 'File "script-2.py", line 3, in <module>\n    1 / 0' in failed.stderr
    left = await scripts.run("import sys; sys.exit(5)", session="a")
    assert (left.status, left.exit_code) == ("error", 5)
    assert await scripts.output("print(x)", session="a") == "2\n"


async def test_calls_count_for_each_script_anew(scripts: Scripts) -> None:
    script = "from hermes_tools import read_file\nprint([('error' in read_file('a')) for _ in range(3)])"
    for _ in range(2):
        outcome = await scripts.run(script, session="a", limits={"calls": 2})
        assert outcome.stdout == "[False, False, True]\n"
        assert outcome.calls_made == 2


@pytest.mark.sample(1)
@pytest.mark.parametrize("script", ["while True: pass", "from hermes_tools import terminal\nterminal('x')"])
async def test_an_interrupted_session_keeps_its_state(scripts: Scripts, script: str) -> None:
    async def endless(arguments: object) -> str:
        await asyncio.sleep(600)
        return "{}"

    scripts.answers["terminal"] = endless
    await scripts.output("x = 7", session="a")
    outcome = await scripts.run(script, session="a", limits={"seconds": 0.4})
    assert outcome.status == "timeout"
    assert outcome.message.endswith("is kept.")
    again = "from hermes_tools import read_file\nprint(x, read_file('a')['path'])"
    assert await scripts.output(again, session="a") == "7 a\n"


@pytest.mark.thorough
async def test_a_session_that_cannot_be_interrupted_is_killed_and_says_so(scripts: Scripts) -> None:
    outcome = await scripts.run(
        """
        import signal
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True: pass
        """,
        session="a",
        limits={"seconds": 0.2, "grace": 0.2},
    )
    assert outcome.status == "timeout"
    assert outcome.message.endswith("is lost.")
    assert await scripts.output("print(1)", session="a") == "1\n"


async def test_a_session_that_dies_is_crashed_and_the_next_one_new(scripts: Scripts) -> None:
    outcome = await scripts.run("import os\nprint('bye')\nos.kill(os.getpid(), 11)", session="a")
    assert (outcome.status, outcome.stdout) == ("crashed", "bye\n")
    assert await scripts.output("print('new')", session="a") == "new\n"


async def test_a_busy_session_takes_no_second_script(scripts: Scripts) -> None:
    waits = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
    first = asyncio.ensure_future(scripts.run(waits, session="a"))
    await until(lambda: scripts.progress)
    second = await scripts.run("print(1)", session="a")
    assert "still running a script" in second.message
    (scripts.folder / "go").touch()
    assert (await first).status == "ok"


@pytest.mark.thorough
async def test_the_longest_idle_session_makes_room(scripts: Scripts) -> None:
    for name in "abcde":
        await scripts.output("x = 1", session=name)
    assert scripts.runner._kernels.names("main") == ["b", "c", "d", "e"]


async def test_an_idle_session_ends_by_itself(scripts: Scripts) -> None:
    scripts.runner._kernels = Kernels(scripts.runner._home, idle=0.05)
    marker = f"NVM_IDLE={os.getpid()}"
    environ = {**os.environ, "NVM_IDLE": str(os.getpid())}
    await scripts.output("x = 1", session="a", environ=environ)
    await until(lambda: not living(marker))
    assert scripts.runner._kernels.names("main") == []


async def test_closing_ends_all_sessions(scripts: Scripts) -> None:
    marker = f"NVM_CLOSE={os.getpid()}"
    environ = {**os.environ, "NVM_CLOSE": str(os.getpid())}
    await scripts.output("x = 1", session="a", environ=environ)
    assert living(marker)
    await scripts.runner.aclose()
    assert living(marker) == []
