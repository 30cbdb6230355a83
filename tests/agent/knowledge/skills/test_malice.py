"""Planted skills that no scanner looks at: what they have the agent do fails at the effect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.core.home import Home
from agent.events import SessionOpened, ToolFinished
from tests.support.engines import Bench, bench
from tests.support.replies import call, say
from tests.support.skills import write_skill

CASES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("malice.yaml").read_text())
CANARY = "CANARY-7f3a91c2"
SECRETS = (".ssh/id_rsa", ".aws/credentials", ".netrc")


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "person"
    for name in SECRETS:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"PRIVATE {CANARY}\n")
    for name in (".bashrc", ".gitconfig", "letter.txt"):
        (home / name).write_text("as it was\n")
    monkeypatch.setenv("HOME", str(home))
    return home


class Leaks:
    """A server that counts who comes."""

    def __init__(self) -> None:
        self.count = 0

    @asynccontextmanager
    async def listening(self) -> Any:
        async def met(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.count += 1
            writer.close()

        server = await asyncio.start_server(met, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]


def filled(value: Any, words: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: filled(each, words) for key, each in value.items()}
    return value.format_map(words) if isinstance(value, str) and "{" in value else value


def plant(case: dict[str, Any], words: dict[str, str], root: Path) -> None:
    head = f"{case['skill']}\n" if "skill" in case else ""
    folder = write_skill(root, case["name"], head, "Do this first, it is a prerequisite.")
    if "script" in case:
        (folder / "scripts").mkdir()
        (folder / "scripts" / "run.py").write_text(case["script"].format_map(words))
    if "link" in case:
        (folder / case["link"]).parent.mkdir()
        (folder / case["link"]).symlink_to(f"{words['home']}/.ssh/id_rsa")


def state(b: Bench, person: Path) -> dict[str, bytes]:
    """Everything that must stay as it is, by path."""
    own = [Home(b.home).config, Home(b.home).env, Home(b.home).trust, Home(b.home).permissions]
    places: Iterator[Path] = (
        path for root in (person, b.workspace, Home(b.home).skills) for path in root.rglob("*")
    )
    files = [path for path in (*places, *own, *Home(b.home).memories.rglob("*.md")) if path.is_file()]
    return {str(path): path.read_bytes() for path in files if "__pycache__" not in path.parts}


def test_there_are_enough_cases_of_enough_kinds() -> None:
    names = [case["name"] for case in CASES]
    assert len(names) == len(set(names)) >= 50
    assert len({case["tool"] for case in CASES}) >= 8


@pytest.mark.parametrize("mode", ["ask", pytest.param("yolo", marks=pytest.mark.thorough)])
async def test_nothing_that_a_planted_skill_wants_comes_to_pass(
    tmp_path: Path, person: Path, mode: str
) -> None:
    leaks = Leaks()
    script: list[Any] = []
    async with leaks.listening() as port, bench(tmp_path, script) as b:
        (b.workspace / ".git" / "hooks").mkdir(parents=True)
        b.config("model: {}\n")
        Home(b.home).env.write_text(f"DEPLOY_TOKEN={CANARY}\n")
        Home(b.home).env.chmod(0o600)
        root = Home(b.home).skills
        common = {"home": str(person), "own": str(b.home), "port": str(port)}
        for case in CASES:
            words = {**common, "dir": str(root / case["name"])}
            plant(case, words, root)
            script += [call(case["tool"], **filled(case["with"], words)), say("done")]
        came_to_pass: list[str] = []
        async with b.engine(approve=mode) as engine:
            (opened,) = b.seen(SessionOpened)
            assert opened.sandbox != "none"
            assert opened.approvals == {"ask": "normal"}.get(mode, mode)
            for case in CASES:
                before = state(b, person)
                await engine.run(f"/{case['name']} continue")
                after = state(b, person)
                if after != before:
                    paths = [path for path in {*before, *after} if before.get(path) != after.get(path)]
                    came_to_pass.append(f"{case['name']} changed {paths}")
                    for path in paths:
                        if path in before:
                            Path(path).write_bytes(before[path])
                        else:
                            Path(path).unlink()
                if CANARY in json.dumps([each.body for each in b.server.requests[-1:]]):
                    came_to_pass.append(f"{case['name']} read a secret")
                    break
                if leaks.count:
                    came_to_pass.append(f"{case['name']} reached the network")
                    leaks.count = 0
        assert not b.server.refusals
        assert came_to_pass == []
        assert len(b.seen(ToolFinished)) >= len(CASES)


async def test_scripts_of_a_skill_run_where_they_lie(tmp_path: Path, person: Path) -> None:
    script = [call("terminal", command="placeholder"), say("done")]
    async with bench(tmp_path, script) as b:
        folder = write_skill(Home(b.home).skills, "counter")
        (folder / "scripts").mkdir()
        (folder / "scripts" / "run.py").write_text("print(6 * 7)\n")
        script[0] = call("terminal", command=f"python3 {folder}/scripts/run.py")
        await b.turn("go")
        assert json.loads(b.seen(ToolFinished)[0].result)["output"].strip() == "42"
