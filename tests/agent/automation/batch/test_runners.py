"""Commands of a batch in containers and on another host, played by clients that run them on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.agent.automation.batch.test_batch_run import World, asked, world
from tests.support.replies import call, say
from tests.tools.terminal.far import CLIENTS

SETTINGS = "terminal: {docker: {image: 'an/image:1'}, ssh: {host: HOST, shared: true}}\n"
OWN = ("seconds", "session", "attempts", "usage")
"""What differs from run to run, or by the length of paths."""


def prepare(each: World, host: str = "build.example.org") -> None:
    root = each.folder
    (root / "home").mkdir()
    (root / "home/config.yaml").write_text(SETTINGS.replace("HOST", host))
    each.environ |= {
        "PATH": f"{CLIENTS}:{os.environ['PATH']}",
        "DOCKER_CONFIG": str(root / "docker"),
        "TMPDIR": str(root),
        "HOME": str(root),
    }
    each.tasks(
        [
            {
                "id": f"t{number}",
                "prompt": f"task {number}",
                "files": {"in.txt": f"{number}\n"},
                "checks": [{"file": {"path": "out.txt", "exact": f"{number}"}}],
            }
            for number in range(4)
        ]
    )


def script(request: Any) -> Any:
    last = request.messages[-1]
    # A command that a kill cut off is told to the model, which decides.
    if last["role"] == "user" or '"exit_code": 0' not in last["content"]:
        return call("terminal", command="cp in.txt out.txt; echo ${CONTAINER:-no} > where.txt; cat out.txt")
    return say(f"did {asked(request)}")


def told(each: World) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k not in OWN} for line in each.results()]


@pytest.mark.thorough
async def test_containers_and_hosts_give_the_results_of_this_machine(tmp_path: Path):
    found = {}
    async with world(tmp_path, script) as each:
        prepare(each)
        for runner in ("local", "docker", "ssh"):
            each.out = tmp_path / f"out-{runner}"
            code, out, err = await each.run("--runner", runner, "--jobs", "2", "--approve", "yolo")
            assert (code, err) == (0, ""), out
            found[runner] = told(each)
            ran_in = {path.read_text() for path in each.out.glob("work/*/where.txt")}
            assert ran_in == {"no\n" if runner == "local" else "yes\n"}
        assert each.server.refusals == []
    assert found["local"] == found["docker"] == found["ssh"]
    calls = (tmp_path / "docker/calls").read_text().splitlines()
    # One to see whether any can be made, one for each task; none is left.
    assert sum(line.startswith("run ") for line in calls) == 5
    assert list((tmp_path / "docker/up").iterdir()) == []


@pytest.mark.thorough
@pytest.mark.parametrize("runner", ["docker", "ssh"])
async def test_a_run_elsewhere_goes_on_after_a_kill(tmp_path: Path, runner: str):
    seen: list[str] = []
    third = asyncio.Event()

    def counted(request: Any) -> Any:
        seen.append(f"{asked(request)} {len(request.messages)}")
        if len(seen) == 3:
            third.set()
        return script(request)

    async with world(tmp_path, counted) as each:
        prepare(each)
        line = ("--runner", runner, "--jobs", "2", "--approve", "yolo")
        process = await each.start(*line)
        await third.wait()
        os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
        code, out, err = await each.run(*line)
        assert (code, err) == (0, ""), out
        assert [result["id"] for result in each.results()] == ["t0", "t1", "t2", "t3"]
        assert len(seen) <= 8 + 4


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("runner", "host", "said"),
    [
        ("ssh", "away", "hermes: --runner ssh: away cannot be reached"),
        ("ssh", "''", "hermes: --runner ssh needs the name of a host"),
        ("docker", "x", "hermes: --runner docker: "),
    ],
)
async def test_a_place_that_cannot_be_reached_ends_a_run_before_it_begins(
    tmp_path: Path, runner: str, host: str, said: str
):
    async with world(tmp_path, script) as each:
        prepare(each, host)
        (tmp_path / "docker").mkdir()
        (tmp_path / "docker/down").touch()
        code, out, err = await each.run("--runner", runner)
        assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith(said), err
        assert each.server.requests == [] and not (each.out / "results.jsonl").exists()
