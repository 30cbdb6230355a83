"""A block quoted with another indentation comes back with the file's."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tools.files.hunk_application import Indentation, replace_text
from tools.files.text_files import decode

DEPTHS = st.lists(st.integers(0, 3), min_size=2, max_size=6)
UNITS = st.sampled_from(["  ", "    ", "\t"])


def block(depths: list[int], unit: str, base: int, changed: dict[int, str] | None = None) -> str:
    return "\n".join(
        unit * (base + depth) + (changed or {}).get(index, f"statement_{index}()")
        for index, depth in enumerate(depths)
    )


@given(DEPTHS, UNITS, UNITS, st.integers(0, 3), st.integers(0, 3), st.data())
def test_a_changed_line_takes_the_indentation_of_the_file(
    depths: list[int], file_unit: str, model_unit: str, file_base: int, model_base: int, data: st.DataObject
) -> None:
    changed = {data.draw(st.integers(0, len(depths) - 1)): "something_else()"}
    head, tail = "def first():\n\n", "\n\nlast = 1\n"
    text = head + block(depths, file_unit, file_base) + tail
    result = replace_text(
        decode(text.encode()),
        block(depths, model_unit, model_base),
        block(depths, model_unit, model_base, changed),
        everywhere=False,
        name="f",
    )
    assert result.file.text == head + block(depths, file_unit, file_base, changed) + tail


@given(UNITS, UNITS, st.integers(0, 3), st.integers(0, 3), st.integers(0, 1))
def test_added_lines_go_as_deep_as_meant(
    file_unit: str, model_unit: str, file_base: int, model_base: int, deeper: int
) -> None:
    """Known are the depths 0 and 1; a line at depth 0, 1 or 2 is added."""
    old, new = [0, 1, 1], [0, 1, 1 + deeper, 1]
    text = "top\n" + block(old, file_unit, file_base) + "\nend\n"
    names = {2: "added()", 3: "statement_2()"}
    result = replace_text(
        decode(text.encode()),
        block(old, model_unit, model_base),
        block(new, model_unit, model_base, names),
        everywhere=False,
        name="f",
    )
    assume(result.strategy != "exact")  # then the text is taken literally
    assert result.file.text == "top\n" + block(new, file_unit, file_base, names) + "\nend\n"


@pytest.mark.parametrize(
    ("pairs", "line", "expected"),
    [
        ([], "    x", "    x"),
        ([("a", "a")], "    x", "    x"),
        ([("a", "    a")], "x", "    x"),
        ([("a", "    a")], "    x", "        x"),
        ([("    a", "a")], "        x", "    x"),
        ([("    a", "a")], "x", "x"),
        ([("    a", "\ta")], "        x", "\t\tx"),
        ([("\ta", "    a"), ("\t\tb", "        b")], "\t\t\tx", "            x"),
        ([("  a", "    a"), ("    b", "        b")], "      x", "            x"),
        ([("a", "    a")], "   ", "   "),
    ],
)
def test_one_line_is_carried_over(pairs: list[tuple[str, str]], line: str, expected: str) -> None:
    assert Indentation.learn(pairs, [line]).carry(line) == expected
