"""Whatever changes a tree in one session (tools, shell, scripts, agents) is undone and done again exactly."""

from __future__ import annotations

import asyncio
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.events import ApprovalAsked, Decision, ToolFinished
from agent.session.engine import Engine
from tests.agent.workspace.checkpoints.torture import CHANGES, Seen, different, git_state, look, plant
from tests.support.engines import Bench, bench
from tests.support.replies import call, say
from tests.support.team import by_task, report

SPECIAL = {"pipe", "socket"}
"""What no checkpoint covers, named beforehand."""

PATCH = """*** Begin Patch
*** Update File: src/m8.py
@@
-print(8)
+print("eight")
*** Delete File: src/m9.py
*** Update File: src/m6.py
*** Move to: src/deep/m6.py
@@
-print(6)
+print("six")
*** End Patch"""

SCRIPT = """
import os
from hermes_tools import patch, terminal, write_file
write_file("made/by script", "script\\n")
patch(mode="replace", path="src/m7.py", old_string="print(7)", new_string="print('seven')")
print(terminal("rm -r links/odd nested/new; chmod 600 src/m5.py; ln hard/one hard/three")["exit_code"])
os.symlink("dangling", "by the script itself")
os.makedirs("empty/again", mode=0o711)
os.rename("binary", "renamed binary")
"""

TOOLS = [
    call("write_file", path="dos.txt", content="rewritten\n"),
    call("write_file", path="new/deep/file", content="new\n"),
    call("write_file", path="odd/日本", content="by a tool\n"),
    call("patch", mode="patch", patch=PATCH),
    call("patch", mode="replace", path="mixed.txt", old_string="two", new_string="TWO"),
]
AGENT = [
    call("write_file", path="by the agent", content="agent\n"),
    call("patch", mode="replace", path="src/m2.py", old_string="print(2)", new_string="print('two')"),
    call(
        "terminal",
        command="rm -rf modes/600 times; mv turns turned; chmod 700 readonly; printf x >'odd/*?[a]'",
    ),
    say(report("Changed some.")),
]
SCRIPTS: dict[str, list[Any]] = {
    "main": [
        *TOOLS,
        say("Tools are through."),
        call("terminal", command=CHANGES),
        say("The shell is through."),
        call("execute_code", code=SCRIPT),
        say("The script is through."),
        call("delegate_task", goal="change more"),
        say("The agent is through."),
    ],
    "change more": AGENT,
}
TURNS = ("with tools", "with the shell", "with a script", "with an agent")


def failed(b: Bench) -> list[str]:
    """Results of calls that did not do what they were to do."""
    return [event.result for event in b.seen(ToolFinished) if event.outcome != "done"]


async def run(b: Bench, engine: Engine, text: str) -> None:
    """One turn; a person says yes to whatever is asked."""
    running = asyncio.create_task(engine.run(text))
    while not running.done():
        for event in b.seen(ApprovalAsked):
            if not event.reply.done():
                event.reply.set_result(Decision("once"))
        await asyncio.wait([running], timeout=0.02)
    assert (await running).outcome == "done", failed(b)


async def taken(engine: Engine, root: Path, times: int, forth: bool = False) -> list[Seen]:
    """Undo or redo so many turns; how the tree looked after each."""
    found: list[Seen] = []
    for _ in range(times):
        _, went = await (engine.history.redo() if forth else engine.history.undo())
        assert went.restored is not None and went.restored.skipped == ()
        found.append(look(root))
    return found


async def test_whatever_changed_the_tree_all_of_it_is_undone_and_done_again(tmp_path: Path) -> None:
    async with bench(tmp_path, by_task(SCRIPTS)) as b:
        root = b.workspace
        plant(root, tmp_path / "outside")
        repositories = git_state(root)
        states = [look(root)]
        async with b.engine(attended=True) as engine:
            for text in TURNS:
                await run(b, engine, text)
                states.append(look(root))
            assert b.server.refusals == []
            assert failed(b) == []
            assert {item.path for item in engine.history.coverage().left_out} == SPECIAL
            for one, other in pairwise(states):
                assert len(different(one, other)) >= 5
            for expected, found in zip(reversed(states[:-1]), await taken(engine, root, 4), strict=True):
                assert different(found, expected) == {}
            for expected, found in zip(states[1:], await taken(engine, root, 4, forth=True), strict=True):
                assert different(found, expected) == {}
            await taken(engine, root, 4)
        assert different(look(root), states[0]) == {}
        assert git_state(root) == repositories
        assert (tmp_path / "outside" / "secret").read_text() == "not of this workspace"


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kept", [True, False])
async def test_a_file_above_a_hundred_megabytes_comes_back_or_is_named_beforehand(
    tmp_path: Path, kept: bool
) -> None:
    script = [
        call(
            "terminal",
            command="printf x | dd of=large bs=1 seek=70000000 conv=notrunc; chmod 600 large; echo y >b",
        ),
        say("done"),
        call("terminal", command="rm large; echo z >b"),
        say("done"),
    ]
    async with bench(tmp_path, by_task({"main": script})) as b:
        b.config(f"checkpoints: {{max_file_mb: {200 if kept else 100}, max_total_mb: 2000}}\n")
        large = b.workspace / "large"
        with large.open("wb") as file:
            for _ in range(11):
                file.write(os.urandom(10_000_000))
            file.truncate(120_000_000)
        states = [look(b.workspace)]
        async with b.engine() as engine:
            for text in ("change it", "delete it"):
                assert (await engine.run(text)).outcome == "done"
                states.append(look(b.workspace))
            named = {item.path for item in engine.history.coverage().left_out}
            if kept:
                assert named == set()
                assert different((await taken(engine, b.workspace, 2))[-1], states[0]) == {}
                assert different((await taken(engine, b.workspace, 2, forth=True))[-1], states[2]) == {}
                return
            for _ in range(2):
                _, went = await engine.history.undo()
                assert went.restored is not None
                assert [item.path for item in went.restored.skipped] == ["large"]
            assert not large.exists() and not (b.workspace / "b").exists()
