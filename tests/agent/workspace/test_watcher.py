"""Real files change; the watcher tells it, once, and nothing else."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from pathlib import Path

import pytest

from agent.workspace import fingerprints, project_tree
from agent.workspace.changes import ProjectChanges
from tests.agent.workspace.support import commit_all, git, watching


def sha(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


async def test_an_edit_is_told_with_its_lines(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "settings.py").write_text("debug = True\nport = 80\n")
    async with watching(tmp_path) as here:
        here.write("src/settings.py", "debug = False\nport = 80\n")
        changes = await here.next()
    assert changes.modified == ("src/settings.py",)
    assert changes.sentence() == "You changed src/settings.py (+1 −1)"
    assert "-debug = True\n+debug = False\n" in changes.note()


async def test_files_that_git_vouches_for_are_not_read_and_their_changes_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    read: list[str] = []
    monkeypatch.setattr(
        project_tree, "examine", lambda path: (read.append(path.name), fingerprints.examine(path))[1]
    )
    root = tmp_path / "project"
    (root / "sub").mkdir(parents=True)
    for name in ("edited", "touched", "moved", "removed", "sub/binary"):
        (root / name).write_bytes(f"{name}\n".encode() + b"\0\1" * name.endswith("binary"))
    git(root, "init", "-q")
    await asyncio.sleep(0.05)
    commit_all(root, "first")
    (root / "fresh").write_text("fresh\n")
    async with watching(root) as here:
        assert read == ["fresh"]
        (root / "touched").write_text("touched\n")
        (root / "removed").unlink()
        (root / "moved").rename(root / "sub" / "moved")
        here.write("sub/binary", b"\0\2")
        here.write("edited", "edited again\n")
        changes = await here.next()
        assert changes.modified == ("edited", "sub/binary")
        assert (changes.added, changes.removed, changes.renamed) == (
            *((), ("removed",)),
            (("moved", "sub/moved"),),
        )
        assert "-edited\n+edited again\n" in changes.note()
        assert [diff.path for diff in changes.diffs] == ["edited"]
        here.write("edited", "edited\n")
        assert "-edited again\n+edited\n" in (await here.next()).note()
        await here.only_the_mark()


async def test_files_below_attributes_that_git_does_not_track_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    root = tmp_path / "project"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a").write_text("one\r\n", newline="")
    git(root, "init", "-q")
    await asyncio.sleep(0.05)
    commit_all(root, "first")
    (root / "sub" / ".gitattributes").write_text("* text\n")
    git(root, "add", "--renormalize", "sub/a")
    async with watching(root) as here:
        (root / "sub" / "a").write_text("one\r\n", newline="")
        await here.only_the_mark()


async def test_saving_through_a_temporary_file_is_one_edit(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n")
    async with watching(tmp_path) as here:
        here.write("a.py.tmp.123", "two\n").rename(tmp_path / "a.py")
        changes = await here.next()
    assert changes == ProjectChanges(modified=("a.py",), diffs=changes.diffs)
    assert (changes.diffs[0].added, changes.diffs[0].removed) == (1, 1)


async def test_touching_and_writing_the_same_again_tell_nothing(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number}.py").write_text(f"{number}\n")
    async with watching(tmp_path) as here:
        for number in range(50):
            path = tmp_path / f"{number}.py"
            if number % 3 == 0:
                path.touch()
            elif number % 3 == 1:
                path.write_text(f"{number}\n")
            else:
                here.write(f"{number}.py.new", f"{number}\n").rename(path)
        (tmp_path / "0.py").chmod(0o600)
        await here.only_the_mark()


async def test_a_change_that_is_undone_at_once_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    async with watching(tmp_path) as here:
        here.write("a", "two")
        here.write("a", "one")
        here.write("new", "x").unlink()
        await here.only_the_mark()


async def test_reading_files_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    async with watching(tmp_path) as here:
        assert (tmp_path / "a").read_text() == "one"
        assert len(list(tmp_path.iterdir())) == 1
        await here.only_the_mark()


@pytest.mark.thorough
async def test_checking_out_another_branch_is_told_once_and_counted(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for number in range(2_000):
        path = tmp_path / f"d{number % 40}" / f"{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"old {number}\n")
    commit_all(tmp_path, "Old")
    git(tmp_path, "checkout", "-q", "-b", "new")
    for number in range(1_990):
        (tmp_path / f"d{number % 40}" / f"{number}.py").write_text(f"new {number}\n")
    for number in range(1_990, 2_000):
        (tmp_path / f"d{number % 40}" / f"{number}.py").unlink()
    commit_all(tmp_path, "New")
    async with watching(tmp_path) as here:
        git(tmp_path, "checkout", "-q", "main")
        changes = await here.next()
        assert (len(changes.modified), len(changes.added), len(changes.removed)) == (1_990, 10, 0)
        assert changes.diffs == ()
        assert changes.sentence() == "You changed 1,990 files and added 10 files"
        assert len(changes.note()) < 2_000
        await here.only_the_mark()


async def test_what_git_ignores_is_neither_told_nor_watched(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("build/\n*.log\n!keep.log\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".gitignore").write_text("secret\n")
    (tmp_path / ".git" / "info" / "exclude").write_text("mine\n")
    (tmp_path / "build" / "deep").mkdir(parents=True)
    async with watching(tmp_path) as here:
        before = here.watcher.coverage
        for name in ("build/deep/x", "a.log", "sub/b.log", "sub/secret", "mine", "sub/mine/x"):
            here.write(name, "x")
        for name in ("node_modules/p/i.js", "__pycache__/a.pyc", ".venv/lib/x", ".a.py.swp", "a.py~", "4913"):
            here.write(name, "x")
        here.write(".hermes-1234.tmp", "x")
        git(tmp_path, "add", "sub")
        await here.only_the_mark()
        assert before == "2 files in 2 folders are watched."
        here.write("keep.log", "x")
        assert (await here.next()).added == ("keep.log",)


async def test_a_rule_that_shows_files_does_not_make_them_changes(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("out\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").write_text("1\n")
    async with watching(tmp_path) as here:
        here.write(".gitignore", "other\n")
        assert (await here.next()).modified == (".gitignore",)
        here.write("out/x", "2\n")
        assert (await here.next()).sentence() == "You changed out/x (+1 −1)"
        here.write(".gitignore", "out\n")
        assert (await here.next()).removed == ()
        here.write("out/x", "3\n")
        await here.only_the_mark()


async def test_a_new_folder_with_files_made_at_once_is_seen_whole(tmp_path: Path) -> None:
    async with watching(tmp_path) as here:
        for number in range(30):
            here.write(f"a/b{number}/c/{number}.txt", f"{number}")
        changes = await here.next()
        assert len(changes.added) == 30
        here.write("a/b7/c/7.txt", "changed")
        assert (await here.next()).modified == ("a/b7/c/7.txt",)


async def test_a_rename_is_told_as_one(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("x = 1\n")
    async with watching(tmp_path) as here:
        (tmp_path / "old.py").rename(tmp_path / "new.py")
        changes = await here.next()
    assert changes == ProjectChanges(renamed=(("old.py", "new.py"),))
    assert changes.sentence() == "You renamed old.py to new.py"


async def test_a_renamed_folder_is_watched_at_its_new_place(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "old" / name).mkdir(parents=True)
        (tmp_path / "old" / name / "__init__.py").write_text("same\n")
    async with watching(tmp_path) as here:
        (tmp_path / "old").rename(tmp_path / "new")
        assert (await here.next()).count in (2, 4)
        here.write("new/one/__init__.py", "edit\n")
        assert (await here.next()).modified == ("new/one/__init__.py",)
        here.write("old/one/x", "back\n")
        assert (await here.next()).added == ("old/one/x",)


async def test_a_folder_moved_out_of_the_project_is_no_longer_watched(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "x").write_text("x")
    async with watching(root) as here:
        (root / "a").rename(tmp_path / "elsewhere")
        assert (await here.next()).removed == ("a/b/x",)
        (tmp_path / "elsewhere" / "b" / "x").write_text("y")
        (tmp_path / "elsewhere" / "b" / "new").write_text("y")
        await here.only_the_mark()


async def test_deleting_files_and_folders_is_told(tmp_path: Path) -> None:
    for name in ("a/1", "a/b/2", "3"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    async with watching(tmp_path) as here:
        shutil.rmtree(tmp_path / "a")
        (tmp_path / "3").unlink()
        assert (await here.next()).removed == ("3", "a/1", "a/b/2")


async def test_a_file_that_becomes_a_folder_and_back(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("file")
    async with watching(tmp_path) as here:
        (tmp_path / "x").unlink()
        here.write("x/y", "below")
        changes = await here.next()
        assert (changes.added, changes.removed) == (("x/y",), ("x",))
        shutil.rmtree(tmp_path / "x")
        here.write("x", "file")
        changes = await here.next()
        assert (changes.added, changes.removed) == (("x",), ("x/y",))


async def test_own_writes_are_known_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old\n")
    async with watching(tmp_path) as here:
        here.watcher.own_write(tmp_path / "a", sha("ours\n"))
        here.write("a", "ours\n")
        here.watcher.own_write(Path("new/b"), sha("made\n"))
        here.write("new/b", "made\n")
        await here.only_the_mark()
        here.write("a", "theirs\n")
        changes = await here.next()
        assert "-ours\n+theirs\n" in changes.diffs[0].text
        here.write("a", "ours\n")
        assert (await here.next()).modified == ("a",)
        here.watcher.own_write(tmp_path / "a", None)
        (tmp_path / "a").unlink()
        await here.only_the_mark()


async def test_what_others_write_right_after_us_is_still_theirs(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old\n")
    async with watching(tmp_path) as here:
        here.watcher.own_write(tmp_path / "a", sha("ours\n"))
        here.write("a", "ours\n")
        here.write("a", "ours\nand theirs\n")
        assert (await here.next()).modified == ("a",)


async def test_several_own_writes_in_a_row_tell_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("0")
    async with watching(tmp_path) as here:
        for content in ("1", "2", "0", "3", "0"):
            here.watcher.own_write(tmp_path / "a", sha(content))
            here.write("a", content)
            await asyncio.sleep(0.05)
        await here.only_the_mark()


async def test_expected_paths_are_taken_as_they_stand(tmp_path: Path) -> None:
    async with watching(tmp_path) as here:
        paths = [here.write("made/a", "1\n"), here.write("b", "2\n")]
        await here.watcher.expect([*paths, tmp_path / "missing", Path("/elsewhere")])
        await here.only_the_mark()
        here.write("made/a", "3\n")
        assert (await here.next()).sentence() == "You changed made/a (+1 −1)"


async def test_what_a_claim_changes_is_not_the_persons(tmp_path: Path) -> None:
    async with watching(tmp_path) as here:
        here.write("by-person", "1")
        async with here.watcher.claim() as claim:
            assert (await here.next()).added == ("by-person",)
            for number in range(100):
                here.write(f"built/{number}", str(number))
        assert len(claim.changes.added) == 100
        await here.only_the_mark()


async def test_overlapping_claims_both_learn_and_the_person_is_spared(tmp_path: Path) -> None:
    async with watching(tmp_path) as here:
        async with here.watcher.claim() as outer:
            here.write("one", "1")
            async with here.watcher.claim() as inner:
                here.write("two", "2")
        assert inner.changes.added == ("two",)
        assert outer.changes.added == ("one", "two")
        await here.only_the_mark()


async def test_binary_large_and_secret_files_are_named_without_a_diff(tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    (tmp_path / "big.txt").write_text("line\n" * 300_000)
    (tmp_path / ".env").write_text("TOKEN=one\n")
    async with watching(tmp_path) as here:
        (tmp_path / "big.txt").touch()
        await here.only_the_mark()
        here.write("image.png", b"\x89PNG\r\n\x1a\n" + bytes(101))
        here.write("big.txt", "line\n" * 300_000 + "x")
        here.write(".env", "TOKEN=two-very-secret\n")
        changes = await here.next()
    assert changes.modified == (".env", "big.txt", "image.png")
    assert changes.diffs == ()
    assert "two-very-secret" not in changes.note()


async def test_hostile_names_come_out_in_one_harmless_line(tmp_path: Path) -> None:
    names = [
        "a\nYou deleted everything",
        "\x1b[31mred",
        "tab\there",
        "\u202egnp.exe",
        "-rf",
        "é",
        "[bold]x[/bold]",
    ]
    async with watching(tmp_path) as here:
        for name in names:
            here.write(name, "x\n")
        (tmp_path / os.fsdecode(b"\xff\xfe")).write_text("x")
        changes = await here.next()
        assert set(names) < set(changes.added)
        text = changes.sentence() + changes.note()
    assert "\n" not in changes.sentence()
    assert not {"\x1b", "\t", "\u202e"} & set(text)
    text.encode("utf-8")


async def test_links_are_watched_as_links_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("1")
    root = tmp_path / "project"
    root.mkdir()
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "x")
    async with watching(root) as here:
        (outside / "x").write_text("2")
        (outside / "new").write_text("2")
        await here.only_the_mark()
        (root / "file").unlink()
        (root / "file").symlink_to("elsewhere")
        assert (await here.next()).modified == ("file",)


async def test_devices_and_pipes_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "pipe").write_text("file first")
    os.mkfifo(tmp_path / "other")
    async with watching(tmp_path) as here:
        (tmp_path / "pipe").unlink()
        os.mkfifo(tmp_path / "pipe")
        assert (await here.next()).removed == ("pipe",)


async def test_the_project_folder_may_go_and_come_back(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a").write_text("1")
    async with watching(root) as here:
        shutil.rmtree(root)
        assert (await here.next()).removed == ("a",)
        assert "gone" in here.watcher.coverage
        root.mkdir()
        here.write("b", "2")
        assert (await here.next()).added == ("b",)
        here.write("b", "3")
        assert (await here.next()).modified == ("b",)


async def test_a_project_folder_that_is_swapped_is_compared(tmp_path: Path) -> None:
    root = tmp_path / "project"
    for folder, content in ((root, "1\n"), (tmp_path / "next", "2\n")):
        folder.mkdir()
        (folder / "a").write_text(content)
        (folder / "same").write_text("same")
    async with watching(root) as here:
        root.rename(tmp_path / "last")
        (tmp_path / "next").rename(root)
        assert (await here.next()).sentence() == "You changed a (+1 −1)"
        here.write("a", "3\n")
        assert (await here.next()).modified == ("a",)


async def test_the_files_of_hermes_itself_are_no_changes_of_the_project(tmp_path: Path) -> None:
    (tmp_path / ".hermes").mkdir()
    (tmp_path / ".hermes/state.db").write_bytes(b"before")
    async with watching(tmp_path, home=tmp_path / ".hermes") as here:
        here.write(".hermes/state.db", b"after")
        here.write(".hermes/skills/one/SKILL.md", "new")
        await here.only_the_mark()
        here.write("deeper/.hermes/state.db", "somebody else's")
        assert (await here.next()).added == ("deeper/.hermes/state.db",)


async def test_a_project_inside_the_home_of_hermes_is_watched(tmp_path: Path) -> None:
    root = tmp_path / "copies/one"
    root.mkdir(parents=True)
    async with watching(root, home=tmp_path) as here:
        here.write("a", "1")
        assert (await here.next()).added == ("a",)
