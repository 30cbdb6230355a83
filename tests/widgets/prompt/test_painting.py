"""Every strip fills its row exactly, whatever is in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.containers import Container

from tests.widgets.prompt.test_buffer import ODD
from themes.skin import Skin
from widgets.palette import Palette
from widgets.prompt.buffer import TOKENS
from widgets.prompt.completion import CompletionChoice, CompletionMenu, paint_choice
from widgets.prompt.grapheme_cells import clamp
from widgets.prompt.picture import SearchView, View, lay_out, paint, paint_queue, paint_search, text_width

PALETTE = Palette(Skin())
LABELS = {chr(TOKENS[0]): "[paste #1 · 340 lines]"}
TEXTS = st.lists(st.sampled_from([*ODD, "longer word "]), max_size=15).map("".join)
HINTS = ("queued 1", "⏎ queue", "^S steer", "esc stop")


@pytest.mark.thorough
@given(TEXTS, st.integers(1, 60), st.integers(0, 60), st.integers(0, 60))
def test_rows_of_the_prompt_fill_the_width(text: str, width: int, at: int, other: int) -> None:
    cursor = clamp(text, at)
    low, high = sorted((cursor, clamp(text, other)))
    view = View(
        text=text,
        rows=lay_out(text, text_width(width), LABELS),
        height=3,
        width=width,
        cursor=cursor,
        selection=(low, high),
        hints=HINTS,
        placeholder="write",
        labels=LABELS,
    )
    for strip in paint(view, PALETTE):
        assert strip.cell_length == sum(segment.cell_length for segment in strip) == width
        assert "\n" not in strip.text


@given(TEXTS, st.integers(1, 60), st.integers(0, 9))
def test_search_menu_and_queue_fill_the_width(text: str, width: int, at: int) -> None:
    search = SearchView(
        query=text.replace("\n", "").replace("\t", "")[:3],
        match=text,
        span=(at, at + 3),
        place=(1, 2),
        width=width,
    )
    choice = CompletionChoice("", text.replace("\n", " ").replace("\t", " "), "<x>", text, (at,))
    strips = [paint_search(search, PALETTE), paint_choice(choice, True, width, width // 2, "1/9", PALETTE)]
    strips += paint_queue((text,) * 5, (text,) * 2, 2, width, PALETTE)
    for strip in strips:
        assert sum(segment.cell_length for segment in strip) == width
        assert "\n" not in strip.text


def test_a_long_hint_leaves_the_descriptions_in_one_column() -> None:
    for hint in ("", "[model]", "[what matters most]"):
        row = paint_choice(CompletionChoice("x", "/compact", hint, "A summary."), False, 80, 26, "", PALETTE)
        assert row.text.index("A summary.") == 28


def test_hints_give_way_to_the_text_from_the_front() -> None:
    def row(text: str) -> str:
        view = View(text=text, rows=lay_out(text, 57, {}), width=60, cursor=len(text), hints=HINTS)
        return paint(view, PALETTE)[0].text

    assert row("short").endswith("queued 1 · ⏎ queue · ^S steer · esc stop")
    assert row("x" * 25).endswith("x    ⏎ queue · ^S steer · esc stop")
    assert row("x" * 45).rstrip().endswith("  esc stop")
    assert row("x" * 55).rstrip().endswith("x")


async def test_one_long_choice_does_not_push_every_description_to_the_right() -> None:
    class Host(App[None]):
        def compose(self) -> ComposeResult:
            yield Container(CompletionMenu(), id="below")

    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        menu = host.query_one(CompletionMenu)
        long = CompletionChoice(
            "/checkpoint", "/checkpoint", "[name | list | diff <name> | restore <name>]", "Keep a point"
        )
        menu.show([CompletionChoice("/stop", "/stop", detail="Stop the turn"), long])
        await pilot.pause()
        assert menu.render_line(0).text.index("Stop the turn") < 40
        assert "Keep a point" in menu.render_line(1).text
