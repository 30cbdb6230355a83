"""Files that hold secrets: no tool, no command and no script reads them without a yes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.events import ApprovalAsked, Decision, Event
from tests.support.engines import bench
from tests.support.replies import by_step, call, say

SECRET = "Zk3mPq9xw7"


async def looked(folder: Path, tool: str, **arguments: Any) -> tuple[list[str], str]:
    """What a person who says no is asked, and everything the model gets back."""
    asked: list[str] = []

    def answer(event: Event) -> None:
        if isinstance(event, ApprovalAsked):
            asked.append(f"{event.headline}: {'; '.join(event.reasons)}")
            event.reply.set_result(Decision("deny"))

    async with bench(folder, by_step([call(tool, **arguments), say("done")])) as b:
        (b.workspace / "app").mkdir()
        for name in (".env", "app/.env.local", "server.key", "app/id_ed25519"):
            (b.workspace / name).write_text(f"value {SECRET} of the file\n")
        async with b.engine(approve="ask", attended=True) as engine:
            engine.stream.subscribe(answer)
            await engine.run("go")
        return asked, json.dumps(b.server.requests[1].messages[-1])


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", [".env", "app/.env.local", "server.key", "app/id_ed25519"])
@pytest.mark.parametrize("way", ["read_file", "cat", "script", "shell in a script"])
async def test_a_private_file_is_not_read_without_a_yes(tmp_path: Path, name: str, way: str) -> None:
    match way:
        case "read_file":
            asked, got = await looked(tmp_path, "read_file", path=name)
            assert asked or "credentials" in got
        case "cat":
            asked, got = await looked(tmp_path, "terminal", command=f"cat {name}")
            assert len(asked) == 1 and "secrets" in asked[0]
        case "script":
            asked, got = await looked(tmp_path, "execute_code", code=f"print(open({name!r}).read())")
        case _:
            code = f"import os\nos.system('cat {name} | rev')"
            asked, got = await looked(tmp_path, "execute_code", code=code)
            assert SECRET[::-1] not in got
    assert SECRET not in got


async def test_a_search_leaves_out_files_with_credentials(tmp_path: Path) -> None:
    _, got = await looked(tmp_path, "search", pattern="value .* of", path=".")
    assert ".env" not in got and "id_ed25519" not in got
