"""No edit takes away a line that it does not name, whatever strategy finds the place."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.files.hunk_application import apply_hunks, replace_text
from tools.files.patch_text import PatchError, UpdateFile, parse_patch
from tools.files.text_files import decode
from tools.results import ToolError

HANDLER = "def handle(request):\n    audit(request.user)\n    return ok()\n"


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (
            HANDLER,
            "def handle(request):\n    check(request.token)\n    return ok()",
            "check(request.token, 1)",
        ),
        ("one(1)\ntwo(2)\nthree(3)\n", "one(1)\ntwo(9)\nthree(3)", "one(1)\ntwo(10)\nthree(3)"),
        (
            "a = 1\nif x < y:\n    z()\nend\n",
            "a = 1\nif x > y:\n    z()\nend",
            "a = 1\nif x >= y:\n    z()\nend",
        ),
        ("begin\n  keep this\n  and that\nend\n", "begin\n  keep this\nend", "begin\nend"),
        (
            "[a]\nhost = one\nport = 1\n[b]\n",
            "[a]\nhost = two\nport = 1\n[b]",
            "[a]\nhost = ten\nport = 1\n[b]",
        ),
    ],
)
def test_a_line_that_differs_in_what_it_says_is_not_replaced(file: str, old: str, new: str) -> None:
    with pytest.raises(ToolError, match="not in f"):
        replace_text(decode(file.encode()), old, new, everywhere=False, name="f")


def test_a_patch_takes_no_row_that_it_does_not_name() -> None:
    rows = "| a | [x](http://x/1) |\n| b | [y](http://y/2) |\n| c | [z](http://z/3) |\n"
    patch = (
        "*** Begin Patch\n*** Update File: f\n@@\n | a | [x](http://x/1) |\n-| b | [w](http://w/2) |\n"
        "+| b | [w](http://w/22) |\n | c | [z](http://z/3) |\n*** End Patch"
    )
    with pytest.raises(PatchError, match="does not fit f"):
        patched(rows, patch)


def patched(text: str, patch: str) -> str:
    (operation,) = parse_patch(patch)
    assert isinstance(operation, UpdateFile)
    return apply_hunks(decode(text.encode()), operation.hunks, "f").file.text


WORDS = st.lists(st.sampled_from(("get", "set", "port", "x1", "x2", "8080", "8081")), min_size=1, max_size=4)
MARKS = st.sampled_from((" ", "  ", "(", ", ", " = ", "'", '"'))


@st.composite
def lines(draw: Any) -> str:
    return draw(MARKS).join(draw(WORDS))


def said(line: str) -> list[str]:
    return re.findall(r"\w+", line)


@pytest.mark.thorough
@given(st.lists(lines(), min_size=3, max_size=8), st.data())
def test_words_and_digits_of_what_goes_were_all_named(rows: list[str], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(rows) - 1))
    old = rows[first : first + data.draw(st.integers(1, 6))]
    for at in range(len(old)):
        if data.draw(st.booleans()):
            old[at] = data.draw(lines())
    new = [data.draw(lines()) if data.draw(st.booleans()) else line for line in old]
    text = "\n".join(rows) + "\n"
    marked = [f"-{line}" for line in old] + [f"+{line}" for line in new]
    patch = "\n".join(["*** Begin Patch", "*** Update File: f", "@@", *marked, "*** End Patch"])
    ways = (
        lambda: (
            replace_text(
                decode(text.encode()), "\n".join(old), "\n".join(new), everywhere=False, name="f"
            ).file.text
        ),
        lambda: patched(text, patch),
    )
    # What stands in the file to the letter names all that goes, in the middle of a line as well.
    for way in ways["\n".join(old) in text :]:
        try:
            after = way()
        except (ToolError, PatchError):
            continue
        left = [said(line) for line in after.splitlines()]
        gone = [words for words in map(said, rows) if words not in left or left.remove(words)]
        named = " ".join(" ".join(said(line)) for line in old)
        assert all(" ".join(words) in named for words in gone), (after, gone)
