"""Ray embedded with two workers: the same task file gives the same results as on this machine alone.

Run with `make test-ray`, which makes an environment with the extra `ray`.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import HERMES, environment
from tests.support.model_server import ModelServer
from tests.support.replies import Reply, call, say

pytestmark = pytest.mark.thorough
pytest.importorskip("ray", reason="the extra `ray` is not installed; see make test-ray")

OWN = ("seconds", "session", "attempts")
"""What differs from run to run."""


def script(request: Any) -> Reply:
    asked = next(each["content"] for each in reversed(request.messages) if each["role"] == "user")
    if "file" in asked and request.messages[-1]["role"] == "user":
        return call("write_file", path="o.txt", content="x\n")
    return say(f"answer to {asked[:8]}")


def tasks() -> str:
    return "".join(
        json.dumps(
            {
                "id": str(number),
                "prompt": f"Task {number:03} {'file' if number % 3 == 0 else ''}",
                "checks": [{"contains": f"{number:03}"}]
                + ([{"file": {"path": "o.txt", "exists": True}}] if number % 3 == 0 else []),
            }
        )
        + "\n"
        for number in range(12)
    )


async def results(folder: Path, server: ModelServer, runner: str) -> list[dict[str, Any]]:
    # Paths of one length, as the prompt names the folder and the server counts its characters.
    place = folder / runner[:3]
    place.mkdir()
    (place / "t.jsonl").write_text(tasks())
    line = [
        *HERMES,
        "batch",
        "run",
        "t.jsonl",
        "-o",
        "out",
        "--runner",
        runner,
        "--jobs",
        "2",
        "--approve",
        "yolo",
    ]
    env = environment(place / "home", server.base_url)
    process = await asyncio.create_subprocess_exec(*line, cwd=place, env=env, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    lines = (place / "out" / "results.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name not in OWN} for line in lines]


async def test_ray_gives_the_same_results(tmp_path: Path) -> None:
    async with ModelServer(script) as server:
        alone = await results(tmp_path, server, "local")
        asked = len(server.requests)
        spread = await results(tmp_path, server, "ray")
        assert server.refusals == []
    assert len(alone) == 12 and spread == alone
    assert len(server.requests) == 2 * asked
