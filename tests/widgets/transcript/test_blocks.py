"""Markdown cut into blocks."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from themes.skin import Skin
from widgets.palette import Palette
from widgets.transcript.blocks import BLOCK_CHARS, BlockSplitter, MarkdownBlock, code_of, split
from widgets.transcript.markdown import render

PALETTE = Palette(Skin())

LINES = st.sampled_from(
    [
        "",
        "",
        "",
        "words",
        "two words",
        "    four blanks",
        "  two blanks",
        "   three blanks",
        "\ttab",
        "# Heading",
        "#not a heading",
        "---",
        "===",
        "***",
        "- item",
        "- [x] task",
        "-",
        "* star",
        "+ plus",
        "  - nested",
        "   - three in",
        "1. one",
        "2. two",
        "1) one",
        "   1. deep",
        "10. ten",
        "> quote",
        ">",
        "> - quoted item",
        ">> twice",
        "```",
        "```python",
        "~~~",
        "  ```",
        "````",
        "| a | b |",
        "|---|---|",
        "|:--|",
        "a | b",
        "---|---",
        "<div>",
        "</div>",
        "<pre>",
        "</pre>",
        "<!-- open",
        "close -->",
        "<b>bold</b>",
        "text  ",
        "**bold** `code`",
        "日本語",
    ]
)
DOCUMENTS = st.lists(LINES, max_size=14).map("\n".join)


def kinds(text: str) -> list[str]:
    return [block.kind for block in split(text)]


def texts(blocks: list[MarkdownBlock], width: int = 40) -> list[str]:
    """What is on the screen without labels of code, blocks separated by blank rows."""
    rows: list[str] = []
    for drawn in (render(block, width, PALETTE) for block in blocks):
        if rows and drawn:
            rows.append("")
        rows += [re.sub(r" +(?:\S+ · )?copy$", "", strip.text.rstrip()) for strip in drawn]
    return rows


@given(DOCUMENTS)
@settings(derandomize=True)
def test_blocks_one_by_one_look_like_the_whole_document(text: str) -> None:
    assert texts(split(text)) == texts([MarkdownBlock("paragraph", text)])


@given(DOCUMENTS, st.lists(st.integers(1, 12), min_size=1))
def test_blocks_do_not_depend_on_how_the_text_was_cut(text: str, sizes: list[int]) -> None:
    splitter = BlockSplitter()
    blocks: list[MarkdownBlock] = []
    at = turn = 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        blocks += splitter.feed(text[at : at + size])
        splitter.tail()
        at, turn = at + size, turn + 1
    assert blocks + splitter.finish() == split(text)


@given(DOCUMENTS)
def test_no_line_of_the_source_is_lost(text: str) -> None:
    kept = [line for block in split(text) for line in block.source.split("\n") if line.strip()]
    assert [line.strip() for line in kept] == [line.strip() for line in text.split("\n") if line.strip()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb\n\nc", ["paragraph", "paragraph"]),
        ("# a\nb", ["heading", "paragraph"]),
        ("a\n===\nb", ["heading", "paragraph"]),
        ("- a\n\n  b\n- c\n\n\n- d", ["list"]),
        ("- a\n* b", ["list", "list"]),
        ("1. a\n2) b", ["list", "list"]),
        ("- a\nlazy\n\nb", ["list", "paragraph"]),
        ("- ```\n  a\n\n  b\n  ```\n- c", ["list"]),
        ("> a\nlazy\n> b", ["quote"]),
        ("> a\n\n> b", ["quote", "quote"]),
        ("```\n\n# no\n\n```\na", ["fence", "paragraph"]),
        ("````\n```\n````", ["fence"]),
        ("    a\n\n    b\nc", ["fence", "paragraph"]),
        ("a\n    b", ["paragraph"]),
        ("a | b\n--|--\n1 | 2\n\nc", ["table", "paragraph"]),
        ("a\n---", ["heading"]),
        ("- - -\n***\n_ _ _", ["rule", "rule", "rule"]),
        ("<pre>\n\n</pre>\na", ["html", "paragraph"]),
        ("<!-- a\n\nb -->\nc", ["html", "paragraph"]),
        ("the year\n1986. Great", ["paragraph"]),
        ("a\n- b", ["paragraph", "list"]),
        ("\r\n# a\r\nb\r\n", ["heading", "paragraph"]),
        ("\n \n\t\n", []),
    ],
)
def test_blocks_end_where_markdown_says(text: str, expected: list[str]) -> None:
    assert kinds(text) == expected


def test_a_fence_keeps_its_source_and_gives_its_code() -> None:
    (block,) = split("  ~~~python title=x\n    a\n  b\n\n  ~~~")
    assert block == MarkdownBlock("fence", "  ~~~python title=x\n    a\n  b\n\n  ~~~", "python title=x")
    assert code_of(block) == "  a\nb\n"


def test_indented_code_loses_its_indentation() -> None:
    assert code_of(split("    a\n      b\n\n\tc")[0]) == "a\n  b\n\nc"


def test_the_lines_of_an_open_fence_are_given_once_each() -> None:
    splitter = BlockSplitter()
    splitter.feed("text\n\n```py\none\ntwo\nthr")
    assert splitter.open_code() == ["one", "two"]
    splitter.feed("ee\n")
    assert splitter.open_code(2) == ["three"]
    splitter.feed("```\n")
    assert splitter.open_code() == []


def test_the_open_block_is_shown_as_it_stands() -> None:
    splitter = BlockSplitter()
    assert splitter.tail() is None
    splitter.feed("# He")
    assert splitter.tail() == MarkdownBlock("heading", "# He")
    splitter.feed("ad\n\n```py\na\n``")
    assert splitter.tail() == MarkdownBlock("fence", "```py\na", "py")


def test_a_line_without_end_is_cut_wherever_it_was_fed() -> None:
    text = "x" * 1_000_000
    whole = split(text)
    splitter = BlockSplitter()
    pieces = [block for at in range(0, len(text), 777) for block in splitter.feed(text[at : at + 777])]
    assert pieces + splitter.finish() == whole
    assert max(len(block.source) for block in whole) <= 2 * BLOCK_CHARS
    assert "".join(block.source for block in whole).replace("\n", "") == text


def test_an_endless_list_goes_on_with_the_next_number() -> None:
    count = 2_000
    blocks = split("\n".join("1. item of a list" for _ in range(count)))
    assert len(blocks) > 1
    assert blocks[1].info.isdecimal()
    rows = [strip.text.split(".")[0].strip() for block in blocks for strip in render(block, 40, PALETTE)]
    assert rows == [str(number) for number in range(1, count + 1)]


def test_an_endless_table_repeats_its_header() -> None:
    rows = [f"| {number} | cell |" for number in range(3_000)]
    blocks = split("\n".join(["| n | c |", "|---|---|", *rows]))
    assert len(blocks) > 1
    assert {block.source.split("\n")[0] for block in blocks} == {"| n | c |"}
    assert [line for block in blocks for line in block.source.split("\n")[2:]] == rows


@pytest.mark.sample(3)
@pytest.mark.parametrize("line", ["word", "> quote", "- item", "  - item", "<div>", "| a | b |", "`"])
def test_no_block_outgrows_its_room(line: str) -> None:
    blocks = split("\n".join([line] * 20_000))
    assert max(len(block.source) for block in blocks) <= 5 * BLOCK_CHARS
