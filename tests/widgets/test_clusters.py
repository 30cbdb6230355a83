"""Emoji of several characters: what stands behind them has its place in every terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from widgets.painting.clusters import place_clusters
from widgets.painting.direct_rows import changed_cells

FAMILY, THUMB, FLAG, HEART, KEYCAP = "👨\u200d👩\u200d👧", "👍🏽", "🇩🇪", "❤\ufe0f", "1\ufe0f\u20e3"
CLUSTERS = (FAMILY, THUMB, FLAG, HEART, KEYCAP, "🏴\U000e0067\U000e0062\U000e007f")


def screen_row(drawn: str, joins: bool, width: int = 80) -> str:
    """Row 1 as a terminal shows it that joins clusters into two cells, or draws each character by itself."""
    cells, column = [" "] * width, 0
    for part in re.findall("\x1b\\[[0-9;]*[A-Za-z]|(?s:.)", drawn):
        if part.startswith("\x1b"):
            numbers = part[2:-1].split(";")
            if part[-1] in "HG":
                column = int(numbers[-1] or 1) - 1
            continue
        wide = (
            0
            if part in "\u200d\ufe0f\u20e3" or ord(part) > 0xE0000
            else 2
            if ord(part) > 0xFFFF
            else cell_len(part)
        )
        if joins and ("🏻" <= part <= "🏿" or (column and cells[column - 1] == "joined")):
            wide = 0
        for _ in range(wide):
            if column < width:
                cells[column] = part
            column += 1
    return "".join(cells)


@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_rule_beside_a_cluster_stands_straight_whatever_the_terminal_makes_of_it(
    cluster: str, joins: bool
) -> None:
    text = f"{cluster} family and {THUMB} skin"
    row = text + " " * (40 - cell_len(text)) + "│ pane"
    shown = screen_row(place_clusters(f"\x1b[1;1H\x1b[1m{row}\n"), joins)
    assert (
        shown[40:46] == "│ pane"
        and " family and " in shown
        and shown[cell_len(cluster) + 1 :].startswith("family")
    )


def test_a_cluster_at_the_very_end_spills_into_nothing() -> None:
    drawn = place_clusters(f"\x1b[1;41H│ pane\x1b[1;35H{'x' * 4}{FAMILY}\x1b[2;1Hnext")
    assert screen_row(drawn.partition("\x1b[2;1H")[0], joins=False)[40:46] == "│ pane"


@given(st.lists(st.sampled_from([*CLUSTERS, "word ", "漢字", "é", "\x1b[31m"]), max_size=8))
@settings(max_examples=60, deadline=None)
def test_nothing_is_lost_and_every_text_begins_at_its_counted_column(texts: list[str]) -> None:
    row = "".join(texts) + " " * 20
    drawn = place_clusters(f"\x1b[1;1H{row}│")
    plain = re.sub("\x1b\\[[0-9;]*m", "", row)
    assert screen_row(drawn, joins=False, width=160)[cell_len(plain)] == "│"
    assert all(drawn.count(each) >= texts.count(each) for each in CLUSTERS if each != HEART)


def test_a_picture_without_such_emoji_is_the_same_object() -> None:
    drawn = "\x1b[1;1H│ 漢字 😀 é"
    assert place_clusters(drawn) is drawn and place_clusters(FAMILY) == FAMILY


def test_a_row_with_a_cluster_is_written_whole() -> None:
    before, after = Strip([Segment(f"{FAMILY} one")]), Strip([Segment(f"{FAMILY} two")])
    assert changed_cells(before, after)[0] == 0
