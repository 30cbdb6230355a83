"""What is said about changes: one line for the person, a short text for the model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.workspace import changes as changes_module
from agent.workspace.changes import NOTE_CHARACTERS, ProjectChanges, ShownFileDiff, path_text

PATHS = st.lists(st.text(min_size=1, max_size=300), max_size=40, unique=True).map(tuple)
DIFFS = st.lists(
    st.builds(
        ShownFileDiff,
        path=st.text(min_size=1, max_size=40),
        text=st.text(max_size=3_000),
        added=st.integers(0, 9),
        removed=st.integers(0, 9),
    ),
    max_size=6,
).map(tuple)


def test_several_kinds_of_change_are_one_sentence() -> None:
    changes = ProjectChanges(
        added=("new.py",),
        modified=("a.py", "b.py"),
        removed=("c.py",),
        diffs=(ShownFileDiff("a.py", "", 2, 1),),
        renamed=(("x", "y"),),
    )
    assert changes.sentence() == (
        "You changed a.py (+2 −1) and b.py, added new.py, removed c.py and renamed x to y"
    )
    assert changes.count == 5


def test_many_files_are_counted() -> None:
    many = tuple(f"src/{number}.py" for number in range(1_200))
    changes = ProjectChanges(modified=many, added=("a", "b", "c", "d"))
    assert changes.sentence() == "You changed 1,200 files and added 4 files"
    assert "- changed 1,200 files in src\n- added 4 files in the project folder\n" in changes.note()


@pytest.mark.thorough
@given(st.lists(st.from_regex(r"[-./0a]{1,4}|a/[/b0]{1,3}|a0?/b", fullmatch=True), min_size=21, unique=True))
def test_folders_are_named_and_counted_however_their_names_sort(paths: list[str]) -> None:
    tops = sorted({path.partition("/")[0] if "/" in path else "." for path in paths})
    note = ProjectChanges(added=tuple(sorted(paths))).note()
    named = ["the project folder" if top == "." else path_text(top) for top in tops[:3]]
    if len(tops) > 3:
        named.append(f"{len(tops) - 3} more folders")
    listed = " and ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else named[0]
    assert note.endswith(f"- added {len(paths)} files in {listed}\n")


def test_of_very_many_files_only_few_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def counted(path: str) -> str:
        looked.append(path)
        return path

    monkeypatch.setattr(changes_module, "path_text", counted)
    many = tuple(sorted(f"src{number % 7}/{number}.py" for number in range(30_000)))
    changes = ProjectChanges(
        added=many, removed=tuple(path + "c" for path in many), renamed=((many[0], "x"),) * 40
    )
    assert changes.sentence() == "You added 30,000 files, removed 30,000 files and renamed 40 files"
    assert "- added 30,000 files in src0, src1, src2 and 4 more folders\n" in changes.note()
    assert len(looked) < 20


def test_a_project_folder_that_goes_and_comes_back_is_said_as_that() -> None:
    gone = ProjectChanges(removed=("a", "b"), folder="gone")
    back = ProjectChanges(added=("a",), folder="back")
    assert gone.sentence() == "The project folder is gone, with 2 files"
    assert back.sentence() == "The project folder is back, with 1 file"
    assert "until it is back" in gone.note() and "- removed" not in gone.note()
    assert back.note().startswith("The project folder is back.\n") and "- added a" in back.note()
    assert (
        ProjectChanges(folder="gone")
        and ProjectChanges(folder="gone").sentence() == "The project folder is gone"
    )
    assert (
        gone.followed_by(back).folder == "back"
        and back.followed_by(ProjectChanges(added=("c",))).folder == "back"
    )


def test_no_change_is_false() -> None:
    assert not ProjectChanges()
    assert ProjectChanges(removed=("a",))


def test_diffs_that_do_not_fit_are_cut_at_a_line() -> None:
    text = "--- a/x\n+++ b/x\n@@ -1 +1,200 @@\n" + "".join(f"+line {number}\n" for number in range(500))
    note = ProjectChanges(modified=("x",), diffs=(ShownFileDiff("x", text, 500, 0),)).note()
    assert len(note) <= NOTE_CHARACTERS
    assert "[more of the diff is left out; read the file]" in note
    assert "+line 10\n" in note


@pytest.mark.thorough
@given(added=PATHS, modified=PATHS, removed=PATHS, diffs=DIFFS)
def test_whatever_changed_the_words_are_short_and_harmless(
    added: tuple[str, ...],
    modified: tuple[str, ...],
    removed: tuple[str, ...],
    diffs: tuple[ShownFileDiff, ...],
) -> None:
    changes = ProjectChanges(added, modified, removed, diffs)
    assert len(changes.note()) <= NOTE_CHARACTERS
    assert "\n" not in changes.sentence()
    for text in (changes.note(), changes.sentence()):
        text.encode()
        assert not any(character < " " and character not in "\n\t" for character in text)


@given(st.text(max_size=500))
def test_a_shown_path_is_one_short_line(path: str) -> None:
    assert len(path_text(path)) <= 120
    assert "\n" not in path_text(path)


def test_changes_that_follow_each_other_are_put_together() -> None:
    first = ProjectChanges(added=("new",), modified=("a",), removed=("old",))
    later = ProjectChanges(modified=("new", "b"), removed=("a",), added=("old",))
    both = first.followed_by(later)
    assert (both.added, both.modified, both.removed) == (("new",), ("b", "old"), ("a",))
    assert ProjectChanges(added=("x",)).followed_by(ProjectChanges(removed=("x",))) == ProjectChanges()
