"""The first seconds of a start, drawn by lot: what is typed arrives, and what befalls it does no harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import first_seconds
from tests.support.thorough import thoroughly

PIECE = 10
"""Draws in one home: each start is also the next one after what befell the one before."""
ALL = thoroughly(*(range(at, at + PIECE) for at in range(0, 200, PIECE)))


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", [range(24, 25), *ALL])
def test_a_first_sentence_arrives_whole_and_begins_nothing_else(tmp_path: Path, seeds: range) -> None:
    with first_seconds.place(tmp_path) as there:
        for seed in seeds:
            first_seconds.typed(seed, there)


@pytest.mark.parametrize("seeds", [range(14, 16), *ALL])
def test_keys_sizes_and_signals_in_the_first_seconds_do_no_harm(tmp_path: Path, seeds: range) -> None:
    with first_seconds.place(tmp_path) as there:
        for seed in seeds:
            first_seconds.struck(seed, there)
        first_seconds.check_next(there)
