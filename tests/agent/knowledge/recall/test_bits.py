"""Sets of places as bits: what is reckoned for all at once is what one by one gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.knowledge.recall import scoring

PLACES = st.sets(st.integers(0, 4 * 64 - 1), max_size=60)


@pytest.mark.thorough
@given(st.lists(st.tuples(PLACES, st.integers(1, 30)), max_size=6), st.integers(0, 40), PLACES)
@settings(deadline=None, max_examples=80)
def test_the_largest_sums_are_chosen(terms: list[tuple[set[int], int]], most: int, among: set[int]) -> None:
    sums = scoring.BitCounters()
    for places, value in terms:
        sums.add(scoring.of_numbers(places), value)
    chosen = list(scoring.numbers(sums.largest(most, scoring.of_numbers(among))))
    totals = {place: sum(value for places, value in terms if place in places) for place in among}
    expected = sorted(among, key=lambda place: (-totals[place], -place))[:most]
    assert chosen == sorted(expected)


@given(PLACES, st.sampled_from([1, 2, -1, -2]))
@settings(deadline=None, max_examples=60)
def test_places_move_within_their_lines(places: set[int], by: int) -> None:
    moved = set(scoring.numbers(scoring.move_places(scoring.of_numbers(places), by, 4)))
    assert moved == {place + by for place in places if (place + by) // 64 == place // 64 and place + by >= 0}


@given(PLACES)
@settings(deadline=None, max_examples=40)
def test_masks_of_lines_are_the_places_again(places: set[int]) -> None:
    masks = scoring.masks_of(places)
    assert set(scoring.numbers(scoring.joined(masks))) == places


@given(st.sets(st.integers(0, 5_000), min_size=1, max_size=400), st.booleans())
@settings(deadline=None, max_examples=60)
def test_dense_and_sparse_sets_are_the_same_numbers(places: set[int], is_dense: bool) -> None:
    if is_dense:
        places |= set(range(min(places), min(places) + 500))
    assert list(scoring.numbers(scoring.of_numbers(places))) == sorted(places)
    masks = scoring.masks_of(places)
    assert set(scoring.numbers(scoring.of_any(masks))) == {place // 64 for place in places}
