"""A whole session whose commands run in the sandbox of this machine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from agent.events import SessionOpened
from agent.safety.sandbox.probe import probe
from tests.support.engines import Bench, bench
from tests.support.replies import by_step, call, say

KEPT_IN = probe().name
PYTHON = os.path.realpath(sys.executable)


async def _results(b: Bench, calls: int, **options: Any) -> list[dict[str, Any]]:
    await b.turn("go", **options)
    assert not b.server.refusals
    return [
        json.loads(message["content"]) for message in b.server.requests[calls].messages[-2 * calls + 1 :: 2]
    ]


async def test_a_project_is_written_and_tested_inside(tmp_path: Path) -> None:
    steps = [
        call("write_file", path="double.py", content="def double(x):\n    return 2 * x\n"),
        call(
            "write_file",
            path="test_double.py",
            content="from double import double\n\n\ndef test_double(tmp_path):\n"
            "    (tmp_path / 'made').write_text('x')\n    assert double(2) == 4\n",
        ),
        call("terminal", command=f"'{sys.executable}' -m pytest -q -p no:cacheprovider 2>&1 | tail -3"),
        call(
            "write_file",
            path="build.sh",
            content="echo out > /tmp/hermes-report.txt; touch /usr/hermes-out\n",
        ),
        call("terminal", command="sh ./build.sh"),
        call("read_file", path="/tmp/hermes-report.txt"),
        say("done"),
    ]
    async with bench(tmp_path, by_step(steps)) as b:
        # Where the packages lie below /tmp, commands do not see them otherwise.
        b.config(f"sandbox:\n  writable: ['{sys.prefix}']\n")
        b.environ["PYTHONPATH"] = os.pathsep.join(sys.path[1:])
        *_, tested, _, reported, read = await _results(b, len(steps) - 1)
        assert b.seen(SessionOpened)[0].sandbox == KEPT_IN != "none"
    assert "1 passed" in tested["output"]
    assert "outside=true" in reported["note"] and not Path("/usr/hermes-out").exists()
    assert "out" in read["content"] and not Path("/tmp/hermes-report.txt").exists()


async def test_a_switched_off_sandbox_is_told_from_the_start(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([call("terminal", command="echo free"), say("done")])) as b:
        b.config("sandbox:\n  mode: 'off'\n")
        (result,) = await _results(b, 1)
        assert result["output"] == "free\n"
        assert b.seen(SessionOpened)[0].sandbox == "none"


async def test_a_limit_of_memory_holds_for_commands(tmp_path: Path) -> None:
    grab = f"'{PYTHON}' -c 'x = bytearray(900_000_000); print(len(x))'"
    async with bench(tmp_path, by_step([call("terminal", command=grab), say("done")])) as b:
        b.config("sandbox:\n  memory: 500\n")
        (result,) = await _results(b, 1)
    assert result["exit_code"] != 0 and "MemoryError" in result["output"]


async def test_without_a_yes_nothing_runs_outside(tmp_path: Path) -> None:
    steps = [call("terminal", command=f"touch '{tmp_path}/beyond'", outside=True), say("done")]
    async with bench(tmp_path, by_step(steps)) as b:
        (result,) = await _results(b, 1, attended=False)
    assert result["status"] == "blocked" and not (tmp_path / "beyond").exists()
