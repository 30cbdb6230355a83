"""Batches against a strict model server: in order, resumed after a kill, within their ceiling."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.command import ROOT, START
from tests.support.model_server import ModelServer
from tests.support.replies import call, refuse, say


class World:
    """A task file, a folder for results, a model that follows a script."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self.folder = folder
        self.server = server
        self.out = folder / "out"
        self.environ = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ},
            "HERMES_HOME": str(folder / "home"),
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "test-key",
            "HERMES_MODEL": "scripted",
        }

    def tasks(self, tasks: Sequence[dict[str, Any]]) -> None:
        (self.folder / "tasks.jsonl").write_text("".join(json.dumps(each) + "\n" for each in tasks))

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        line = [sys.executable, "-c", START, "batch", "run", str(self.folder / "tasks.jsonl")]
        return await asyncio.create_subprocess_exec(
            *line,
            *("-o", str(self.out), *arguments),
            cwd=ROOT,
            env=self.environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )

    async def run(self, *arguments: str) -> tuple[int | None, str, str]:
        process = await self.start(*arguments)
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()

    def results(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.out / "results.jsonl").read_text().splitlines()]


@asynccontextmanager
async def world(folder: Path, script: Any) -> AsyncIterator[World]:
    async with ModelServer(script) as server:
        yield World(folder, server)


def asked(request: Any) -> str:
    return next(str(each["content"]) for each in reversed(request.messages) if each["role"] == "user")


async def test_tasks_are_worked_on_checked_and_told_in_order(tmp_path: Path):
    def script(request: Any) -> Any:
        text = asked(request)
        if "write" in text and request.messages[-1]["role"] == "user":
            return call("write_file", path="out.txt", content="made\n")
        return say(f"answer to {text[:7]}")

    async with world(tmp_path, script) as each:
        each.tasks(
            [
                {
                    "prompt": "write it",
                    "id": "w",
                    "files": {"out.txt": "before\n"},
                    "checks": [{"file": {"path": "out.txt", "contains": "made"}}],
                },
                {"prompt": "task 2", "checks": [{"contains": "nothing like it"}]},
                {"prompt": "task 3", "files": {"in/a.txt": "x"}, "checks": [{"command": "cat in/a.txt"}]},
                {"prompt": "task 3", "files": {"in/a.txt": "x"}, "checks": [{"command": "cat in/a.txt"}]},
            ]
        )
        code, out, err = await each.run("--jobs", "2")
        assert (code, err) == (1, "") and "4 of 4 tasks, 1 failed" in out
        results = each.results()
        assert [result["id"] for result in results] == ["w", "2", "3", "4"]
        assert [all(check["passed"] for check in result["checks"]) for result in results] == [
            *(True, False, True, True)
        ]
        assert len({result["session"] for result in results}) == 4
        before = len(each.server.requests)
        assert (await each.run())[0] == 1
        assert len(each.server.requests) == before and each.server.refusals == []


async def test_after_a_kill_nothing_is_asked_twice_and_nothing_is_lost(tmp_path: Path):
    seen: Counter[str] = Counter()
    third = asyncio.Event()

    def script(request: Any) -> Any:
        text = asked(request)
        step = f"{text} {len(request.messages)}"
        seen[step] += 1
        if sum(seen.values()) == 7:
            third.set()
        if request.messages[-1]["role"] == "user":
            return call("todo_read")
        return say("done", pace=0.002)

    async with world(tmp_path, script) as each:
        each.tasks([{"prompt": f"task {number}"} for number in range(8)])
        process = await each.start("--jobs", "3")
        await third.wait()
        os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
        # Workers have groups of their own; they end with their input.
        code, out, _ = await each.run("--jobs", "3", "--json")
        assert code == 0, out
        results = each.results()
        assert [result["id"] for result in results] == [str(number + 1) for number in range(8)]
        assert all(result["text"] == "done" for result in results)
        # What was on its way at the kill had no answer yet; all that had one is not asked again.
        assert sum(seen.values()) <= 16 + 3 and max(seen.values()) <= 2
        assert each.server.refusals == []


async def test_no_request_leaves_above_the_ceiling_and_the_rest_is_told(tmp_path: Path):
    async with world(tmp_path, lambda request: say("done")) as each:
        each.tasks([{"prompt": f"task {number}"} for number in range(9)])
        code, _, _ = await each.run("--jobs", "1", "--max-tokens", "40000", "--json")
        results = each.results()
        outcomes = Counter(result["outcome"] for result in results)
        assert code == 1 and outcomes["done"] >= 1 and outcomes["budget"] == 9 - outcomes["done"]
        used = sum(result["usage"].get(name, 0) for result in results for name in ("input", "output"))
        assert used <= 40_000
        assert all("batch" in result["error"] for result in results if result["outcome"] == "budget")
        assert (await each.run("--max-tokens", "10000000"))[0] == 0


async def test_a_task_that_fails_is_tried_again_in_its_session(tmp_path: Path):
    replies = iter([refuse(400, "no"), refuse(400, "no"), say("done")])
    async with world(tmp_path, lambda request: next(replies)) as each:
        each.tasks([{"prompt": "once"}])
        code, out, _ = await each.run("--retries", "2")
        (result,) = each.results()
        assert (code, result["outcome"], result["attempts"]) == (0, "done", 3), out


async def test_a_folder_that_another_run_works_on_is_refused(tmp_path: Path):
    async with world(tmp_path, lambda request: say("done", piece=1, pace=0.5)) as each:
        each.tasks([{"prompt": "a long one"}])
        process = await each.start()
        while not each.server.requests:
            await asyncio.sleep(0.02)
        code, _, err = await each.run()
        assert code == 2 and "Another run works on" in err
        process.send_signal(signal.SIGINT)
        _, said = await process.communicate()
        assert process.returncode == 130 and b"the same command goes on" in said
