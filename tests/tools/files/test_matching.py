"""The chain of strategies: what is found, how strictly, and what is put there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.files.hunk_application import Replaced, replace_text
from tools.files.matching import LineIndex, find
from tools.files.text_files import TextFile, decode
from tools.results import ToolError

FILE = """\
class Account:
    def balance(self):
        total = 0
        for entry in self.entries:
            total += entry.amount
        return round(total, 2)

    def close(self):
        self.open = False
"""


def replaced(text: str, old: str, new: str, *, everywhere: bool = False) -> Replaced:
    file = TextFile(text, bytes(text.count("\n")))
    return replace_text(file, old, new, everywhere=everywhere, name="f.py")


def strategy(text: str, query: str) -> str | None:
    found = find(text, query)
    return found.strategy if found else None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("total = 0", "exact"),
        ("        total = 0   \n        for entry in self.entries:  ", "line_trimmed"),
        ("total  =  0", "whitespace_normalized"),
        (
            "for entry in self.entries:\n    total += entry.amount\nreturn round(total, 2)",
            "indentation_flexible",
        ),
        ("total = 0\\n        for entry", "escape_normalized"),
        ("\n\n  total = 0  \n\n", "trimmed_boundary"),
        ("return round(total, 2)", "exact"),
        (
            "def balance(self):\n    result = 0\n    for item in self.entries:\n        total += 1\n"
            "    return round(total, 2)",
            "block_anchor",
        ),
        (
            "    def balance(account):\n        total = 1\n        for entry in self.entries:\n"
            "            total += entry.amount\n        return nothing at all",
            "context_aware",
        ),
        ("this is nowhere in the file", None),
    ],
)
def test_the_strictest_strategy_that_finds_anything_decides(query: str, expected: str | None) -> None:
    assert strategy(FILE, query) == expected


def test_typographic_characters_match_plain_ones() -> None:
    assert strategy("say “it’s – ok…”\n", 'say "it\'s - ok..."') == "unicode_normalized"


@pytest.mark.parametrize("place", ["{}", "wait {} now", "  x = 'a{}b'  # c"])
@pytest.mark.parametrize(("one", "other"), [("—", "--"), ("–", "--"), ("—", "---"), ("—", "-"), ("…", "...")])
def test_dashes_and_ellipses_match_what_a_keyboard_writes_for_them(place: str, one: str, other: str) -> None:
    for there, quoted in ((one, other), (other, one)):
        text = f"first\n{place.format(there)}\nlast\n"
        assert strategy(text, place.format(quoted)) == "unicode_normalized"
        found = LineIndex(text.splitlines()).find([place.format(quoted), "last"])
        assert found is not None and found.firsts == (1,)


def test_a_short_option_is_no_long_one() -> None:
    assert find("run -f\nrun --all\n", "run --f") is None
    assert find("run --f\n", "run -f") is None


@given(st.text("ab \n", max_size=30), st.text("ab \n", min_size=1, max_size=6), st.text("abc\n", max_size=6))
def test_an_exact_match_has_priority_and_is_replaced_literally(text: str, old: str, new: str) -> None:
    if text.count(old) == 0 or old == new or text.replace(old, new) == text:
        return
    result = replaced(text, old, new, everywhere=True)
    assert result.strategy == "exact"
    assert result.file.text == text.replace(old, new)


@given(
    st.lists(st.tuples(st.text("ab", max_size=3), st.sampled_from([b"\n", b"\r\n"])), min_size=1, max_size=8),
    st.data(),
)
def test_line_ends_outside_the_change_are_kept(lines: list[tuple[str, bytes]], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(lines)))
    before = b"".join(text.encode() + end for text, end in lines[:place])
    after = b"".join(text.encode() + end for text, end in lines[place:])
    file = decode(before + b"unique\r\n" + after)
    result = replace_text(file, "unique", "one\ntwo", everywhere=False, name="f")
    assert result.file.encode() == before + b"one\r\ntwo\r\n" + after


def test_several_matches_are_an_error_that_says_how_many_and_where() -> None:
    with pytest.raises(ToolError, match=r"Found 3 matches .* \(lines 1, 2 and 3\)"):
        replaced("x\nx\nx\n", "x", "y")
    assert replaced("x\nx\nx\n", "x", "y", everywhere=True).file.text == "y\ny\ny\n"


def test_overlapping_matches_are_not_unique() -> None:
    with pytest.raises(ToolError, match="Found 2 matches"):
        replaced("aaa", "aa", "b")


def test_empty_and_identical_texts_are_refused() -> None:
    with pytest.raises(ToolError, match="empty"):
        replaced("a", "", "b")
    with pytest.raises(ToolError, match="same"):
        replaced("a", "a", "a")
    with pytest.raises(ToolError, match="same"):
        replaced("a\nb", "a\nb", "a\r\nb")


def test_blank_queries_match_only_exactly() -> None:
    with pytest.raises(ToolError, match="not in"):
        replaced("a\nb\n", "   ", "x")


def test_a_missing_text_is_answered_with_the_closest_lines() -> None:
    with pytest.raises(ToolError) as caught:
        replaced(FILE, "    def shut(self):\n        self.open = None", "x")
    assert any("8|    def close(self):" in section for section in caught.value.extra["closest"])  # type: ignore[union-attr]


def test_line_numbers_of_read_file_in_the_query_are_named() -> None:
    with pytest.raises(ToolError, match="line numbers"):
        replaced(FILE, "2|    def balance(self):\n3|        total = 0", "x")


def test_the_replacement_takes_the_indentation_of_the_file() -> None:
    result = replaced(
        FILE,
        "for entry in self.entries:\n    total += entry.amount",
        "for entry in self.entries:\n    if entry:\n        total += entry.amount",
    )
    assert (
        "        for entry in self.entries:\n            if entry:\n                total += entry.amount\n"
        in (result.file.text)
    )


def test_an_outdented_line_of_the_replacement_moves_along() -> None:
    text = "def f():\n        if a:\n            b()\n        c()\n"
    result = replaced(text, "    if a:\n        b()\n    c()", "    if a:\n        b()\nd()")
    assert result.file.text == "def f():\n        if a:\n            b()\n    d()\n"


def test_tabs_of_the_file_stay_tabs() -> None:
    text = "func f() {\n\tif a {\n\t\tb()\n\t}\n}\n"
    result = replaced(
        text,
        "    if a {\n        b()\n    }",
        "    if a {\n        b()\n        if c {\n            d()\n        }\n    }",
    )
    assert result.file.text == "func f() {\n\tif a {\n\t\tb()\n\t\tif c {\n\t\t\td()\n\t\t}\n\t}\n}\n"


def test_spaces_of_the_file_stay_spaces_when_the_model_sends_tabs() -> None:
    text = "def f():\n  if a:\n    b()\n"
    result = replaced(text, "\tif a:\n\t\tb()", "\tif a:\n\t\tb()\n\t\tc()")
    assert result.file.text == "def f():\n  if a:\n    b()\n    c()\n"


def test_unchanged_lines_keep_the_spelling_of_the_file() -> None:
    text = "a  =  1   \nb  =  2\nc = 3\n"
    result = replaced(text, "a = 1\nb = 2\nc = 3", "a = 1\nb = 2\nc = 4")
    assert result.file.text == "a  =  1   \nb  =  2\nc = 4\n"


def test_typographic_characters_the_model_did_not_change_are_kept() -> None:
    text = "title = “It’s here…” # old — dash\n"
    result = replaced(text, 'title = "It\'s here..." # old - dash', 'title = "It\'s there..." # new - dash')
    assert result.file.text == "title = “It’s there…” # new — dash\n"
    result = replaced("a — b, c… d\n", "a -- b, c... d", "a -- b, c... e")
    assert result.file.text == "a — b, c… e\n"
    result = replaced("a -- b, c... d\n", "a — b, c… d", "a — b, c… e")
    assert result.file.text in ("a -- b, c... e\n", "a — b, c… e\n")


def test_escaped_quotes_the_file_does_not_have_are_refused() -> None:
    with pytest.raises(ToolError, match="backslash"):
        replaced(
            'first  line\nsay("hi there my friend")\nthird line\nlast line\n',
            'first line\nsay(\\"hi there my friend\\")\nthird line\nlast line',
            'first line\nsay(\\"ho there my friend\\")\nthird line\nlast line',
        )


def test_escaped_newlines_are_undone_on_both_sides() -> None:
    result = replaced("a = 1\nb = 2\n", "a = 1\\nb = 2", "a = 1\\nb = 3")
    assert result.file.text == "a = 1\nb = 3\n"


def test_a_loose_match_never_changes_a_line_that_was_quoted_wrongly() -> None:
    text = "one = first()\ntwo = second()\nkeep = everything_here()\nfour = fourth()\n"
    with pytest.raises(ToolError, match="not in"):
        replaced(
            text,
            "one = first()\ntwo = second()\nsomething else entirely\nfour = fourth()\nfive = 5\nsix",
            "one = first()\ntwo = second()\nfour = fourth()",
        )
    assert replaced(
        text,
        "one = first()\ntwo = second()\ncompletely different\nfour = fourth(0)",
        "one = first(1)\ntwo = second()\ncompletely different\nfour = fourth(0)",
    ).file.text.startswith("one = first(1)\ntwo = second()\nkeep = everything_here()\n")


def test_a_block_with_several_lookalikes_is_ambiguous() -> None:
    block = "def f():\n    a = {}\n    b = 2\n    c = 3\n    return a\n"
    text = block.format(1) + "\n" + block.format(2)
    with pytest.raises(ToolError, match="Found 2 matches"):
        replaced(text, "def f():\n    a = 9\n    b = 2\n    c = 3\n    return a", "x")


def test_a_file_that_lacks_the_final_newline_keeps_lacking_it() -> None:
    assert replaced("a\n  b", "a\nb\n", "a\nc\n").file.text == "a\n  c"


def test_deleting_lines_leaves_no_blank_line() -> None:
    assert replaced("a\nb\nc\n", "b\n", "").file.text == "a\nc\n"


@pytest.mark.thorough
def test_large_files_do_not_hang() -> None:
    lines = [f"    value_{index} = compute({index % 7}, {{}}) # }}" for index in range(20_000)]
    text = "\n".join(lines)
    with pytest.raises(ToolError, match="not in"):
        replaced(text, "\n".join(["value = compute(1, {}) # }"] * 50 + ["nothing"]), "x")
    assert replaced(text, "value_17777 =  compute", "value_x = compute").strategy == "whitespace_normalized"
    with pytest.raises(ToolError, match="Found"):
        replaced("a" * 400_000, "a" * 1000, "b")
    with pytest.raises(ToolError):
        replaced("}\n" * 20_000, "{\n}\n}\n{\nq", "b")
