"""Scripts behind a real boundary: they call tools all the same, and end the same way."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from agent.core.home import Home
from agent.safety.sandbox.boundary import BoundaryFolders, SessionBoundary
from agent.safety.sandbox.opening import probe
from tests.tools.code.conftest import Scripts, living, out_of_time_with
from tools.code.runner import CodeRunner


@pytest.fixture(params=["bubblewrap", "landlock"])
async def bounded(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scripts]:
    workspace = tmp_path / "work"
    workspace.mkdir()
    mode: Literal["bubblewrap", "landlock"] = request.param
    boundary = SessionBoundary(
        probe(mode), BoundaryFolders(workspace, tmp_path / "tmp", Home(tmp_path / "home")), network="off"
    )
    made = Scripts(workspace)
    await made.runner.aclose()
    made.runner = CodeRunner(boundary, spare=False)
    yield made
    await made.runner.aclose()


async def test_threads_call_tools_from_inside(bounded: Scripts) -> None:
    outcome = await bounded.run(
        """
        from hermes_tools import gather, read_file
        print([result["path"] for result in gather(*[lambda n=n: read_file(str(n)) for n in range(9)])])
        """
    )
    assert outcome.stdout == str([str(number) for number in range(9)]) + "\n", outcome
    assert len(bounded.called) == 9


async def test_the_workspace_can_be_written_and_nothing_beside_it(bounded: Scripts) -> None:
    outcome = await bounded.run("open('inside', 'w')\nopen('/etc/hermes-outside', 'w')")
    assert (bounded.folder / "inside").exists()
    assert not Path("/etc/hermes-outside").exists()
    assert "line 2" in outcome.stderr, outcome


@pytest.mark.sample(1)
async def test_signals_and_time_limits_are_told_as_outside(
    bounded: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    out_of_time_with(bounded.folder / "late", monkeypatch)
    crashed = await bounded.run("import os\nos.kill(os.getpid(), 11)")
    assert (crashed.status, crashed.exit_code) == ("crashed", 139)
    marker = f"NVM_BOUNDED={os.getpid()}"
    environ = {**os.environ, "NVM_BOUNDED": str(os.getpid())}
    hung = await bounded.run(
        """
        import os
        child = os.fork()
        print("begun")
        open("one" if child else "other", "w")
        while not (os.path.exists("one") and os.path.exists("other")): pass
        open("late", "w")
        while True: pass
        """,
        environ=environ,
    )
    assert (hung.status, hung.stdout) == ("timeout", "begun\nbegun\n")
    assert living(marker) == []


async def test_a_session_is_interrupted_inside(bounded: Scripts) -> None:
    await bounded.output("x = 7", session="a")
    outcome = await bounded.run("while True: pass", session="a", limits={"seconds": 0.4})
    assert outcome.message.endswith("is kept."), outcome
    assert await bounded.output("print(x)", session="a") == "7\n"


async def test_an_exit_code_that_looks_like_a_signal_is_told_from_a_signal(bounded: Scripts) -> None:
    chosen = await bounded.run("import sys; sys.exit(139)")
    assert (chosen.status, chosen.exit_code) == ("error", 139), chosen
    killed = await bounded.run("import os; os.kill(os.getpid(), 11)")
    assert (killed.status, killed.exit_code) == ("crashed", 139), killed
