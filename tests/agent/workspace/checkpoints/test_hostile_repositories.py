"""Nothing that a repository names is run, and no index can hurt, whatever stands in `.git`."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.workspace.checkpoints.git_index import MAX_NAME, parse_index, read_index
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.restore.apply import apply_restore
from agent.workspace.checkpoints.restore.plan import plan_restore
from tests.agent.workspace.checkpoints.conftest import LIMITS, Open, command
from tests.agent.workspace.checkpoints.torture import git

HOOKS = ("post-checkout", "pre-commit", "post-index-change", "fsmonitor-watchman", "reference-transaction")
CONFIG = """
[core]
	fsmonitor = {canary}
	hooksPath = {hooks}
	pager = {canary}
	editor = {canary}
	sshCommand = {canary}
	askPass = {canary}
	gitProxy = {canary}
	alternateRefsCommand = {canary}
	attributesFile = {attributes}
	worktree = {outside}
[filter "bad"]
	clean = {canary}
	smudge = {canary}
	process = {canary}
	required = true
[diff "bad"]
	command = {canary}
	textconv = {canary}
[diff]
	external = {canary}
[merge "bad"]
	driver = {canary}
[gpg]
	program = {canary}
[credential]
	helper = !{canary}
[uploadpack]
	packObjectsHook = {canary}
[include]
	path = {included}
[includeIf "gitdir:**"]
	path = {included}
[remote "origin"]
	url = ext::{canary}
	promisor = true
	partialclonefilter = blob:none
[extensions]
	partialClone = origin
[alias]
	cat-file = !{canary}
	config = !{canary}
"""


def hostile(root: Path, place: Path) -> Path:
    """A repository that would run a program at every chance; returns the file that this program leaves."""
    place.mkdir()
    trace, canary = place / "trace", place / "canary"
    canary.write_text(f"#!/bin/sh\necho ran >>{trace}\n")
    canary.chmod(0o755)
    (place / "hooks").mkdir()
    for hook in HOOKS:
        shutil.copy(canary, place / "hooks" / hook)
    (place / "attributes").write_text("* filter=bad diff=bad merge=bad\n")
    (place / "included").write_text(f"[core]\n\tfsmonitor = {canary}\n\tpager = {canary}\n")
    git(root, "init", "-q")
    for number in range(5):
        (root / f"file{number}").write_text(f"text {number}\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    (root / ".gitattributes").write_text("* filter=bad diff=bad merge=bad\n")
    for hook in HOOKS:
        shutil.copy(canary, root / ".git" / "hooks" / hook)
    settings = {
        "canary": canary,
        "hooks": place / "hooks",
        "attributes": place / "attributes",
        "included": place / "included",
        "outside": place,
    }
    with (root / ".git" / "config").open("a") as file:
        file.write(CONFIG.format_map(settings))
    (root / ".git" / "info" / "attributes").write_text("* filter=bad diff=bad\n")
    return trace


async def round_trip(recorder: StepRecorder, text: str = "rm -f file*; echo x >new") -> None:
    """Record a command, take it back, and take that back."""
    recorder.start()
    await recorder.ready()
    recorder.coverage()
    await command(recorder, text)
    for _ in range(2):
        steps = recorder.store.line("session").steps()
        plan = plan_restore(
            recorder.root, steps, recorder.position - 1, recorder.store.objects, limit=LIMITS.file
        )
        done = await recorder.run(
            lambda plan=plan: apply_restore(plan, {}, recorder.store, "session", session="s", label="back")
        )
        await recorder.adopt(change.path for change in (done.step.changes if done.step else ()))
    await recorder.stop()


async def test_a_repository_that_names_programs_everywhere_runs_none(
    opened: Open, root: Path, tmp_path: Path
) -> None:
    trace = hostile(root, tmp_path / "place")
    subprocess.run(["git", "status"], cwd=root, capture_output=True, check=False)
    assert trace.exists(), "the repository is not hostile enough: git itself runs nothing"
    trace.unlink()
    await round_trip(opened())
    assert not trace.exists()


def _pointer(root: Path, place: Path) -> None:
    shutil.move(root / ".git", place / "elsewhere")
    (root / ".git").write_text(f"gitdir: {place / 'elsewhere'}\n")


def _link(root: Path, place: Path) -> None:
    shutil.move(root / ".git", place / "elsewhere")
    (root / ".git").symlink_to(place / "elsewhere")


def _looped(root: Path, _: Path) -> None:
    shutil.rmtree(root / ".git")
    (root / ".git").symlink_to(".git")


def _pipes(root: Path, _: Path) -> None:
    for name in ("config", "HEAD", "index"):
        (root / ".git" / name).unlink()
        os.mkfifo(root / ".git" / name)


def _pipe(root: Path, _: Path) -> None:
    shutil.rmtree(root / ".git")
    os.mkfifo(root / ".git")


def _common(root: Path, place: Path) -> None:
    (place / "common").mkdir()
    (root / ".git" / "commondir").write_text(f"{place / 'common'}\n")
    os.mkfifo(place / "common" / "config")


def _alternates(root: Path, place: Path) -> None:
    other = place / "other"
    shutil.move(root / ".git" / "objects", other)
    (root / ".git" / "objects" / "info").mkdir(parents=True)
    (root / ".git" / "objects" / "info" / "alternates").write_text(
        f"{other}\n/dev/zero\n{root}/.git/objects\n"
    )


def _replaced(root: Path, _: Path) -> None:
    def written(text: bytes) -> str:
        command = ["git", "-c", "core.fsmonitor=false", "hash-object", "-w", "--stdin", "--no-filters"]
        done = subprocess.run(command, cwd=root, input=text, capture_output=True, check=True)
        return done.stdout.decode().strip()

    refs = root / ".git" / "refs" / "replace"
    refs.mkdir()
    for number in range(5):
        old = written(f"text {number}\n".encode())
        (refs / old).write_text(written(b"something else\n") + "\n")


def _lying(root: Path, _: Path) -> None:
    for number in range(5):
        file = root / f"file{number}"
        status = file.stat()
        # The index was made for these files; others take their place with the same times.
        file.write_text(f"TEXT {number}\n")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def _objectless(root: Path, _: Path) -> None:
    shutil.rmtree(root / ".git" / "objects")
    (root / ".git" / "objects").mkdir()


TRICKS = [_pointer, _link, _looped, _pipes, _pipe, _common, _alternates, _replaced, _lying, _objectless]


@pytest.mark.sample(1)
@pytest.mark.parametrize("trick", TRICKS)
async def test_tricks_with_git_folders_cost_no_byte_and_run_nothing(
    opened: Open, root: Path, tmp_path: Path, trick: Callable[[Path, Path], None]
) -> None:
    trace = hostile(root, tmp_path / "place")
    await asyncio.sleep(0.06)
    trick(root, tmp_path / "place")
    trace.unlink(missing_ok=True)
    earlier = {file.name: file.read_bytes() for file in root.glob("file*")}
    recorder = opened()
    async with asyncio.timeout(60):
        await round_trip(recorder)
        steps = recorder.store.line("session").steps()
        plan = plan_restore(root, steps, 0, recorder.store.objects, limit=LIMITS.file)
        apply_restore(plan, {}, recorder.store, "session", session="s", label="back")
    assert {file.name: file.read_bytes() for file in root.glob("file*")} == earlier
    assert not trace.exists()


@given(st.binary(max_size=400))
def test_any_bytes_are_an_index_or_refused(data: bytes) -> None:
    for head in (b"", b"DIRC\0\0\0\2\0\0\0\3", b"DIRC\0\0\0\3\xff\xff\xff\xff", b"DIRC\0\0\0\4\0\0\0\7"):
        try:
            assert all(0 < len(name) <= MAX_NAME for name in parse_index(head + data))
        except ValueError:
            continue


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 4), st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 255)), max_size=6))
def test_an_index_that_was_tampered_with_is_read_or_refused(version: int, places: list) -> None:
    data = bytearray(INDEXES[version])
    for place, value in places:
        data[place % len(data)] = value
    try:
        parse_index(bytes(data))
    except ValueError:
        return


def test_an_index_that_names_gigabytes_in_a_few_megabytes_is_refused() -> None:
    entry = bytes(60) + b"\0\0"
    # Each name is the one before and one letter more.
    grown = b"DIRC\0\0\0\4\0\1\0\0" + b"".join(entry + b"\0" + b"x\0" for _ in range(65_536))
    with pytest.raises(ValueError):
        parse_index(grown)
    with pytest.raises(ValueError):
        parse_index(b"DIRC\0\0\0\4\0\0\0\1" + entry + b"\xff" * 1_000_000)


def _indexes() -> dict[int, bytes]:
    import tempfile

    found: dict[int, bytes] = {}
    for version in (2, 3, 4):
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            git(root, "init", "-q")
            for number in range(6):
                (root / f"file-{number}").write_text("x")
            (root / "later").write_text("y")
            git(root, "add", "--all", ".")
            git(root, "update-index", "--skip-worktree", "file-1")
            git(root, "rm", "-q", "--cached", "later")
            git(root, "add", "--intent-to-add", "later")
            git(root, "update-index", "--index-version", str(version))
            found[version] = (root / ".git" / "index").read_bytes()
    return found


INDEXES = _indexes()


@pytest.mark.parametrize("version", [2, 3, 4])
def test_every_version_of_an_index_is_read(version: int) -> None:
    files = parse_index(INDEXES[version])
    assert sorted(files) == [*(b"file-%d" % number for number in range(6)), b"later"]
    plain = {name for name, each in files.items() if each.plain}
    assert plain == {b"file-0", b"file-2", b"file-3", b"file-4", b"file-5"}


def test_the_stamps_of_an_index_are_those_of_the_files(root: Path) -> None:
    git(root, "init", "-q")
    (root / "sub").mkdir()
    (root / "sub" / "file").write_text("x")
    git(root, "add", ".")
    assert read_index(root).files["sub/file"].describes((root / "sub" / "file").stat())
    assert read_index(root / "sub").files["file"].describes((root / "sub" / "file").stat())
    (root / "sub" / "file").write_text("y")
    assert not read_index(root).files["sub/file"].describes((root / "sub" / "file").stat())


async def test_files_that_git_vouches_for_are_at_hand_before_they_are_read(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.workspace.checkpoints.file_register import FileRegister

    git(root, "init", "-q")
    (root / "file").write_text("text")
    await asyncio.sleep(0.1)
    git(root, "add", ".")
    monkeypatch.setattr(FileRegister, "keep", lambda *_: True)
    recorder = opened()
    recorder.start()
    await recorder.ready()
    assert recorder.coverage().left_out[0].path == ".git"
    assert len(recorder.coverage().left_out) == 1
    await command(recorder, "rm file")
    (step,) = recorder.store.line("session").steps()
    before = step.changes[0].before
    assert before is not None and before.digest is not None
    assert recorder.store.objects.read(before.digest) == b"text"


@pytest.mark.parametrize("how", ["attributes", "autocrlf", "info", "global"])
async def test_git_is_not_believed_where_it_may_change_bytes(
    opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    from agent.workspace.checkpoints.git_settings import bytes_are_gits

    git(root, "init", "-q")
    (root / "file").write_text("text")
    git(root, "add", ".")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert bytes_are_gits(root, read_index(root), ["file"])
    match how:
        case "attributes":
            (root / ".gitattributes").write_text("* text\n")
        case "autocrlf":
            git(root, "config", "core.autocrlf", "input")
        case "info":
            (root / ".git" / "info").mkdir(exist_ok=True)
            (root / ".git" / "info" / "attributes").write_text("* text\n")
        case _:
            (tmp_path / ".gitconfig").write_text("[core]\n\tautocrlf = true\n")
    assert not bytes_are_gits(root, read_index(root), ["file"])


@pytest.mark.parametrize(
    ("attributes", "changes"),
    [
        ("# text\n*.png binary\n* -text diff=py linguist-generated\n*.lock -diff merge=ours\n", False),
        ("*.bin filter=lfs diff=lfs merge=lfs -text\n", True),
        ("[attr]mine ident\n", True),
        ('"a b" eol=lf\n', True),
        ("*.py\rtext\n", True),
        ("\v# text\n", True),
        ("*.py crlf=input", True),
    ],
    ids=["none", "filter", "macro", "quoted", "return", "no comment", "crlf"],
)
def test_only_attributes_that_change_bytes_cost_the_trust_in_git(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, attributes: str, changes: bool
) -> None:
    from agent.workspace.checkpoints.git_settings import bytes_are_gits

    monkeypatch.setenv("HOME", str(tmp_path))
    git(root, "init", "-q")
    (root / "sub").mkdir()
    (root / "sub" / "file").write_text("text")
    git(root, "add", ".")
    (root / "sub" / ".gitattributes").write_text(attributes, newline="")
    assert bytes_are_gits(root, read_index(root), ["sub/.gitattributes"]) is not changes
    git(root, "add", ".")
    assert bytes_are_gits(root, read_index(root), []) is not changes
    (root / "sub" / ".gitattributes").unlink()
    assert not bytes_are_gits(root, read_index(root), [])
