"""Code in colours, at once and while it streams in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.strip import Strip

from themes.skin import Skin
from widgets.palette import Palette
from widgets.transcript.blocks import MarkdownBlock
from widgets.transcript.markdown import (
    COLORED_CHARS,
    COLORED_LINE,
    FenceRenderer,
    highlight,
    language_of,
    render,
    render_code,
)

PALETTE = Palette(Skin())
PYTHON = '''\
import os

def total(items: list[int]) -> int:
    """Add up.

    With a # that is not a comment and 'no string' in it.
    """
    # a comment
    text = "half" + f"{os.sep}"
    return sum(items) + 0x10
'''


def look(strips: list[Strip]) -> list[list[tuple[str, object]]]:
    """What is drawn, without regard to how it is cut into runs."""
    return [[(c, run.style) for run in strip for c in run.text] for strip in strips]


def color_of(code: str, language: str, word: str):
    style = next(
        run.style for strip in render_code(code, language, 80, PALETTE) for run in strip if word in run.text
    )
    return style.color


@pytest.mark.parametrize(
    ("word", "role"),
    [
        ("import", "keyword"),
        ("total", "function"),
        ("Add up.", "string"),
        ("# a comment", "comment"),
        ("half", "string"),
        ("0x10", "number"),
        ("items", "text"),
    ],
)
def test_words_have_the_colour_of_their_role(word: str, role: str) -> None:
    assert color_of(PYTHON, "python", word) == PALETTE.style(role).color


def test_code_fills_its_rows_with_its_background() -> None:
    strips = render_code("a\n\nb", "python", 12, PALETTE)
    assert [strip.cell_length for strip in strips] == [12, 12, 12]
    grounds = {run.style.bgcolor for strip in strips for run in strip if run.style}
    assert grounds == {PALETTE.style("text", "code_background").bgcolor}


def test_code_is_cut_at_the_edge_and_never_wrapped() -> None:
    strips = render_code("0123456789\n012345678\n日本語日本語", "", 9, PALETTE)
    assert [strip.text for strip in strips] == ["01234567›", "012345678", "日本語日›"]


def test_tabs_go_to_the_next_stop() -> None:
    strips = render_code("\ta\nab\tc\n日\td", "python", 12, PALETTE)
    assert [strip.text.rstrip() for strip in strips] == ["    a", "ab  c", "日  d"]


@pytest.mark.parametrize("language", ["", "klingon", "python2000", "../x", "a.b.zzz", "\x00", "x" * 500])
def test_an_unknown_language_is_plain(language: str) -> None:
    assert highlight("def a(): 1", language) == [[("def a(): 1", "text")]]


@pytest.mark.parametrize(
    ("info", "language"),
    [
        ("python", "python"),
        ('python title="x"', "python"),
        ("{.rust .numberLines}", "rust"),
        ("js,linenos", "js"),
        ("py:src/a.py", "py"),
        ("", ""),
        ("   ", ""),
    ],
)
def test_the_language_is_the_first_word(info: str, language: str) -> None:
    assert language_of(info) == language


def test_names_of_files_name_languages() -> None:
    assert highlight("def a(): 1", "src/money.py") == highlight("def a(): 1", "python")
    assert highlight("FROM x", "docker/Dockerfile") == highlight("FROM x", "docker")


LANGUAGES = ["python", "c", "js", "json", "bash", "html", "yaml", "diff", "console", "rust", "markdown", ""]


@given(st.text(max_size=80), st.sampled_from(LANGUAGES))
def test_highlighting_changes_no_character(code: str, language: str) -> None:
    lines = highlight(code, language)
    assert ["".join(text for text, _ in line) for line in lines] == code.split("\n")


@pytest.mark.thorough
def test_beyond_its_room_code_is_plain_and_whole() -> None:
    code = "\n".join(["x = 'text'"] * (COLORED_CHARS // 5))
    lines = highlight(code, "python")
    assert len(lines) == COLORED_CHARS // 5
    assert len(lines[0]) > 1
    assert lines[-1] == [("x = 'text'", "text")]


def test_a_line_that_no_person_wrote_ends_the_colours() -> None:
    lines = highlight("a = 1\n" + "x" * (COLORED_LINE + 1) + "\nb = 2", "python")
    assert [len(line) > 1 for line in lines] == [True, False, False]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_streamed_code_looks_as_it_does_when_it_is_closed(size: int) -> None:
    lines = PYTHON.removesuffix("\n").split("\n")
    renderer = FenceRenderer("python", PALETTE, 60)
    streamed = [
        strip for at in range(0, len(lines), size) for strip in renderer.feed_lines(lines[at : at + size])
    ]
    closed = render(MarkdownBlock("fence", f"```python\n{PYTHON}```", "python"), 60, PALETTE)
    assert look(streamed) == look(closed)


def test_a_long_open_text_keeps_its_colour_while_it_streams() -> None:
    renderer = FenceRenderer("python", PALETTE, 40)
    renderer.feed_lines(['text = """first'])
    strips = [strip for number in range(200) for strip in renderer.feed_lines([f"for line in {number}"])]
    colors = {run.style.color for strip in strips for run in strip if run.text.strip() and run.style}
    assert colors == {PALETTE.style("string").color}
    (after,) = renderer.feed_lines(['""" + other'])
    assert next(run for run in after if "other" in run.text).style == PALETTE.style("text", "code_background")


@pytest.mark.thorough
def test_a_fence_without_end_costs_the_same_for_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def count(code: str, language: str):
        seen.append(code.count("\n") + 1)
        return highlight(code, language)

    monkeypatch.setattr("widgets.transcript.markdown.highlight", count)
    renderer = FenceRenderer("python", PALETTE, 40)
    for number in range(500):
        renderer.feed_lines([f"# comment {number}"])
    assert max(seen) <= FenceRenderer.WINDOW + 1


def test_no_lines_give_no_strips() -> None:
    assert FenceRenderer("python", PALETTE, 40).feed_lines([]) == []
    assert len(FenceRenderer("python", PALETTE, 40).feed_lines([""])) == 1
