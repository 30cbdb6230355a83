"""Where hunks go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.files.hunk_application import apply_hunks
from tools.files.patch_text import PatchError, PatchHunk, PatchLine, UpdateFile, parse_patch
from tools.files.text_files import decode

FILE = "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n"


def patched(text: str, hunks: str) -> str:
    (operation,) = parse_patch(f"*** Update File: f\n{hunks}")
    assert isinstance(operation, UpdateFile)
    return apply_hunks(decode(text.encode()), operation.hunks, "f").file.encode().decode()


def test_a_hint_tells_equal_places_apart() -> None:
    assert patched(FILE, "@@ class B:\n-        return 1\n+        return 2").endswith("return 2\n")
    assert patched(FILE, "@@ class A:\n-        return 1\n+        return 2").startswith(
        "class A:\n    def f(self):\n        return 2\n"
    )


def test_nested_hints_are_followed() -> None:
    assert patched(FILE, "@@ class B\n@@ def f(self):\n-        return 1\n+        return 2").endswith(
        "return 2\n"
    )


def test_the_hint_may_be_repeated_as_a_kept_line() -> None:
    assert patched(
        FILE, "@@ class B:\n class B:\n     def f(self):\n-        return 1\n+        return 2"
    ).endswith("return 2\n")


def test_without_a_hint_equal_places_are_an_error_with_their_lines() -> None:
    with pytest.raises(PatchError, match=r"2 places \(lines 3 and 7\)"):
        patched(FILE, "-        return 1\n+        return 2")


def test_the_end_of_the_file_tells_places_apart() -> None:
    assert patched("x\ny\nx\n", "-x\n+z\n*** End of File") == "x\ny\nz\n"


def test_order_tells_places_apart() -> None:
    assert patched("a\nx\nb\nx\n", "@@\n a\n-x\n+1\n@@\n-x\n+2") == "a\n1\nb\n2\n"


def test_hunks_may_come_out_of_order() -> None:
    assert patched("a\nb\nc\n", "@@\n-c\n+C\n@@\n-a\n+A") == "A\nb\nC\n"


def test_neighbouring_hunks_may_share_kept_lines() -> None:
    assert patched("a\nb\nc\n", "@@\n-a\n+A\n b\n@@\n b\n-c\n+C") == "A\nb\nC\n"


def test_hunks_on_the_same_line_are_refused() -> None:
    with pytest.raises(PatchError, match="same line 2"):
        patched("a\nb\nc\n", "@@\n a\n-b\n+1\n@@\n-b\n+2\n c")


def test_a_hunk_may_build_on_the_one_before() -> None:
    assert patched("a\nb\n", "@@\n-a\n+x\n+y\n@@\n y\n-b\n+z") == "x\ny\nz\n"


def test_lines_without_any_context_go_to_the_end_or_below_the_hint() -> None:
    assert patched("a\nb\n", "@@\n+c") == "a\nb\nc\n"
    assert patched("a\nb", "@@\n+c") == "a\nb\nc"
    assert patched("a\nb\n", "@@ a\n+c") == "a\nc\nb\n"
    assert patched("", "@@\n+c") == "c\n"


def test_an_unclear_hint_for_added_lines_is_refused() -> None:
    with pytest.raises(PatchError, match="lines 1 and 2"):
        patched("a\na\n", "@@ a\n+c")
    with pytest.raises(PatchError, match="nowhere"):
        patched("a\n", "@@ zzz\n+c")


def test_lines_are_found_in_spite_of_blanks_and_indentation() -> None:
    assert (
        patched("if a:\n\tb()\t\n\tc()\n", " if a:\n-    b()\n+    d()\n     c()") == "if a:\n\td()\n\tc()\n"
    )
    assert patched("  x = 1\n", "-x = 1\n+x = 2\n+y = 3") == "  x = 2\n  y = 3\n"


def test_a_forgotten_space_before_a_kept_line_is_forgiven() -> None:
    assert patched("def f():\n    a\n", "def f():\n-    a\n+    b") == "def f():\n    b\n"


def test_part_of_a_line_is_no_match() -> None:
    with pytest.raises(PatchError, match="not in the file"):
        patched("foobar\n", "-foo\n+x")


def test_a_hunk_that_fits_nowhere_shows_what_comes_close() -> None:
    with pytest.raises(PatchError) as caught:
        patched("def f(one, two):\n    return one\n", "-def f(one, three, four):\n+x")
    assert "1|def f(one, two):" in caught.value.extra["closest"][0]  # type: ignore[index]


def test_crlf_files_stay_crlf() -> None:
    assert patched("a\r\nb\r\n", " a\n-b\n+c\n+d") == "a\r\nc\r\nd\r\n"


def test_blank_lines_can_be_removed() -> None:
    assert patched("a\n\n\nb\n", " a\n-\n-\n b") == "a\nb\n"


WORDS = st.lists(st.sampled_from(["a", "b", "c", "", " d"]), max_size=12)


@pytest.mark.thorough
@given(WORDS, st.data())
def test_a_hunk_that_quotes_everything_gives_exactly_the_text(lines: list[str], data: st.DataObject) -> None:
    """For any file and any edit: kept, removed and added lines in any mixture."""
    script: list[PatchLine] = []
    for line in lines:
        for _ in range(data.draw(st.integers(0, 1))):
            script.append(PatchLine("+", data.draw(st.sampled_from(["new", "a", ""]))))
        script.append(PatchLine(data.draw(st.sampled_from([" ", "-"])), line))
    script.append(PatchLine("+", "last"))
    hunk = PatchHunk(1, tuple(script), old_start=1 if lines else 0)
    text = "".join(line + "\n" for line in lines)
    expected = "".join(line.text + "\n" for line in script if line.kind != "-")
    assert apply_hunks(decode(text.encode()), [hunk], "f").file.text == expected
