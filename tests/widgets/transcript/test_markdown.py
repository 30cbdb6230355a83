"""Markdown drawn as strips."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.strip import Strip

from themes.skin import Skin
from widgets.palette import Palette
from widgets.transcript.blocks import MarkdownBlock, split
from widgets.transcript.diff import render_diff
from widgets.transcript.markdown import PREPARED, lexer_for, prepare, render
from widgets.transcript.wrap import plain

PALETTE = Palette(Skin())
HOSTILE = (
    "\x1b]52;c;aGk=\x07\x1b[31mred\x1b[0m \x9b2J \u202eevil\u202c \x00\x08 &#x1b;[2J &#x202e;x &#8232;y &#9;z"
    " &#13;\u2066\ufeff\U000e0041 \x90q\x9c"
)


def drawn(text: str, width: int = 40) -> list[Strip]:
    return [strip for block in split(text) for strip in render(block, width, PALETTE)]


def rows(text: str, width: int = 40) -> list[str]:
    return [strip.text.rstrip() for strip in drawn(text, width)]


def style_of(text: str, word: str):
    """The style of the run that holds `word`."""
    return next(run.style for strip in drawn(text, 200) for run in strip if word in run.text)


def assert_harmless(strips: list[Strip]) -> None:
    for strip in strips:
        for run in strip:
            bad = {c for c in run.text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
            assert bad - {"\u200c", "\u200d"} == set()
            assert run.style is None or run.style.link is None


@pytest.mark.sample(26)
@pytest.mark.parametrize(
    "frame",
    [
        "{}",
        "# {}",
        "- {}\n- [ ] {}",
        "> {}",
        "```{}\n{}\n```",
        "```python\n'{}' # {}\n```",
        "    {}",
        "| {} | b |\n|---|---|\n| `{}` | {} |",
        "<div>{}\n{}</div>",
        "<!-- {} -->",
        "a <b>{}</b>",
        "[{}](http://x/{})",
        "[a](<http://x/{}>)",
        "![{}](x.png)",
        "`{}` **{}** *{}*",
        "https://example.org/{}",
        "1. {}\n\n   {}",
    ],
)
@pytest.mark.parametrize("width", [1, 17, 80])
def test_nothing_that_steers_a_terminal_is_drawn(frame: str, width: int) -> None:
    assert_harmless(drawn(frame.replace("{}", HOSTILE), width))
    assert_harmless(plain(frame.replace("{}", HOSTILE), width, PALETTE))
    assert_harmless(
        render_diff("--- a/x\n+++ b/x\n@@ -1 +1 @@ " + HOSTILE + f"\n-{HOSTILE}\n+{frame}", width, PALETTE)
    )


def test_the_address_of_a_link_is_meta_data_and_harmless() -> None:
    style = style_of("see [the docs](https://example.org/a?b=1&c=&#x1b;x)", "the docs")
    assert style.meta["link"].startswith("https://example.org/a?b=1&c=")
    assert "\x1b" not in style.meta["link"]
    assert style.underline and style.link is None


def test_a_link_that_runs_a_script_is_no_link() -> None:
    assert rows("[x](javascript:alert(1))") == ["[x](javascript:alert(1))"]


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                ["- ", "1. ", "> ", "\n", "\n\n", "    ", "```", "|", "---", "**", "`", "[a](b)", "<b>"]
            ),
            st.sampled_from(["日本語", "👩‍👩‍👧", "e\u0301", "word", "a" * 50, "\t", "&nbsp;", "![i](u)"]),
            st.text(max_size=6),
        ),
        max_size=30,
    ).map("".join),
    st.integers(1, 60),
)
def test_no_row_is_wider_than_asked_and_none_is_harmful(text: str, width: int) -> None:
    strips = drawn(text, width)
    for strip in strips:
        assert strip.cell_length <= width
        assert strip.cell_length == sum(cell_len(run.text) for run in strip)
    assert_harmless(strips)


@pytest.mark.thorough
@given(st.lists(st.text("abcäé日本", min_size=1, max_size=9), min_size=1, max_size=40), st.integers(10, 60))
def test_wrapping_loses_no_word(words: list[str], width: int) -> None:
    text = " ".join(words)
    assert "".join(rows(text, width)).replace(" ", "") == text.replace(" ", "")


def test_text_is_wrapped_between_words() -> None:
    assert rows("the quick brown fox jumps", 10) == ["the quick", "brown fox", "jumps"]


def test_a_word_that_fits_no_row_is_cut() -> None:
    assert rows("see aaaaaaaaaaaaaaa b", 6) == ["see", "aaaaaa", "aaaaaa", "aaa b"]


def test_wide_characters_count_two_cells_and_may_be_cut_anywhere() -> None:
    assert rows("日本語のテキスト", 9) == ["日本語の", "テキスト"]


def test_no_row_begins_with_the_punctuation_of_a_wide_script() -> None:
    assert rows("日本語、です。", 6) == ["日本", "語、で", "す。"]


def test_a_family_of_signs_stays_one() -> None:
    family = "👩\u200d👩\u200d👧"
    assert rows(f"word {family} {family}", 7) == [f"word {family}", family]


def test_hard_breaks_are_kept_and_soft_ones_are_not() -> None:
    assert rows("a  \nb\\\nc\nd<br>e") == ["a", "b", "c d", "e"]


def test_emphasis_is_real() -> None:
    assert style_of("a **bold** b", "bold").bold
    assert style_of("a *slanted* b", "slanted").italic
    assert style_of("a ~~gone~~ b", "gone").strike
    both = style_of("***both***", "both")
    assert both.bold and both.italic


def test_inline_code_has_a_background_of_its_own_and_no_markdown_in_it() -> None:
    style = style_of("run `a **b**` now", "a **b**")
    assert style.bgcolor == PALETTE.style("text", "code_background").bgcolor


def test_headings_are_bold_in_the_accent_colour() -> None:
    for text in ("# Title", "### Title", "Title\n==="):
        style = style_of(text, "Title")
        assert style.bold and style.color == PALETTE.style("accent").color


def test_lists_nest_under_their_text_and_numbers_line_up() -> None:
    assert rows("9. nine\n10. ten\n    - inner\n      more\n11. eleven") == [
        " 9. nine",
        "10. ten",
        "    ◦ inner more",
        "11. eleven",
    ]


def test_wrapped_items_hang() -> None:
    assert rows("- one two three four", 13) == ["• one two", "  three four"]


def test_blank_lines_between_items_are_those_of_the_source() -> None:
    assert rows("- a\n- b\n\n- c\n\n  d") == ["• a", "• b", "", "• c", "", "  d"]


def test_the_state_of_a_task_is_a_glyph() -> None:
    assert rows("- [x] done\n- [ ] open\n- [link](x)\n1. [X] also") == [
        "✓ done",
        "○ open",
        "• link",
        "1. ✓ also",
    ]


def test_quotes_nest() -> None:
    assert rows("> a\n> > b\n>\n> - c") == ["▎ a", "▎", "▎ ▎ b", "▎", "▎ • c"]


def test_a_table_lines_up_by_cells() -> None:
    assert rows("| a | number |\n|:-:|--:|\n| 日本 | 1 |\n| `x` | 22 |") == [
        " a   │ number",
        "─────┼───────",
        "日本 │      1",
        " x   │     22",
    ]


def test_a_wide_table_shares_the_width() -> None:
    text = "| a | b |\n|---|---|\n| short | " + "words " * 20 + "|"
    found = rows(text, 30)
    assert len(found) > 4
    assert all(cell_len(row) <= 30 for row in found)
    assert found[2].startswith("short │ words")


def test_a_table_without_room_becomes_records() -> None:
    text = "| Name | Age | City |\n|---|---|---|\n| Ada | 36 | London |\n| Bob | 7 | Rome |"
    assert rows(text, 12) == [
        "Name: Ada",
        "Age: 36",
        "City: London",
        "────────────",
        "Name: Bob",
        "Age: 7",
        "City: Rome",
    ]


def test_html_is_text() -> None:
    assert rows("<div>\n<b>x</b>\n</div>") == ["<div>", "<b>x</b>", "</div>"]
    assert rows("a <b>x</b>") == ["a <b>x</b>"]


def test_images_are_named() -> None:
    assert rows("![a cat](cat.png) ![](x.png)") == ["[image a cat] [image]"]


def test_definitions_of_references_are_not_lost() -> None:
    assert rows("[docs]: https://example.org") == ["[docs]: https://example.org"]


def test_names_of_files_are_no_links_and_addresses_are() -> None:
    assert style_of("see main.py now", "main.py").meta == {}
    assert (
        style_of("see https://example.org now", "https://example.org").meta["link"] == "https://example.org"
    )


def test_entities_are_characters() -> None:
    assert rows("a &lt;b&gt; &amp; &copy;") == ["a <b> & ©"]


@pytest.mark.parametrize("mark", [">", "- ", "1. ", "> - "])
def test_what_is_nested_beyond_reason_is_shown_as_it_is(mark: str) -> None:
    found = rows(mark * 3_000 + "deep", 80)
    assert "deep" in "".join(found)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "piece", ["[", "*", "**a ", "`", "![", "<", "_a_", "~~", "[a](", "&#", "\\", "a*_", "|"]
)
def test_hostile_repetition_is_drawn(piece: str) -> None:
    strips = drawn("x" + piece * 3_000, 80)
    assert strips and all(strip.cell_length <= 80 for strip in strips)


def test_a_narrow_width_loses_no_line() -> None:
    assert "".join(rows("- a b c", 1)) != ""
    assert rows("abc", 1) == ["a", "b", "c"]
    assert "".join(rows("- abc\n  > deep", 3)) == "•abcdeep"


def test_a_continued_list_starts_at_its_number() -> None:
    assert [strip.text for strip in render(MarkdownBlock("list", "1. a\n1. b", "57"), 20, PALETTE)] == [
        "57. a",
        "58. b",
    ]


def test_plain_text_keeps_its_lines_indentation_and_markup() -> None:
    found = [strip.text for strip in plain("  a *b*\n\n\tc\n[red]x", 20, PALETTE, "error")]
    assert found == ["  a *b*", "", "        c", "[red]x"]


def test_plain_text_has_the_style_of_its_role() -> None:
    (strip,) = plain("x", 20, PALETTE, "error")
    assert [run.style for run in strip] == [PALETTE.style("error")]


def test_code_in_a_prepared_language_finds_its_lexer_made() -> None:
    lexer_for.cache_clear()
    prepare()
    made = lexer_for.cache_info().misses
    for language in PREPARED:
        drawn(f"```{language}\nif x: pass\n```")
    assert lexer_for.cache_info().misses == made == len(PREPARED)


@pytest.mark.thorough
def test_the_libraries_are_imported_when_something_is_drawn() -> None:
    code = (
        "import sys, widgets.transcript.markdown, widgets.transcript.diff\n"
        "print([name for name in ('markdown_it', 'pygments', 'linkify_it') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("text", ["word", "- a", "> a", "```\na\n```", "| a |\n|---|", "# a", "---", "<b>"])
def test_a_view_without_width_shows_nothing(text: str) -> None:
    assert {strip.cell_length for strip in drawn(text, 0)} <= {0}
