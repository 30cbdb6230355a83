"""Repositories of every layout, whatever somebody does between a step and its undo."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.support.repository_matrix import BETWEEN, LAYOUTS, STEPS, copied, tried
from tests.support.thorough import thoroughly

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


COPIED = [("work tree", "commit"), ("bare", "amend")]


@pytest.mark.parametrize(
    "case",
    [
        *COPIED,
        *thoroughly(
            *(each for each in itertools.product(LAYOUTS, ("commit", "amend")) if each not in COPIED)
        ),
    ],
    ids=", ".join,
)
async def test_a_copy_for_an_attempt_is_the_same_and_leaves_the_original_alone(
    case: tuple[str, str], tmp_path: Path
) -> None:
    assert await copied(tmp_path, *case) == ()
