"""One workspace a session: taken up elsewhere, moved on purpose, renamed, gone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent.core.store.store import Store
from agent.errors import HermesError
from agent.events import Noticed, PrefixBroken, SessionOpened, ToolFinished, WorkspaceMoved
from tests.support.command import HERMES
from tests.support.engines import Bench, bench
from tests.support.replies import call, say


def files(folder: Path) -> dict[str, str]:
    return {each.name: each.read_text() for each in sorted(folder.iterdir()) if each.is_file()}


def filled(folder: Path, *words: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, word in zip(("f.txt", "g.txt"), words, strict=True):
        (folder / name).write_text(f"{word} of {folder.name}\n")
    return folder


def ruins(at: str = "") -> list[Any]:
    """A turn whose command changes one file and removes the other one."""
    return [call("terminal", command=f"{at}rm g.txt; echo ruined > f.txt"), say("done")]


def rollback(b: Bench, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HERMES, "rollback", *arguments],
        cwd=folder,
        env={"HERMES_HOME": str(b.home), "PATH": "/usr/bin:/bin", "HOME": str(b.home)},
        capture_output=True,
        text=True,
        check=False,
    )


def script(*turns: list[Any]) -> Any:
    replies = [reply for turn in turns for reply in turn]
    return lambda request: replies.pop(0)


@pytest.mark.thorough
async def test_a_session_taken_up_elsewhere_works_and_is_undone_where_it_was(tmp_path: Path) -> None:
    async with bench(tmp_path, script([say("ok")], ruins())) as b:
        third = filled(tmp_path / "third", "first", "second")
        before = files(filled(b.workspace, "first", "second"))
        session = (await b.turn("one")).session
        b.events.clear()
        await b.turn("go", resume=session, workspace=third.resolve(), approve="normal")
        assert files(b.workspace) == {"f.txt": "ruined\n"} and files(third)["g.txt"] == "second of third\n"
        (opened,) = b.seen(SessionOpened)
        assert opened.workspace == str(b.workspace)
        assert any(
            f"works in {b.workspace}" in each.text and "--here" in each.text for each in b.seen(Noticed)
        )
        assert b.workspace.name in str(b.server.requests[-1].body["messages"][0])
        there = files(third)
        undone = rollback(b, third, "--to", "0", "--session", session, "--yes")
        assert (undone.returncode, files(b.workspace), files(third)) == (0, before, there), undone.stderr


@pytest.mark.thorough
async def test_a_session_moves_when_that_is_said_and_its_steps_stay_where_they_were_made(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, script(ruins(), ruins(), [say("hm")])) as b:
        third = filled(tmp_path / "third", "first", "second").resolve()
        proj = files(filled(b.workspace, "first", "second"))
        session = (await b.turn("one")).session
        b.events.clear()
        before = files(third)
        async with b.engine(resume=session, workspace=third, here=True) as engine:
            assert (await engine.run("go")).outcome == "done"
            assert files(third) == {"f.txt": "ruined\n"}
            (moved,) = b.seen(WorkspaceMoved)
            told = moved.to_json()
            assert (told["type"], told["from"], told["to"]) == (
                "workspace_moved",
                str(b.workspace),
                str(third),
            )
            assert b.seen(PrefixBroken)
            sent = str(b.server.requests[-1].body["messages"])
            assert "The session moved" in sent and str(third) in str(
                b.server.requests[-1].body["messages"][0]
            )
            await engine.history.undo()
            assert files(third) == before
            with pytest.raises(HermesError, match="made in another folder"):
                await engine.history.undo()
        assert files(third) == before and files(b.workspace) == {"f.txt": "ruined\n"}
        async with await Store.open(b.home / "state.db") as store:
            assert (await store.session(session)).workspace == str(third)
            path = await store.path(session)
        (node,) = [each for each in path if each.data.get("kind") == "workspace"]
        assert (node.data["from"], node.data["to"]) == (str(b.workspace), str(third))
        refused = rollback(b, tmp_path, "--to", "0", "--session", session, "--yes")
        assert refused.returncode == 1 and "made in another folder" in refused.stderr
        assert refused.stderr.count("\n") == 1
        undone = rollback(b, b.workspace, "--to", "0", "--session", session, "--yes")
        assert (undone.returncode, files(b.workspace), files(third)) == (0, proj, before), undone.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("across", [False, True], ids=["renamed", "copied with its repository"])
async def test_a_project_with_a_new_name_is_known_again_and_undo_works_there(
    tmp_path: Path, across: bool
) -> None:
    async with bench(tmp_path, script(ruins(), [say("ok")])) as b:
        before = files(filled(b.workspace, "first", "second"))
        if across:
            commands = ("init -q", "add .", "-c user.name=x -c user.email=x@y commit -qm one")
            for command in commands:
                subprocess.run(["git", *command.split()], cwd=b.workspace, check=True)
        session = (await b.turn("one")).session
        renamed = tmp_path.resolve() / "renamed"
        shutil.copytree(b.workspace, renamed) if across else b.workspace.rename(renamed)
        if across:
            shutil.rmtree(b.workspace)
        listed = rollback(b, renamed)
        assert listed.returncode == 0 and session in listed.stdout
        b.events.clear()
        await b.turn("on", resume_last=True, workspace=renamed)
        assert b.seen(SessionOpened)[0].workspace == str(renamed) and b.seen(WorkspaceMoved)
        undone = rollback(b, renamed, "--to", "0", "--yes")
        assert (undone.returncode, files(renamed)) == (0, before), undone.stderr


@pytest.mark.thorough
async def test_another_project_under_the_old_name_is_left_alone(tmp_path: Path) -> None:
    async with bench(tmp_path, script(ruins(), [say("ok")], [say("ok")])) as b:
        filled(b.workspace, "first", "second")
        session = (await b.turn("one")).session
        b.workspace.rename(tmp_path / "away")
        other = filled(tmp_path / "other", "first", "second")
        (other / "g.txt").unlink()
        (other / "f.txt").write_text("ruined\n")
        other.rename(b.workspace)
        there = files(b.workspace)
        for conflicts in ("mine", "checkpoint"):
            refused = rollback(b, b.workspace, "--to", "0", "--yes", "--conflicts", conflicts)
            assert refused.returncode == 1 and "another folder" in refused.stderr, refused.stdout
        async with b.engine(resume=session) as engine:
            await engine.run("look")
            await engine.history.undo()
            with pytest.raises(HermesError, match="another folder"):
                await engine.history.undo()
        assert files(b.workspace) == there


async def test_another_project_under_the_old_name_is_worked_in_only_from_there_and_this_is_said(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, script(ruins(), [say("ok")])) as b:
        filled(b.workspace, "first", "second")
        session = (await b.turn("one")).session
        b.workspace.rename(tmp_path / "away")
        filled(b.workspace, "third", "fourth")
        there = files(b.workspace)
        third = filled(tmp_path / "third", "first", "second").resolve()
        with pytest.raises(HermesError, match=f"replaced by another one.*--resume {session} --here"):
            await b.turn("go", resume=session, workspace=third)
        b.events.clear()
        assert (await b.turn("go", resume=session)).outcome == "done"
        (moved,) = b.seen(WorkspaceMoved)
        assert moved.left == moved.to == str(b.workspace)
        assert any("Another folder" in each.text for each in b.seen(Noticed))
        assert "is another folder now" in str(b.server.requests[-1].messages)
        assert files(b.workspace) == there


async def test_a_folder_that_is_gone_is_asked_about(tmp_path: Path) -> None:
    async with bench(tmp_path, script([say("ok")], [call("terminal", command="pwd"), say("ok")])) as b:
        session = (await b.turn("one")).session
        b.workspace.rmdir()
        third = filled(tmp_path / "third", "first", "second").resolve()
        with pytest.raises(HermesError, match=f"--resume {session} --here"):
            await b.turn("go", resume=session, workspace=third)
        assert (await b.turn("go", resume=session, workspace=third, here=True)).outcome == "done"
        assert str(third) in b.seen(ToolFinished)[-1].result


async def test_a_command_that_makes_the_workspace_anew_is_undone(tmp_path: Path) -> None:
    again = "cd .. && mv work old && mkdir work && rm -rf old"
    async with bench(tmp_path, script([call("terminal", command=again), say("done")])) as b:
        b.config("sandbox:\n  mode: 'off'\n")
        before = files(filled(b.workspace, "first", "second"))
        async with b.engine() as engine:
            await engine.run("go")
            assert files(b.workspace) == {}
            await engine.history.undo()
            assert files(b.workspace) == before
            await engine.history.redo()
            assert files(b.workspace) == {}
            await engine.history.undo()
        assert files(b.workspace) == before
