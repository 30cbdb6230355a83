"""Starting, failing, stopping, and systems that offer less: the watcher says what it can do."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sys
import threading
from pathlib import Path

import pytest
from watchdog.observers.polling import PollingObserver

from agent.workspace import fs_events, ignore, project_tree
from agent.workspace.changes import ProjectChanges
from agent.workspace.watcher import Watcher
from tests.agent.workspace.support import PATIENCE, Watched, watching


def sha(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


async def test_folders_beyond_the_limit_are_looked_at_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_tree, "MAX_FOLDERS", 3)
    monkeypatch.setattr("agent.workspace.watcher.SWEEP_SECONDS", 0.1)
    monkeypatch.setattr("agent.workspace.watcher._SWEEP_SHARE", 1.0)
    for name in "abcdefgh":
        (tmp_path / name).mkdir()
    async with watching(tmp_path) as here:
        assert here.watcher.coverage.startswith("3 of 9 folders are watched")
        here.write("a/x", "seen at once")
        assert (await here.next()).added == ("a/x",)
        here.write("h/x", "seen later")
        assert (await here.next()).added == ("h/x",)
        here.write("g/new/x", "a folder below")
        assert (await here.next()).added == ("g/new/x",)
        shutil.rmtree(tmp_path / "h")
        assert (await here.next()).removed == ("h/x",)


@pytest.mark.parametrize("instances", [False, True], ids=["no watch left", "no instance left"])
async def test_a_system_without_watches_left_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instances: bool
) -> None:
    def refuse(*arguments: object) -> int:
        raise OSError(28, "inotify watch limit reached")

    from watchdog.observers.inotify_c import InotifyFD

    monkeypatch.setattr("agent.workspace.watcher.SWEEP_SECONDS", 0.1)
    monkeypatch.setattr(InotifyFD, "_create_inotify_fd" if instances else "add_callback", refuse)
    (tmp_path / "a").mkdir()
    async with watching(tmp_path) as here:
        assert "0 of 2 folders are watched" in here.watcher.coverage
        here.write("a/x", "1\n")
        assert (await here.next()).added == ("a/x",)
        here.write("a/x", "2\n")
        assert (await here.next()).sentence() == "You changed a/x (+1 −1)"
        (tmp_path / "a" / "x").touch()
        await here.only_the_mark()


async def test_where_a_whole_tree_is_watched_the_same_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_source(root: Path, report: fs_events.Report) -> fs_events.FileEvents:
        # Its recursive watch on Linux is not what other systems have, and loses events.
        return fs_events.TreeWatch(root, report, PollingObserver(timeout=0.05))

    monkeypatch.setattr("agent.workspace.watcher.open_source", open_source)
    (tmp_path / "a").write_text("1\n")
    async with watching(tmp_path) as here:
        (tmp_path / "a").touch()
        here.write("node_modules/x", "x")
        await here.only_the_mark()
        here.write("n/m/x", "x")
        assert (await here.next()).added == ("n/m/x",)
        (tmp_path / "n").rename(tmp_path / "k")
        assert (await here.next()).renamed == (("n/m/x", "k/m/x"),)


async def test_lost_events_lead_to_a_look_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.workspace.own_writes.MAX_PATHS", 5)
    async with watching(tmp_path) as here:
        for number in range(40):
            here.write(f"d{number}/{number}", "x")
        changes = await here.next()
        assert len(changes.added) == 40


async def test_nothing_is_told_while_it_is_off(tmp_path: Path) -> None:
    async with watching(tmp_path) as here:
        here.watcher.enabled = False
        here.write("a", "1")
        async with asyncio.timeout(PATIENCE):
            while "1 file " not in here.watcher.coverage:
                await asyncio.sleep(0.01)
        here.watcher.enabled = True
        await here.only_the_mark()


async def test_a_listener_that_fails_does_not_end_the_watch(tmp_path: Path) -> None:
    told: list[ProjectChanges] = []
    failures: list[object] = []

    def fail_once(changes: ProjectChanges) -> None:
        told.append(changes)
        if len(told) == 1:
            raise RuntimeError("no")

    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
    watcher = Watcher(tmp_path, fail_once, settle=0.05)
    await watcher.start()
    await watcher.ready()
    async with asyncio.timeout(PATIENCE):
        for number in (1, 2):
            (tmp_path / "a").write_text(str(number))
            while len(told) < number:
                await asyncio.sleep(0.01)
    await watcher.stop()
    assert len(failures) == 1


async def test_stopping_leaves_no_thread_at_any_moment(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"d{number}").mkdir()
        (tmp_path / f"d{number}" / "x").write_text("x" * number)
    before = set(threading.enumerate())
    for moment in (0.0, 0.005, 0.05):
        watched = Watched(tmp_path)
        await watched.watcher.start()
        await asyncio.sleep(moment)
        await watched.watcher.stop()
        assert set(threading.enumerate()) <= before
    await watched.watcher.stop()


async def test_a_watcher_can_be_started_again(tmp_path: Path) -> None:
    here = Watched(tmp_path)
    for name in ("a", "b"):
        await here.watcher.start()
        await here.watcher.ready()
        here.write(name, "1")
        assert (await here.next()).added == (name,)
        await here.watcher.stop()


async def test_a_project_reached_through_a_link_is_watched(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    async with watching(tmp_path / "link") as here:
        here.watcher.own_write(tmp_path / "link" / "own", sha("own"))
        here.write("own", "own")
        await here.only_the_mark()


async def test_a_command_does_not_wait_until_the_project_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    here = Watched(tmp_path)
    await here.watcher.start()
    async with here.watcher.claim():
        here.write("by-command", "1")
        await here.watcher.ready()
    await here.only_the_mark()
    await here.watcher.stop()


async def test_a_watcher_that_fails_says_so_and_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError

    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
    monkeypatch.setattr(project_tree.ProjectTree, "survey", fail)
    async with watching(tmp_path) as here:
        assert here.watcher.coverage == "The project folder is not watched."
        await here.watcher.expect([tmp_path / "a"])
        async with here.watcher.claim() as claim:
            here.write("a", "1")
        assert not claim.changes
    assert isinstance(failures[0], ZeroDivisionError)


async def test_a_watcher_that_was_not_started_waits_for_nothing(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path, lambda changes: None)
    await watcher.ready()
    await watcher.expect([tmp_path / "a"])
    async with watcher.claim() as claim:
        watcher.own_write(tmp_path / "a", sha(""))
    assert not claim.changes
    await watcher.stop()
    assert watcher.coverage == "The project folder is not watched."


async def test_own_writes_are_known_whatever_way_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real").mkdir()
    async with watching(tmp_path) as here:
        names = [tmp_path / "x" / ".." / "one", Path("two"), tmp_path / "link" / ".." / "three"]
        for path in names:
            here.watcher.own_write(path, sha("ours"))
        here.watcher.own_write(Path("/elsewhere/x"), sha("ours"))
        for name in ("one", "two", "three"):
            here.write(name, "ours")
        await here.only_the_mark()


async def test_an_ignore_file_with_too_many_rules_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ignore, "MAX_TRIED", 3)
    (tmp_path / ".gitignore").write_text("".join(f"{letter}*x\n" for letter in "abcd"))
    async with watching(tmp_path) as watched:
        assert watched.watcher.coverage.endswith("Not all rules of .gitignore are used, as it has too many.")
        watched.write(".gitignore", "a*x\n")
        await watched.next()
        assert watched.watcher.coverage == "1 file in 1 folder is watched."


@pytest.mark.thorough
async def test_a_project_nested_deeper_than_calls_are_is_watched_to_the_ground(tmp_path: Path) -> None:
    depth = sys.getrecursionlimit() // 2 + 100
    below = "/".join("d" * depth)
    (tmp_path / below).mkdir(parents=True)
    async with watching(tmp_path) as watched:
        watched.write(".gitignore", "hidden\n")
        watched.write(f"{below}/seen", "1")
        watched.write(f"{below}/hidden", "1")
        added: list[str] = []
        while len(added) < 2:
            added.extend((await watched.next()).added)
        assert sorted(added) == [".gitignore", f"{below}/seen"]
        assert "watched" in watched.watcher.coverage


async def test_a_project_that_is_moved_away_and_back_is_told_even_when_it_is_empty(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    async with watching(root) as watched:
        for files in (0, 2):
            for number in range(files):
                watched.write(f"{number}.txt", "1")
            added: list[str] = []
            while len(added) < files:
                added.extend((await watched.next()).added)
            root.rename(tmp_path / "elsewhere")
            gone = await watched.next()
            assert (gone.folder, len(gone.removed)) == ("gone", files)
            assert "is gone" in watched.watcher.coverage
            (tmp_path / "elsewhere").rename(root)
            back = await watched.next()
            assert (back.folder, len(back.added)) == ("back", files)
        await watched.only_the_mark()


@pytest.mark.skipif(sys.platform != "linux", reason="there are no watches of single folders")
@pytest.mark.parametrize("lacks", ["watches", "room", "its folder"])
async def test_a_command_is_waited_for_where_no_mark_can_be_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    from watchdog.observers.inotify_c import InotifyFD

    def refuse(*arguments: object, **options: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "work").mkdir()
    async with watching(tmp_path / "work") as here:
        if lacks == "its folder":
            async with here.watcher.claim():
                here.write("before", "1\n")
            (mark,) = [each for each in tmp_path.iterdir() if each.name.startswith("hermes-watch-")]
            shutil.rmtree(mark)
        elif lacks == "watches":
            monkeypatch.setattr(InotifyFD, "add_callback", refuse)
        else:
            monkeypatch.setattr("agent.workspace.fs_events.Path.touch", refuse)
        for name in ("a", "b"):
            async with here.watcher.claim():
                here.write(name, "by a command\n")
        here.write("c", "by a person\n")
        # Without a mark, word of the commands may be so late that it counts as a person's.
        while "c" not in (await here.next()).added:
            pass
    assert [each.name for each in tmp_path.iterdir()] == ["work"]
