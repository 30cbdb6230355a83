"""Grants cover exactly what was said, last as long as was said, and can be taken back."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent.safety import grants
from agent.safety.grants import Grants, GrantsError, rule_words, subject
from tools.services.actions import (
    Action,
    CallServer,
    ChangeSettings,
    DeletePath,
    Fetch,
    ReadPath,
    RunCommand,
    SendInput,
    WritePath,
)

WORKSPACE = Path("/srv/project")
ROOT = Path(__file__).parents[3]


def run(command: str = "make test", cwd: str = "/srv/project", **ways: bool) -> RunCommand:
    return RunCommand(tool="terminal", command=command, cwd=Path(cwd), **ways)


def write(path: str = "/srv/project/a.py") -> WritePath:
    return WritePath(tool="write_file", path=Path(path))


async def give(held: Grants, action: Action, scope: grants.Scope) -> grants.Grant | None:
    grant = held.prepare(action, scope)
    return None if grant is None else await held.give(grant)


LASTING: list[Action] = [
    run(),
    write(),
    ReadPath(tool="read_file", path=Path("/etc/hosts")),
    DeletePath(tool="patch", path=Path("/srv/project/a.py")),
    Fetch(tool="web_extract", url="https://example.com/"),
    CallServer(tool="mcp", server="db", name="query", arguments='{"sql": "select 1"}'),
]
OTHERS: list[Action] = [
    run("make test "),
    run("make  test"),
    run("make test; rm -rf x"),
    run(cwd="/srv/project/sub"),
    run(background=True),
    run(pty=True),
    run(outside=True),
    run(network=True),
    write("/srv/project/b.py"),
    ReadPath(tool="read_file", path=Path("/srv/project/a.py")),
    DeletePath(tool="patch", path=Path("/etc/hosts")),
    Fetch(tool="web_extract", url="https://example.com/x"),
    CallServer(tool="mcp", server="db", name="query", arguments="{}"),
]
ONCE: list[Action] = [
    SendInput(tool="process", process="p1", data="y\n"),
    ChangeSettings(tool="config", what="model.name"),
]


def name(action: Action) -> str:
    return action.headline()[:30]


@pytest.mark.parametrize("action", LASTING, ids=name)
@pytest.mark.parametrize("scope", ["session", "always"])
async def test_a_grant_covers_its_action_and_nothing_else(
    tmp_path: Path, action: Action, scope: grants.Scope
) -> None:
    held = Grants(WORKSPACE, tmp_path / "grants.json", session="s1")
    grant = await give(held, action, scope)
    assert grant is not None and grant.scope == scope and grant.rule and grant.session == "s1"
    assert held.find(action) == grant
    for other in (*LASTING, *OTHERS, *ONCE):
        if other != action:
            assert held.find(other) is None, other


@pytest.mark.parametrize("action", ONCE, ids=name)
async def test_some_kinds_are_never_remembered(tmp_path: Path, action: Action) -> None:
    held = Grants(WORKSPACE, tmp_path / "grants.json")
    assert await give(held, action, "always") is None
    assert subject(action) is None and rule_words(action) == ""
    assert held.find(action) is None and held.all() == ()
    assert not (tmp_path / "grants.json").exists()


async def test_a_permanent_grant_outlives_its_session_and_stays_in_its_workspace(tmp_path: Path) -> None:
    path = tmp_path / "grants.json"
    await give(Grants(WORKSPACE, path), run(), "always")
    await give(Grants(WORKSPACE, path), run("echo"), "session")
    later = Grants(WORKSPACE, path)
    assert later.find(run()) is not None and later.find(run("echo")) is None
    assert Grants(Path("/srv/other"), path).find(run()) is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_without_a_file_always_means_the_session() -> None:
    held = Grants(WORKSPACE)
    grant = await give(held, run(), "always")
    assert grant is not None and grant.scope == "session"
    assert await held.revoke(grant) and held.find(run()) is None
    assert not await held.revoke(grant)


async def test_what_was_taken_back_is_asked_again_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "grants.json"
    one, other = Grants(WORKSPACE, path), Grants(WORKSPACE, path)
    grant = await give(one, run(), "always")
    kept = await give(one, write(), "always")
    assert grant is not None and other.find(run()) == grant
    assert await other.revoke(grant)
    assert one.find(run()) is None and one.all() == (kept,)
    assert not await one.revoke(grant)


async def test_an_expired_grant_is_none(tmp_path: Path) -> None:
    now = [1_000.0]
    path = tmp_path / "grants.json"
    held = Grants(WORKSPACE, path, clock=lambda: now[0])
    grant = await give(held, run(), "always")
    assert grant is not None
    held._keep(replace(grant, expires=2_000.0))
    assert held.find(run()) is not None
    now[0] = 2_000.0
    assert held.find(run()) is None and held.all() == ()


async def test_a_clock_that_is_set_back_prolongs_no_grant(tmp_path: Path) -> None:
    now = [1_000_000.0]
    held = Grants(WORKSPACE, tmp_path / "grants.json", clock=lambda: now[0])
    lasting = await give(held, write(), "always")
    grant = await give(held, run(), "always")
    assert grant is not None
    held._keep(replace(grant, expires=1_003_600.0))
    now[0] -= 30.0
    assert held.find(run()) is not None
    now[0] -= 365 * 86_400.0
    assert held.find(run()) is None
    assert held.all() == (lasting,)


async def test_the_same_yes_twice_is_one_grant(tmp_path: Path) -> None:
    held = Grants(WORKSPACE, tmp_path / "grants.json")
    for scope in ("always", "always", "session", "session"):
        await give(held, run(), scope)
    assert len(held.all()) == 1
    assert len(grants.load_grants(tmp_path / "grants.json")) == 1


@pytest.mark.parametrize(
    "content",
    [
        "",
        "nonsense",
        "[]",
        '{"grants": 3}',
        '{"grants": [{}]}',
        '{"grants": [{"id": 1}]}',
        '{"grants": [null]}',
        '{"grants": [' * 9_000,
    ],
)
async def test_a_damaged_file_grants_nothing_and_is_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "grants.json"
    path.write_text(content)
    path.chmod(0o600)
    held = Grants(WORKSPACE, path)
    assert held.find(run()) is None
    grant = await give(held, run(), "always")
    assert grant is not None and grant.scope == "session" and held.find(run()) == grant
    assert path.read_text() == content
    with pytest.raises(GrantsError, match="damaged"):
        grants.load_grants(path)


@pytest.mark.parametrize(
    "change", [{"scope": "session"}, {"covers": []}, {"given": "now"}, {"rule": 7}, {"x": 1}]
)
async def test_an_odd_grant_makes_the_file_count_for_nothing(
    tmp_path: Path, change: dict[str, object]
) -> None:
    path = tmp_path / "grants.json"
    await give(Grants(WORKSPACE, path), run(), "always")
    data = json.loads(path.read_text())
    data["grants"][0] |= change
    path.write_text(json.dumps(data))
    assert Grants(WORKSPACE, path).find(run()) is None


@pytest.mark.parametrize("kind", ["writable", "link", "folder"])
async def test_a_file_that_others_could_have_written_grants_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "grants.json"
    await give(Grants(WORKSPACE, path), run(), "always")
    if kind == "writable":
        path.chmod(0o622)
    else:
        path.rename(tmp_path / "moved")
        path.symlink_to("moved") if kind == "link" else path.mkdir()
    assert Grants(WORKSPACE, path).find(run()) is None


@pytest.mark.thorough
async def test_many_processes_add_grants_and_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "grants.json"
    program = """
import asyncio, sys
from pathlib import Path
from agent.safety.grants import Grants
from tools.services.actions import RunCommand
async def main():
    held = Grants(Path("/srv/project"), Path(sys.argv[1]))
    for number in range(8):
        action = RunCommand(tool="t", command=f"{sys.argv[2]} {number}", cwd=Path("/srv/project"))
        assert (await held.give(held.prepare(action, "always"))).scope == "always"
asyncio.run(main())
"""
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(path), each], cwd=ROOT)
        for each in ("a", "b", "c")
    ]
    codes = await asyncio.gather(*(asyncio.to_thread(child.wait) for child in children))
    assert codes == [0, 0, 0]
    assert len(grants.load_grants(path)) == 24


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (run(), "exactly this command in /srv/project"),
        (run(background=True), "in the background"),
        (run(outside=True, network=True), "command outside of the sandbox with the network in /srv"),
        (write(), "create or change /srv/project/a.py"),
        (Fetch(tool="x", url="https://example.com/"), "fetch exactly https://example.com/"),
    ],
    ids=str,
)
def test_the_rule_is_spelled_out(action: Action, words: str) -> None:
    assert words in rule_words(action)
