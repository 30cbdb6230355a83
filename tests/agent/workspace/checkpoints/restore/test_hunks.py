"""Some hunks of a file go back, the others stay, and every byte of both is as it was."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import StoreError
from agent.workspace.checkpoints.restore.hunk_restore import WholeError, divide_path
from agent.workspace.checkpoints.restore.hunks import MAX_BYTES, divide, numbers, undivided_reason
from tests.agent.workspace.checkpoints.restore.trees import Workspace
from widgets.transcript.diff import DiffHunk, read_diff

LINES = [b"a\n", b"b\n", b"\n", b"d\r\n", b"e\r", b"same\n", "ü\n".encode(), b"\xff\n", b"\x1b[K\n", b"end"]
texts = st.lists(st.sampled_from(LINES), max_size=40).map(b"".join)
LONG = [b"%d\n" % number for number in range(60)]
THEN = b"".join(LONG)
NOW = THEN.replace(b"\n5\n", b"\nfive\n").replace(b"\n25\n", b"\n").replace(b"\n45\n", b"\n45\nmore\n")


@given(texts, texts)
def test_all_hunks_give_what_stood_there_and_none_what_stands_there(now: bytes, then: bytes) -> None:
    hunks = divide(now, then)
    every = set(range(1, len(hunks) + 1))
    assert hunks.content_with(every) == then
    assert hunks.content_with(()) == now
    assert bool(len(hunks)) == (now != then)


@given(st.sets(st.integers(0, 59)))
def test_each_hunk_stands_for_itself(changed: set[int]) -> None:
    now = b"".join(b"x%d\n" % n if n in changed else line for n, line in enumerate(LONG))
    hunks = divide(now, THEN)
    for number, group in enumerate(hunks.groups, 1):
        alone = hunks.content_with({number}).splitlines(keepends=True)
        back = {at for block in group for at in range(block.a_start, block.a_stop)}
        assert alone == [
            line if n in back or n not in changed else b"x%d\n" % n for n, line in enumerate(LONG)
        ]


@given(texts, texts)
def test_the_diff_that_is_shown_has_the_same_hunks_line_for_line(now: bytes, then: bytes) -> None:
    hunks = divide(now, then)
    shown = [part for file in read_diff(hunks.diff("a")) for part in file.parts if isinstance(part, DiffHunk)]
    assert len(shown) == len(hunks)
    for part, group in zip(shown, hunks.groups, strict=True):
        signs = [line.sign for line in part.lines]
        assert signs.count("+") == sum(block.a_stop - block.a_start for block in group)
        assert signs.count("-") == sum(block.b_stop - block.b_start for block in group)


def test_the_numbers_are_those_of_the_diff_that_git_draws(tmp_path: Path) -> None:
    (tmp_path / "then").write_bytes(THEN)
    (tmp_path / "now").write_bytes(NOW)
    drawn = subprocess.run(
        ["git", "diff", "--no-index", "then", "now"], cwd=tmp_path, capture_output=True, check=False
    ).stdout
    heads = [line for line in drawn.splitlines() if line.startswith(b"@@")]
    hunks = divide(NOW, THEN)
    assert len(hunks) == len(heads) == 3
    for number, head in enumerate(heads, 1):
        start = int(head.split()[1].removeprefix(b"-").split(b",")[0])
        assert hunks.groups[number - 1][0].a_start - 3 == start - 1


def test_ends_of_lines_and_of_the_file_come_back_exactly() -> None:
    then = b"one\r\ntwo\n" + THEN + b"last"
    now = b"one\ntwo\n" + THEN + b"last\n"
    hunks = divide(now, then)
    assert hunks.content_with({1}) == b"one\r\ntwo\n" + THEN + b"last\n"
    assert hunks.content_with({2}) == b"one\ntwo\n" + THEN + b"last"
    shown = hunks.diff("a")
    assert "-one\n+one\\r\n" in shown
    assert "\\ No newline at end of file" in shown


def test_the_usual_line_end_of_a_file_is_not_spelled_out() -> None:
    then = THEN.replace(b"\n", b"\r\n")
    shown = divide(then.replace(b"\r\n5\r\n", b"\r\nfive\r\n"), then).diff("a")
    assert "-five\n+5\n" in shown


def test_what_steers_a_terminal_is_spelled_out() -> None:
    assert "\x1b" not in divide(b"\x1b]0;x\x07\rb\n", b"\x1b[2J\n").diff("a")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"a\0b", "binary"),
        ("wide\n".encode("utf-16"), "binary"),
        (b"na\xefve\n", "not written in UTF-8"),
        (b"x" * (MAX_BYTES + 1), "larger than 4 MB"),
        (b"plain\n", ""),
        (b"", ""),
    ],
)
def test_what_is_no_readable_text_is_not_parted(text: bytes, reason: str) -> None:
    assert undivided_reason(text, b"other\n") == undivided_reason(b"other\n", text) == reason


@pytest.mark.parametrize(("text", "found"), [("1", {1}), ("1,3", {1, 3}), ("2-4, 1", {1, 2, 3, 4})])
def test_numbers_of_hunks_are_read(text: str, found: set[int]) -> None:
    assert numbers(text) == found


@pytest.mark.parametrize("text", ["", "0", "a", "3-1", "1,,2", "-1", "1-", "²", "1-9999999", "99999999"])
def test_what_names_no_hunks_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not name hunks"):
        numbers(text)


def stepped(work: Workspace, now: bytes = NOW, *, mode: int = 0o644) -> Path:
    """A file that a step of ours changed."""
    path = work.root / "a.txt"
    path.write_bytes(THEN)
    before = work.state()
    path.write_bytes(now)
    path.chmod(mode)
    work.step(before)
    return path


def test_some_hunks_go_back_as_a_step_that_can_be_undone(work: Workspace) -> None:
    path = stepped(work, mode=0o755)
    (item,) = work.plan(0).items
    part = divide_path(item, work.store.objects).part({1, 3})
    done = work.restore(0, {"a.txt": part})
    assert done.step is not None and done.skipped == ()
    assert path.read_bytes() == THEN.replace(b"\n25\n", b"\n")
    assert path.stat().st_mode & 0o777 == 0o755
    work.undo()
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (NOW, 0o755)
    work.restore(0, {"a.txt": divide_path(work.plan(0).items[0], work.store.objects).part({1, 2, 3})})
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (THEN, 0o644)


def test_the_rest_of_a_file_goes_back_later(work: Workspace) -> None:
    path = stepped(work)
    for _ in range(3):
        (item,) = work.plan(0).items
        assert item.state == "change"
        work.restore(0, {"a.txt": divide_path(item, work.store.objects).part({1})})
    assert path.read_bytes() == THEN
    assert work.plan(0).items == ()


def test_no_hunk_at_all_changes_nothing(work: Workspace) -> None:
    path = stepped(work)
    (item,) = work.plan(0).items
    assert work.restore(0, {"a.txt": divide_path(item, work.store.objects).part(())}).step is None
    left = work.restore(0, {"a.txt": "mine"})
    assert (left.step, [each.reason for each in left.skipped]) == (None, ["is left, as you chose"])
    assert path.read_bytes() == NOW


def test_hunks_of_a_conflict_are_taken_out_of_what_stands_there_now(work: Workspace) -> None:
    path = stepped(work)
    path.write_bytes(NOW.replace(b"\n15\n", b"\nmine\n"))
    (item,) = work.plan(0).items
    assert item.state == "conflict"
    assert work.restore(0).step is None
    found = divide_path(item, work.store.objects)
    assert len(found.hunks) == 4
    work.restore(0, {"a.txt": found.part({1})})
    assert path.read_bytes() == NOW.replace(b"\n15\n", b"\nmine\n").replace(b"\nfive\n", b"\n5\n")


def test_hunks_of_a_merge_leave_what_others_changed(work: Workspace) -> None:
    path = stepped(work)
    path.write_bytes(NOW.replace(b"\n15\n", b"\nmine\n"))
    (item,) = work.plan(0).items
    found = divide_path(item, work.store.objects, merging=True)
    assert len(found.hunks) == 3
    work.restore(0, {"a.txt": found.part({1, 2, 3})})
    assert path.read_bytes() == THEN.replace(b"\n15\n", b"\nmine\n")


def test_hunks_of_a_file_that_changed_meanwhile_are_not_taken(work: Workspace) -> None:
    path = stepped(work)
    part = divide_path(work.plan(0).items[0], work.store.objects).part({1})
    path.write_bytes(b"new first line\n" + NOW)
    done = work.restore(0, {"a.txt": part})
    assert (done.step, [each.reason for each in done.skipped]) == (
        None,
        ["changed after its hunks were chosen"],
    )
    path.write_bytes(b"\0")
    assert work.restore(0, {"a.txt": part}).step is None
    assert path.read_bytes() == b"\0"


def test_a_hunk_that_is_not_there_is_named(work: Workspace) -> None:
    stepped(work)
    with pytest.raises(StoreError, match=r"a\.txt: there is no hunk 4; the last one is 3\."):
        divide_path(work.plan(0).items[0], work.store.objects).part({1, 4})


def test_what_has_no_hunks_is_taken_as_a_whole(work: Workspace) -> None:
    names = ("binary", "gone", "link", "made", "mode")
    (work.root / "binary").write_bytes(b"\0")
    (work.root / "gone").write_text("x")
    (work.root / "link").symlink_to("here")
    (work.root / "mode").write_text("x")
    before = work.state()
    (work.root / "binary").write_bytes(b"\1\0")
    (work.root / "gone").unlink()
    (work.root / "link").unlink()
    (work.root / "link").symlink_to("there")
    (work.root / "made").write_text("x")
    (work.root / "mode").chmod(0o755)
    work.step(before)
    reasons: dict[str, str] = {}
    for item in work.plan(0).items:
        with pytest.raises(WholeError) as raised:
            divide_path(item, work.store.objects)
        reasons[item.path] = str(raised.value).removeprefix("This file is taken or left as a whole: ")
    assert reasons == dict(
        zip(
            names,
            (
                "it is binary.",
                "it is not there now.",
                "it is not a plain file.",
                "it was not there then.",
                "its text is the same.",
            ),
            strict=True,
        )
    )
