"""Long lists are sorted in pieces, and come out as `sorted` has them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.workspace import project_tree
from agent.workspace.project_tree import PIECE, in_order


@given(st.lists(st.text(max_size=3)), st.integers(1, 5))
def test_pieces_make_one_whole(items: list[str], piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(project_tree, "PIECE", piece)
        assert in_order(items) == sorted(items)
        # What the key does not tell apart stays as it was.
        assert in_order(items, key=len) == sorted(items, key=len)


def test_no_single_sort_is_longer_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def counting(items: object, **options: object) -> list[int]:
        found = sorted(items, **options)  # type: ignore[call-overload]
        lengths.append(len(found))
        return found

    monkeypatch.setattr(project_tree, "sorted", counting, raising=False)
    numbers = list(range(5 * PIECE + 7))
    random.Random(1).shuffle(numbers)
    assert in_order(numbers) == list(range(len(numbers)))
    assert max(lengths) == PIECE
