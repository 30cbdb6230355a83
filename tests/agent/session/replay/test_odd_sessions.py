"""Sessions with forks, folds, images, agents, cuts and secrets run again, and leave in every form."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from atif import Trajectory

from agent.core.attachments import AttachmentStore
from agent.core.home import Home
from agent.core.store.nodes import Node
from agent.core.store.store import Store
from app.main import main
from tests.support.compacting import ASKED_TO_CONDENSE, SUMMARY
from tests.support.engines import Bench
from tests.support.images import write
from tests.support.recorded import Recording
from tests.support.replies import call, calls, say

SECRET = "hunter2-correct-horse-battery"
MODELS = ("chat/scripted", "anthropic/claude-sonnet-4-5", "responses/gpt-5")
LAYOUTS = ("jsonl", "sharegpt", "openai", "atif", "html", "patch")


class Rounds:
    """Answers the first request of a turn with calls, and the second with words."""

    def __init__(self, part: int) -> None:
        self.part, self.first = part, True

    def __call__(self, request: Any) -> Any:
        text = request.raw.decode("utf-8", "replace")
        if ASKED_TO_CONDENSE in text:
            return say(SUMMARY.format(number=1))
        if "the goal of the helper" in text and "Part 1" not in text:
            return say("I helped.")
        self.first, first = False, self.first
        if not first:
            return say("Over.", reasoning="Let me think. ")
        if self.part == 1:
            return calls(("read_file", {"path": "secret.txt"}), ("search", {"pattern": "two"}), text="Both. ")
        if self.part == 2:
            return call("delegate_task", goal="the goal of the helper")
        return call("write_file", path="made.txt", content="two\n")


class Stalled:
    """Begins to answer and does not continue."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    def __call__(self, request: Any) -> Any:
        self.asked.set()
        return say("I was going to say something long. " * 20, stall_at=900, stall=30.0)


async def record(folder: Path) -> Home:
    """A home with one long session for each form, each with branches that end at odd places."""
    recording = Recording(folder)
    async with recording.server() as server:
        bench = recording.bench(server)
        bench.config((bench.home / "config.yaml").read_text().replace("checkpoints: {enabled: false}\n", ""))
        (bench.workspace / "secret.txt").write_text(f"one\ntwo\npassword={SECRET}\n")
        bench.environ |= {"ODD_PASSWORD": SECRET}
        for model in MODELS:
            await converse(bench, model)
        assert server.refusals == []
    async with await Store.open(bench.home / "state.db") as store:
        for session in await store.list_sessions(100):
            path = await store.path(session.id, "main")
            for name, node in (("at a call", first(path, "calls")), ("at a fold", kind(path, "compaction"))):
                if node is not None:
                    await store.fork(session.id, node.id, name)
    return Home(bench.home)


def first(path: list[Node], name: str) -> Node | None:
    return next((node for node in path if node.data.get(name)), None)


def kind(path: list[Node], kind: str) -> Node | None:
    return next((node for node in path if node.kind == kind), None)


async def converse(bench: Bench, model: str) -> None:
    image = AttachmentStore(Home(bench.home).attachments).take(write(bench.workspace / "p.png"))
    async with bench.engine(model=model) as engine:
        for part in (1, 2, 3):
            bench.server.script = Rounds(part)
            await engine.run(f"Part {part} of it, with {SECRET}.", (image,) if part == 1 else ())
        bench.server.script = stalled = Stalled()
        engine.submit("Part 4, which is cut off.")
        await stalled.asked.wait()
        engine.interrupt()
        await engine.idle()
        bench.server.script = Rounds(5)
        await engine.compact()
        await engine.run("Part 5 of it.")


async def branches(home: Home) -> list[tuple[str, str]]:
    async with await Store.open(home.database) as store:
        rows = await store.database.read(lambda c: c.execute("SELECT id FROM sessions").fetchall())
        return [(id, head.name) for (id,) in rows for head in await store.heads(id)]


def hermes(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["sessions", *words])
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err and printed.err.count("\n") <= 1, printed.err
    return code, printed.out, printed.err


def ordered(messages: list[dict[str, Any]]) -> bool:
    """Whether the results of calls follow them, all of them and nothing between."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return False
        waiting = [each["id"] for each in message.get("tool_calls", ())]
    return not waiting


def test_odd_sessions_run_again_and_leave_in_every_form(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = asyncio.run(record(tmp_path))
    monkeypatch.setenv("HERMES_HOME", str(home.root))
    monkeypatch.setenv("ODD_PASSWORD", SECRET)
    found = asyncio.run(branches(home))
    assert len(found) >= 6 + 3 * 2, found
    for session, branch in found:
        code, out, _ = hermes(capsys, "replay", session, "--branch", branch)
        assert code == 0 and out.startswith("The same: "), (branch, out)
        exported = {}
        for layout in LAYOUTS:
            code, text, told = hermes(capsys, "export", session, "--branch", branch, "--format", layout)
            assert code == 0 or (layout == "patch" and "there is no patch" in told), (layout, branch, told)
            assert SECRET not in text, (layout, branch)
            exported[layout] = text
        assert ordered(json.loads(exported["openai"])["messages"]), exported["openai"]
        Trajectory.model_validate_json(exported["atif"])
        assert json.loads(exported["sharegpt"])["conversations"]
        assert all(json.loads(line) for line in exported["jsonl"].splitlines())
    code, _, told = hermes(capsys, "replay", found[0][0], "--branch", "nowhere")
    assert code != 0 and "nowhere" in told
    for path in home.attachments.iterdir():
        path.unlink()
    session = next(session for session, branch in found if branch == "at a call")
    code, out, told = hermes(capsys, "replay", session)
    assert code == 1 and "Images of the session are no longer kept" in out and "p.png" in out, (out, told)
    for layout in LAYOUTS[:5]:
        assert hermes(capsys, "export", session, "--format", layout)[0] == 0
