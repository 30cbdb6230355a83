"""Repositories of every layout, whatever somebody does between a step and its undo."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.support.repository_matrix import BETWEEN, LAYOUTS, STEPS, tried

USUAL = [
    ("plain", "commit", "looks"),
    ("plain", "commit", "packs"),
    ("plain", "commit", "elsewhere"),
    ("bare", "commit", "commits"),
    ("bare", "reset", "packs"),
    ("separate", "commit", "commits"),
    ("sha256", "amend", "fetches"),
    ("split index", "merge", "looks"),
    ("packed", "branches", "edits"),
    ("plain", "clone", "looks"),
]
ALL = [each for each in itertools.product(LAYOUTS, STEPS, BETWEEN) if each not in USUAL]


@pytest.mark.parametrize(
    "case", [*USUAL, *(pytest.param(each, marks=pytest.mark.thorough) for each in ALL)], ids=", ".join
)
async def test_a_repository_goes_back_whole_or_stays_whole(
    tmp_path: Path, case: tuple[str, str, str]
) -> None:
    outcome = await tried(tmp_path, *case)
    assert outcome.problems == ()
    if case[2] == "commits" and case[1] == "commit":
        assert outcome.left
