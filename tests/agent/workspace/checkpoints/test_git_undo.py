"""What commands do to a repository is taken back byte for byte, reflogs and objects included."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.workspace.checkpoints.coverage import (
    ABOVE,
    ELSEWHERE,
    NO_REPOSITORY,
    UNKEPT,
    GitCoverage,
    git_coverage,
)
from agent.workspace.checkpoints.entries import Coverage, LeftOut
from agent.workspace.checkpoints.git_keep import GitKeep, tidy, without_repository
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.restore.apply import Restored, apply_restore
from agent.workspace.checkpoints.restore.git_group import AT_WORK
from agent.workspace.checkpoints.restore.plan import plan_back
from agent.workspace.checkpoints.restore.ref_plan import CHANGED_SINCE, Choice, Way
from tests.agent.workspace.checkpoints.conftest import LIMITS, Open, command
from tests.agent.workspace.checkpoints.restore.trees import taken_back

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
CLEAR = "git reflog expire --expire=now --all && git gc -q --prune=now"


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=root, env=ENVIRONMENT, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture(autouse=True)
def plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of the machine play a part, and commits have an author."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def repository(root: Path) -> Path:
    """Three commits on main, a branch beside it, a stash, a tag, something staged and something loose."""
    git(root, "init", "-q", "-b", "main")
    for number in range(3):
        (root / f"file{number}").write_text(f"text {number}\n")
        git(root, "add", "-A")
        git(root, "commit", "-qm", f"commit {number}")
    git(root, "checkout", "-q", "-b", "topic", "HEAD~1")
    (root / "topic").write_text("on the branch\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "topic")
    git(root, "checkout", "-q", "main")
    git(root, "tag", "-a", "v1", "-m", "one")
    (root / "file0").write_text("stashed\n")
    git(root, "stash", "-q")
    (root / "file1").write_text("staged\n")
    git(root, "add", "file1")
    (root / "file2").write_text("changed, not staged\n")
    (root / "untracked").write_text("mine\n")
    return root


def standing(root: Path) -> dict[str, bytes]:
    """Everything below the workspace but objects, byte for byte; folders as empty ones."""
    found: dict[str, bytes] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if ".git/objects" not in name:
            found[name] = path.read_bytes() if path.is_file() else b"/"
    return found


async def opened_at(make: Open, line: str = "session") -> StepRecorder:
    recorder = make(line=line)
    recorder.start()
    await recorder.ready()
    # What was written within a tick of the clock is read again by every look.
    await asyncio.sleep(0.06)
    return recorder


async def back(recorder: StepRecorder, position: int, choice: Way | None = None) -> Restored:
    line, objects = recorder.store.line("session"), recorder.store.objects
    plan = await recorder.run(lambda: plan_back(line, recorder.root, position, objects, limit=LIMITS.file))
    choices: dict[str, Choice] = {item.path: choice for item in plan.having("conflict")} if choice else {}
    return await recorder.restore(plan, choices, session="session", label="back")


SUBMODULE = "git -c protocol.file.allow=always submodule -q add ./ sub && git commit -qm sub"
UNDONE = {
    "reset": "git reset -q --hard HEAD~2",
    "checkout of a file": "git checkout -q -- file2",
    "checkout of a branch": "git stash -q && git checkout -q topic",
    "new branch": "git checkout -q -b other/deep && git commit -qm on-it",
    "rebase": "git commit -qam all && git rebase -q topic",
    "rebase that stops": "git stash -q; echo x >topic; git add topic; git commit -qm x; git rebase -q topic",
    "merge": "git commit -qam all && git merge -q topic -m both",
    "deleted branch": "git branch -q -D topic",
    "dropped stash": "git stash drop -q",
    "cleared stash": "git stash -q && git stash clear",
    "amended": "git commit -q --amend -m other",
    "clean": "git clean -qfdx",
    "tag moved": "git tag -f v1 HEAD~1 && git tag v2",
    "settings and hooks": "git config a.b c; cd .git/hooks; echo 'echo no' >pre-commit; chmod +x pre-commit",
    "packed refs": "git pack-refs --all --prune && git update-ref -d refs/heads/topic",
    "all history": f"git reset -q --hard HEAD~2; git branch -q -D topic; git stash clear; {CLEAR}",
    "work tree": "git worktree add -q ../beside topic",
    "a branch in the place of another": "git branch -q -D topic && git branch topic/deep",
    "submodule": SUBMODULE,
    "repository": "rm -rf .git",
    "everything": "rm -rf .git *",
}


@pytest.mark.thorough
@pytest.mark.parametrize("text", UNDONE.values(), ids=UNDONE)
async def test_what_git_did_is_undone_byte_for_byte(opened: Open, repository: Path, text: str) -> None:
    before = standing(repository)
    recorder = await opened_at(opened)
    assert recorder.coverage().complete
    step = await command(recorder, text)
    assert step is not None and step.coverage.complete
    after = standing(repository)
    assert after != before
    # Whatever is unreachable now is cleared away by somebody.
    if (repository / ".git").exists():
        git(repository, "-c", "gc.pruneExpire=now", "gc", "-q", "--prune=now")
        for name in standing(repository).keys() - after.keys():
            (repository / name).unlink()
        for name, data in after.items():
            if data != b"/":
                (repository / name).parent.mkdir(exist_ok=True, parents=True)
                (repository / name).write_bytes(data)
    done = await back(recorder, 0, "checkpoint")
    assert done.skipped == ()
    assert standing(repository) == before
    assert not git(repository, "fsck", "--full", "--strict", "--no-dangling").strip()
    git(repository, "log", "--all", "--stat")
    git(repository, "stash", "show", "-p")
    assert git(repository, "for-each-ref").count("\n") == 4
    again = await back(recorder, step.number)
    assert again.skipped == () and standing(repository) == after


async def test_a_commit_of_the_person_is_a_conflict_of_the_repository_as_a_whole(
    opened: Open, repository: Path
) -> None:
    recorder = await opened_at(opened)
    await command(recorder, "git commit -qam ours; echo ours >loose")
    git(repository, "commit", "-q", "--allow-empty", "-m", "theirs")
    theirs = git(repository, "rev-parse", "HEAD")
    done = await back(recorder, 0)
    assert [(item.path, item.reason.partition(" (")[0]) for item in done.skipped] == [(".git", CHANGED_SINCE)]
    assert git(repository, "rev-parse", "HEAD") == theirs
    assert not (repository / "loose").exists()
    assert git(repository, "status", "--porcelain", "--untracked-files=no") == ""
    done = await back(recorder, 0, "checkpoint")
    assert done.skipped == () and "theirs" not in git(repository, "log", "--format=%s")
    await back(recorder, recorder.position - 1)
    assert git(repository, "rev-parse", "HEAD") == theirs


async def test_a_commit_in_a_submodule_keeps_all_that_the_step_made_of_it(
    opened: Open, repository: Path
) -> None:
    recorder = await opened_at(opened)
    await command(recorder, SUBMODULE)
    git(repository / "sub", "commit", "-q", "--allow-empty", "-m", "theirs")
    done = await back(recorder, 0)
    assert [item.path for item in done.skipped] == [".git"]
    assert "theirs" in git(repository / "sub", "log", "-1", "--format=%s")
    assert not git(repository / "sub", "fsck", "--no-dangling").strip()


async def test_a_shallow_clone_is_one_again_without_the_graph_of_what_was_fetched(
    opened: Open, root: Path, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q", "lender")
    for name in ("one", "two"):
        git(tmp_path / "lender", "commit", "-q", "--allow-empty", "-m", name)
    git(root, "clone", "-q", "--depth=1", f"file://{tmp_path}/lender", ".")
    recorder = await opened_at(opened)
    await command(recorder, "git fetch -q --unshallow")
    git(root, "commit-graph", "write", "--reachable")
    assert (await back(recorder, 0)).skipped == ()
    assert git(root, "rev-parse", "--is-shallow-repository").strip() == "true"
    assert not git(root, "fsck", "--no-dangling").strip()


async def test_a_repository_that_comes_again_has_its_log_whatever_was_added_between(
    opened: Open, repository: Path
) -> None:
    recorder = await opened_at(opened)
    log = (repository / ".git" / "logs" / "HEAD").read_bytes()
    step = await command(recorder, "rm -rf .git")
    assert step is not None
    await back(recorder, 0)
    git(repository, "checkout", "-q", "--detach")
    git(repository, "checkout", "-q", "main")
    await back(recorder, step.number)
    await back(recorder, 0)
    assert (repository / ".git" / "logs" / "HEAD").read_bytes().startswith(log)


@pytest.mark.parametrize(
    "text",
    [
        "git submodule -q deinit -f sub; git rm -q sub; rm -rf .git/modules/sub; git commit -qm none",
        "git init -q --separate-git-dir=beside",
    ],
)
async def test_objects_go_and_come_with_each_repository(opened: Open, repository: Path, text: str) -> None:
    subprocess.run(["sh", "-c", SUBMODULE], cwd=repository, check=True)
    before = standing(repository)
    recorder = await opened_at(opened)
    step = await command(recorder, text)
    after = standing(repository)
    assert step is not None and (await back(recorder, 0)).skipped == ()
    assert standing(repository) == before
    assert not git(repository / "sub", "fsck", "--no-dangling").strip()
    assert (await back(recorder, step.number)).skipped == ()
    assert standing(repository) == after
    assert not git(repository, "fsck", "--no-dangling").strip()


async def test_a_look_at_the_status_is_no_step_and_no_conflict(opened: Open, repository: Path) -> None:
    recorder = await opened_at(opened)
    assert await command(recorder, "touch file0; git status") is None
    assert await command(recorder, "touch file1; git status", "c2") is None
    await command(recorder, "git commit -qam ours", "c3")
    git(repository, "status")
    os.utime(repository / "file1")
    git(repository, "status")
    assert (await back(recorder, 0)).skipped == ()
    assert "ours" not in git(repository, "log", "--format=%s")


LOCKING = """
import os, signal, sys, time
from pathlib import Path
from agent.workspace.checkpoints.entries import PathEntry, PathKind
from agent.workspace.checkpoints.restore.git_group import at_rest
from agent.workspace.checkpoints.restore.path_replacement import Move
from agent.workspace.checkpoints.units import Units

entry = PathEntry(PathKind.FILE, 0o644, 0, 0)
locks = lambda: at_rest(Path(sys.argv[1]), [Move(".git/HEAD", entry, entry)], Units(), "token")
for number in range(40):
    with locks() as busy:
        # What the kill before this left is taken over.
        assert not busy, (number, busy)
    if not (child := os.fork()):
        while True:
            with locks():
                pass
    time.sleep(0.003 + number / 10_000)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


def test_locks_of_a_restore_are_taken_over_wherever_it_was_killed(repository: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LOCKING, repository], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


async def test_git_at_work_is_waited_for(opened: Open, repository: Path) -> None:
    recorder = await opened_at(opened)
    await command(recorder, "git commit -qam ours; echo x >loose")
    after = standing(repository)
    lock = repository / ".git" / "index.lock"
    lock.write_text("")
    done = await back(recorder, 0)
    assert done.skipped == (LeftOut(".git", AT_WORK.format(".git/index.lock")),)
    lock.unlink()
    now = standing(repository)
    assert now == {name: data for name, data in after.items() if name != "loose"}
    assert (await back(recorder, 0)).skipped == ()
    assert "ours" not in git(repository, "log", "--format=%s")
    assert not list((repository / ".git").rglob("*.lock"))


async def test_commits_that_are_nowhere_are_not_gone_back_to(opened: Open, repository: Path) -> None:
    recorder = await opened_at(opened)
    await command(recorder, "git reset -q --hard HEAD~1; git tag -d v1; git stash clear")
    for place in recorder.store.borrowed_folder.glob("*/.git/objects/??/*"):
        place.unlink()
    git(repository, "reflog", "expire", "--expire=now", "--all")
    git(repository, "gc", "-q", "--prune=now")
    now = git(repository, "rev-parse", "HEAD")
    done = await back(recorder, 0, "checkpoint")
    assert ".git" in {item.path for item in done.skipped}
    assert git(repository, "rev-parse", "HEAD") == now
    git(repository, "fsck")


async def test_what_is_kept_shows_nowhere_in_git_and_takes_no_room(opened: Open, repository: Path) -> None:
    shown = git(repository, "log", "--all", "--format=%H"), git(repository, "branch", "-a")
    names = {path for path in (repository / ".git").rglob("*") if path.is_file()}
    recorder = await opened_at(opened)
    assert (git(repository, "log", "--all", "--format=%H"), git(repository, "branch", "-a")) == shown
    assert {path for path in (repository / ".git").rglob("*") if path.is_file()} == names
    held = list(recorder.store.borrowed_folder.glob("*/.git/objects/??/*"))
    assert held and all(path.stat().st_nlink == 2 for path in held)


@pytest.mark.thorough
async def test_what_another_process_left_is_finished_with_the_locks_it_held(
    opened: Open, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.workspace.checkpoints.restore import apply

    before = standing(repository)
    recorder = await opened_at(opened)
    await command(recorder, f"git reset -q --hard HEAD~2; git branch -q -D topic; git stash clear; {CLEAR}")

    class Killed(BaseException):
        """Nothing after it is run, as after `kill -9`."""

    def cut(count: int) -> None:
        moved = 0
        put = apply.Placer.place

        def dying(self: apply.Placer, move: apply.Move, number: int) -> str:
            nonlocal moved
            moved += 1
            if moved > count:
                raise Killed
            return put(self, move, number)

        monkeypatch.setattr(apply.Placer, "place", dying)

    line, objects = recorder.store.line("session"), recorder.store.objects
    plan = plan_back(line, repository, 0, objects, limit=LIMITS.file)
    cut(3)
    unlink = Path.unlink
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    with pytest.raises(Killed):
        apply_restore(plan, {}, recorder.store, "session", session="session", label="back")
    monkeypatch.setattr(Path, "unlink", unlink)
    monkeypatch.undo()
    assert os.path.lexists(repository / ".git" / "index.lock")
    (told,) = apply.finish_abandoned(recorder.store)
    assert "left as " not in told
    assert standing(repository) == before
    git(repository, "fsck", "--full")


@pytest.mark.parametrize("name", ["index", "logs/HEAD", "refs/heads/main"])
async def test_damaged_contents_neither_tear_a_repository_nor_keep_other_files(
    opened: Open, repository: Path, name: str
) -> None:
    before = standing(repository)
    recorder = await opened_at(opened)
    step = await command(recorder, "git commit -qam more; echo other >untracked")
    after = standing(repository)
    assert step is not None
    (entry,) = (change.before for change in step.changes if change.path == f".git/{name}")
    assert entry is not None
    assert entry.digest is not None
    (recorder.store.folder / "objects" / entry.digest[:2] / entry.digest).write_bytes(b"")
    restored = await back(recorder, 0)
    assert (repository / "untracked").read_text() == "mine\n"
    if name == "refs/heads/main":
        # Its value stands in the step.
        assert standing(repository) == before
    else:
        assert {**standing(repository), "untracked": b"other\n"} == after
        assert [item.path for item in restored.skipped] == [".git"]
        assert restored.step is not None
        assert [change.path for change in restored.step.changes] == ["untracked"]


@pytest.mark.thorough
async def test_objects_on_another_file_system_are_copied_or_named(
    opened: Open, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    before = standing(repository)
    recorder = await opened_at(opened)
    assert recorder.coverage().complete
    await command(recorder, f"git reset -q --hard HEAD~2; {CLEAR}")
    assert (await back(recorder, 0)).skipped == ()
    assert standing(repository) == before
    git(repository, "fsck", "--full")
    monkeypatch.setattr("agent.workspace.checkpoints.git_keep.COPIED_BYTES", 10)
    keep = GitKeep(recorder.store.borrowed_folder.parent / "other", repository / ".git" / "objects")
    for _ in keep.refresh():
        pass
    assert keep.reason == "is on another file system and is too large to be copied"


@pytest.mark.thorough
async def test_a_repository_within_another_goes_back_by_itself(opened: Open, repository: Path) -> None:
    inner = repository / "vendor" / "lib"
    inner.mkdir(parents=True)
    git(inner, "init", "-q", "-b", "main")
    (inner / "code").write_text("x")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "inner")
    before = standing(repository)
    recorder = await opened_at(opened)
    step = await command(recorder, "cd vendor/lib && git commit -q --amend -m other && git gc -q --prune=now")
    assert step is not None and step.git.startswith("git in vendor/lib: main ")
    assert (await back(recorder, 0)).skipped == ()
    assert standing(repository) == before
    git(inner, "fsck")


LINES = {
    "git commit -qam all": "git: main {0} → {1}",
    "git stash -q; git checkout -q topic": "git: on main → on topic, stash",
    "git branch -q -D topic": "git: topic gone from {2}",
    "git branch -q one; git tag two": "git: one new at {0}, 1 more ref",
    "git config a.b c": "git: settings",
    "git add -A": "git: index",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("text", LINES)
async def test_what_happened_to_git_is_one_plain_line(opened: Open, repository: Path, text: str) -> None:
    before, topic = (git(repository, "rev-parse", name)[:6] for name in ("main", "topic"))
    recorder = await opened_at(opened)
    step = await command(recorder, text)
    after = git(repository, "rev-parse", "main")[:6]
    assert step is not None and step.git == LINES[text].format(before, after, topic)
    assert recorder.store.line("session").steps()[-1].git == step.git


@pytest.mark.thorough
async def test_what_only_the_store_has_of_git_is_counted_and_goes_when_it_is_old_or_too_much(
    opened: Open, repository: Path
) -> None:
    recorder = await opened_at(opened)
    store = recorder.store
    small = store.size()
    (repository / "large").write_bytes(os.urandom(400_000))
    await command(recorder, "git add large; git commit -qm large")
    await command(recorder, f"git reset -q --hard HEAD~1; {CLEAR}", "c2")
    assert store.size() > small + 800_000  # by its bytes for undo, and by git's
    assert sum(size for _, size, _ in without_repository(store.borrowed_folder)) > 400_000
    assert tidy(store.borrowed_folder, 1_000_000, 0.0) == 0
    assert tidy(store.borrowed_folder, 100_000, 0.0) > 300_000
    assert sum(size for _, size, _ in without_repository(store.borrowed_folder)) <= 100_000
    tidy(store.borrowed_folder, 1_000_000, time.time() + 10)
    assert list(store.borrowed_folder.iterdir()) == []


async def test_what_undo_covers_of_git_is_one_fact(opened: Open, repository: Path, tmp_path: Path) -> None:
    (repository / "sub").mkdir()
    git(repository, "worktree", "add", "-q", str(tmp_path / "beside"), "topic")
    assert git_coverage(repository, repository, None).reason == UNKEPT
    recorder = opened()
    assert recorder.git_coverage(repository) == GitCoverage(
        state=False, history=False, reason="the workspace was still being read"
    )
    recorder.start()
    await recorder.ready()
    whole = GitCoverage(state=True, history=True)
    assert recorder.git_coverage(repository) == recorder.git_coverage(repository / "sub") == whole
    assert whole.whole
    full = Coverage()
    assert git_coverage(repository / "sub", repository / "sub", full).reason == ABOVE
    assert git_coverage(tmp_path / "beside", tmp_path / "beside", full).reason == ELSEWHERE
    assert git_coverage(tmp_path, tmp_path / "home", full).reason == NO_REPOSITORY
    lost = Coverage((LeftOut(".git/objects", "borrows objects from another repository, which are not kept"),))
    assert git_coverage(repository, repository, lost) == GitCoverage(
        state=True,
        history=False,
        reason="its history borrows objects from another repository, which are not kept",
    )
    assert not git_coverage(repository, repository, Coverage((LeftOut(".git/config", "is a pipe"),))).whole


@pytest.mark.thorough
async def test_what_git_packs_anew_is_not_kept_twice(opened: Open, repository: Path) -> None:
    recorder = await opened_at(opened)
    for number in range(2):
        step = await command(recorder, f"git commit -q --allow-empty -m {number}; git gc -q", f"c{number}")
        assert step is not None
    held = list(without_repository(recorder.store.borrowed_folder))
    assert held == []
    await command(recorder, f"git reset -q --hard HEAD~1; {CLEAR}", "c2")
    held = list(without_repository(recorder.store.borrowed_folder))
    assert {path.suffix for _, _, path in held} == {".pack", ".idx"}
    assert (await back(recorder, 2)).skipped == ()
    git(repository, "fsck", "--full")
    assert git(repository, "log", "-1", "--format=%s") == "1\n"


@pytest.mark.thorough
async def test_looks_between_going_back_and_forth_keep_nothing_from_going_back_again(
    opened: Open, repository: Path
) -> None:
    recorder = opened()
    recorder.start()
    await recorder.ready()
    before = git(repository, "status", "--porcelain=v2"), git(repository, "rev-parse", "HEAD")
    step = await command(recorder, "git commit -qam more; git checkout -q topic")
    assert step is not None
    after = git(repository, "status", "--porcelain=v2"), git(repository, "rev-parse", "HEAD")
    for position, wanted in ((0, before), (step.number, after), (0, before), (step.number, after)):
        assert taken_back(recorder, position).skipped == ()
        # A prompt does that each time, and git writes its index again.
        assert (git(repository, "status", "--porcelain=v2"), git(repository, "rev-parse", "HEAD")) == wanted


@pytest.mark.thorough
async def test_a_command_that_was_cut_off_goes_back_with_the_steps_before_it(
    opened: Open, repository: Path
) -> None:
    recorder = opened()
    recorder.start()
    await recorder.ready()
    head = git(repository, "rev-parse", "HEAD")
    assert await command(recorder, "git commit -qam more; echo x >new; git tag -d v1") is not None
    # The process is killed in the next command: nobody wrote down what it knew.
    git(repository, "commit", "-q", "--amend", "-m", "other")
    (repository / "new").unlink()
    later = opened()
    later.start("cut", "what was cut off")
    await later.ready()
    cut = later.store.line("session").steps()[-1]
    assert {"new", ".git/logs/HEAD"} <= {change.path for change in cut.changes}
    assert cut.units[".git"].refs["refs/heads/main"][0] != head.strip()
    assert taken_back(later, 1).skipped == ()
    assert (repository / "new").read_text() == "x\n"
    assert taken_back(later, 0).skipped == ()
    assert (git(repository, "rev-parse", "HEAD"), git(repository, "tag")) == (head, "v1\n")
    assert git(repository, "fsck", "--no-dangling") == ""
