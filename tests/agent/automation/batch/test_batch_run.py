"""Batches against a strict model server: in order, resumed after a kill, within their ceiling."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
async def test_no_request_leaves_above_the_ceiling_and_the_rest_is_told(tmp_path: Path):
    async with world(tmp_path, lambda request: say("done")) as each:
        each.tasks([{"prompt": f"task {number}"} for number in range(9)])
        code, _, _ = await each.run("--jobs", "1", "--max-tokens", "20000", "--json")
        results = each.results()
        outcomes = Counter(result["outcome"] for result in results)
        assert code == 1 and outcomes["done"] >= 1 and outcomes["budget"] == 9 - outcomes["done"]
        used = sum(result["usage"].get(name, 0) for result in results for name in ("input", "output"))
        assert used <= 20_000
        assert all("batch" in result["error"] for result in results if result["outcome"] == "budget")
        assert (await each.run("--max-tokens", "10000000"))[0] == 0


@pytest.mark.thorough
async def test_a_task_that_fails_is_tried_again_in_its_session(tmp_path: Path):
    replies = iter([refuse(400, "no"), refuse(400, "no"), say("done")])
    async with world(tmp_path, lambda request: next(replies)) as each:
        each.tasks([{"prompt": "once"}])
        code, out, _ = await each.run("--retries", "2")
        (result,) = each.results()
        assert (code, result["outcome"], result["attempts"]) == (0, "done", 3), out


@pytest.mark.thorough
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
        assert process.returncode == 130 and b"the same command again" in said


async def test_a_toolset_nobody_has_ends_a_run_before_it_begins(tmp_path: Path):
    async with world(tmp_path, lambda request: say("done")) as each:
        each.tasks([{"prompt": "task"}])
        code, out, err = await each.run("--distribution", "nosuch=50")
        assert (code, out) == (2, "") and err.startswith(
            "hermes: --distribution: There is no toolset or tool named"
        )
        assert err.count("\n") == 1 and not each.out.exists() and each.server.requests == []


async def test_a_task_whose_server_is_away_fails_without_asking_a_model(tmp_path: Path):
    async with world(tmp_path, lambda request: say("done")) as each:
        each.tasks([{"prompt": "task", "toolsets": ["mcp__away"]}])
        code, _, _ = await each.run("--retries", "0")
        (result,) = each.results()
        assert code == 1 and each.server.requests == []
        assert result["error"].startswith("There is no toolset or tool named mcp__away; known toolsets:")


@pytest.mark.thorough
async def test_a_worker_that_is_killed_is_replaced_and_its_task_fails_in_the_end(tmp_path: Path):
    process: asyncio.subprocess.Process | None = None

    def script(request: Any) -> Any:
        assert process is not None
        if asked(request) == "deadly":
            for worker in workers(each, process.pid):
                os.kill(worker, signal.SIGKILL)
        return say("done")

    async with world(tmp_path, script) as each:
        each.tasks([{"prompt": "deadly"}, {"prompt": "harmless"}])
        process = await each.start("--jobs", "1", "--retries", "1")
        _, err = await process.communicate()
        assert (process.returncode, err) == (1, b"")
        deadly, harmless = each.results()
        assert (deadly["outcome"], deadly["attempts"]) == ("failed", 2)
        assert deadly["error"] == "The worker of this task was killed by SIGKILL."
        assert (harmless["outcome"], harmless["attempts"]) == ("done", 1)
        # It begins anew in the session it had.
        assert len({line["session"] for line in journal(each) if line["task"] == deadly["key"]}) == 1


def workers(each: World, run: int) -> list[int]:
    """The processes that hold the lock of workers, without the run itself."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            held = [os.readlink(link) for link in (folder / "fd").iterdir()]
            if str(each.out / "workers.lock") in held and int(folder.name) != run:
                found.append(int(folder.name))
    return found


def journal(each: World) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (each.out / "journal.jsonl").read_text().splitlines()]


@pytest.mark.thorough
async def test_programs_that_a_repository_of_a_task_names_are_not_run(tmp_path: Path):
    ran = tmp_path / "ran"
    hook = f"#!/bin/sh\ntouch {ran}\n"
    config = (
        f"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch {ran}; false\n"
        f"\thooksPath = hooks\n\tpager = touch {ran}\n[diff]\n\texternal = touch {ran}\n"
        f'[filter "own"]\n\tclean = touch {ran}; cat\n\tsmudge = touch {ran}; cat\n\trequired = true\n'
    )
    files = {
        ".git/config": config,
        ".git/HEAD": "ref: refs/heads/main\n",
        ".git/objects/info/packs": "",
        ".git/refs/heads/.keep": "",
        ".git/hooks/post-checkout": hook,
        "hooks/post-index-change": hook,
        ".gitattributes": "* filter=own diff=own\n",
        "a.txt": "one\n",
    }

    def script(request: Any) -> Any:
        last = request.messages[-1]
        if last["role"] == "user":
            return call("write_file", path="a.txt", content="two\n")
        if "git status" not in json.dumps(request.messages):
            return call("terminal", command="git status; git add a.txt; true")
        return say("done")

    async with world(tmp_path, script) as each:
        each.tasks([{"prompt": "work", "files": files, "checks": [{"command": "git status; true"}]}])
        code, out, err = await each.run()
        (result,) = each.results()
        assert (code, err) == (0, ""), out + err + result["error"]
        assert (each.out / "work" / result["key"] / "a.txt").read_text() == "two\n"
    assert not ran.exists()


@pytest.mark.thorough
async def test_a_model_on_this_machine_works_on_one_task_at_a_time(tmp_path: Path):
    async with world(tmp_path, lambda request: say("done")) as each:
        each.tasks([{"prompt": "a"}, {"prompt": "b"}])
        code, _, err = await each.run("--model", "local", "--jobs", "2", "--retries", "0")
        assert code == 1 and err.startswith("One task at once: the model runs on this machine")
        assert [result["outcome"] for result in each.results()] == ["failed", "failed"]
