"""Commands of a session that run in a boundary that waited for them."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from tests.agent.safety.sandbox.kinds import KINDS
from tests.support.engines import bench
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
        if path.name not in ("commondir", "config.worktree")
    }


@pytest.mark.skipif("bubblewrap" not in KINDS, reason="only bubblewrap can wait")
async def test_a_command_that_ran_in_a_waiting_boundary_is_undone_byte_by_byte(tmp_path: Path) -> None:
    script = [call("terminal", command="true"), say("one"), call("terminal", command=CHANGES), say("two")]
    async with bench(tmp_path, script) as b:
        subprocess.run(["git", "init", "-q", str(b.workspace)], check=True)
        (b.workspace / "kept").write_text("old")
        (b.workspace / "gone").write_bytes(b"\xff\x00")
        async with b.engine(approve="yolo") as engine:
            await engine.run("first")
            await until(lambda: processes_with("/ahead-"))
            before = tree(b.workspace)
            await engine.run("second")
            said = [m for m in b.server.requests[-1].messages if m.get("role") == "tool"][-1]
            assert "ahead-" in json.loads(said["content"])["output"], said
            assert tree(b.workspace) != before
            await engine.history.undo()
            await asyncio.sleep(0)
            after = tree(b.workspace)
        assert after == before
        assert not processes_with(str(tmp_path) + "/")
        assert not {path.name for path in (b.workspace / ".git").iterdir()} & {"commondir", "config.worktree"}
