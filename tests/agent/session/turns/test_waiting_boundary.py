"""Commands of a session that run in a boundary that waited for them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.agent.safety.sandbox.kinds import KINDS
from tests.support.engines import Bench, bench
from tests.support.replies import call, say
from tests.tools.terminal.conftest import processes_with, until

CHANGES = """
echo $HERMES_CALL; printf 'new\\0' > kept; chmod 755 kept; rm gone
mkdir -p a/b; echo x > a/b/c; ln -s kept link
"""


def tree(top: Path) -> dict[str, object]:
    return {
        str(path.relative_to(top)): (
            path.lstat().st_mode,
            path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(top.rglob("*"))
    }


def started(b: Bench) -> bool:
    """Whether a boundary of this bench stands ahead of its command."""
    return bool({*processes_with("/ahead-")} & {*processes_with(f"{b.workspace}")})


def waits(b: Bench) -> bool:
    """Whether a boundary is ready for the next command, in a workspace that is a repository.

    Placeholders are in `.git` from before its processes start until it is ready, and as long as its command
    runs in it, so they are looked for on both sides of the processes.
    """
    return not reserved(b) and started(b) and not reserved(b)


def reserved(b: Bench) -> set[str]:
    return {path.name for path in (b.workspace / ".git").iterdir()} & {"commondir", "config.worktree"}


@pytest.mark.skipif("bubblewrap" not in KINDS, reason="only bubblewrap can wait")
async def test_a_command_that_ran_in_a_waiting_boundary_is_undone_byte_by_byte(tmp_path: Path) -> None:
    script = [call("terminal", command="true"), say("one"), call("terminal", command=CHANGES), say("two")]
    async with bench(tmp_path, script) as b:
        subprocess.run(["git", "init", "-q", str(b.workspace)], check=True)
        (b.workspace / "kept").write_text("old")
        (b.workspace / "gone").write_bytes(b"\xff\x00")
        async with b.engine(approve="yolo", attended=True) as engine:
            await engine.run("first")
            await until(lambda: waits(b))
            before = tree(b.workspace)
            await engine.run("second")
            said = [m for m in b.server.requests[-1].messages if m.get("role") == "tool"][-1]
            assert "ahead-" in json.loads(said["content"])["output"], said
            assert tree(b.workspace) != before
            await engine.history.undo()
            # The one for a third command has been drawn since, and nothing puts files there any more.
            await until(lambda: waits(b))
            after = tree(b.workspace)
        assert after == before
        assert not processes_with(str(tmp_path) + "/")
        assert not reserved(b)


@pytest.mark.skipif("bubblewrap" not in KINDS, reason="only bubblewrap can wait")
async def test_a_change_of_the_mode_or_of_the_rules_ends_what_waits_at_once(tmp_path: Path) -> None:
    script = [
        reply
        for word in ("one", "two", "three")
        for reply in (call("terminal", command="echo $HERMES_CALL"), say(word))
    ]
    async with bench(tmp_path, script) as b, b.engine(approve="yolo", attended=True) as engine:
        await engine.run("first")
        await until(lambda: started(b))
        await engine.set_mode("plan")
        await until(lambda: not started(b))
        await engine.set_mode("yolo")
        await engine.run("second")
        await until(lambda: started(b))
        (b.home / "permissions.yaml").write_text("ask: [terminal(curl *)]\n")
        await engine.run("third")
        said = [m for m in b.server.requests[-1].messages if m.get("role") == "tool"][-1]
        assert "ahead-" not in json.dumps(said)


@pytest.mark.skipif("bubblewrap" not in KINDS, reason="only bubblewrap can wait")
async def test_with_nobody_there_nothing_waits_after_a_single_command(tmp_path: Path) -> None:
    mark = call("terminal", command="echo $HERMES_CALL")
    async with bench(tmp_path, [mark, say("one"), mark, say("two"), mark, say("three")]) as b:
        subprocess.run(["git", "init", "-q", str(b.workspace)], check=True)
        async with b.engine(approve="yolo") as engine:
            await engine.run("first")
            await engine.run("second")
            await until(lambda: waits(b))
            await engine.run("third")
        said = [m["content"] for m in b.server.requests[-1].messages if m.get("role") == "tool"]
        assert ["ahead-" in each for each in said] == [False, False, True]
