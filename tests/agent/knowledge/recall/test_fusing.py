"""Meaning adds to what words found and never takes it away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.knowledge.recall.recall import Contender, confidence, fuse, ordered_sessions, space_out

scores = st.lists(st.tuples(st.floats(0.01, 30), st.booleans(), st.none() | st.floats(-1, 1)), max_size=30)
cosines = st.lists(st.floats(-1, 1), max_size=10)
sureness = st.floats(0, 1)


@given(scores, cosines, sureness)
def test_what_words_put_at_the_nth_place_stays_among_the_first_2n(by_words, by_meaning, sure) -> None:
    by_words = sorted(by_words, key=lambda each: -each[0])
    found = [Contender(score, cosine, whole) for score, whole, cosine in by_words]
    found += [Contender(0.0, cosine) for cosine in by_meaning]
    order = fuse(found, sure)
    places = {at: place for place, (at, _) in enumerate(order)}
    assert sorted(places) == list(range(len(found)))
    for at, (_, whole, _) in enumerate(by_words[:20]):
        assert places[at] <= (at if whole else 2 * at + 1)


@pytest.mark.thorough
@given(scores, sureness)
def test_without_vectors_the_order_is_that_of_words(by_words, sure) -> None:
    found = [Contender(score, None, whole) for score, whole, _ in sorted(by_words, key=lambda each: -each[0])]
    assert [at for at, _ in fuse(found, sure)] == list(range(len(found)))


@given(scores, cosines, sureness)
def test_scores_never_grow_down_the_list(by_words, by_meaning, sure) -> None:
    found = [Contender(score, cosine, whole) for score, whole, cosine in by_words]
    found += [Contender(0.0, cosine) for cosine in by_meaning]
    given_scores = [score for _, score in fuse(found, sure)]
    assert given_scores == sorted(given_scores, reverse=True)


def test_meaning_counts_more_the_less_of_a_question_is_found() -> None:
    assert confidence(10, 10) == 1
    assert 0 < confidence(2, 10) < confidence(4, 10) < 1
    assert confidence(0, 10) == confidence(0, 0) == 0
    found = [Contender(5.0, 0.1), Contender(0.0, 0.6)]
    assert [at for at, _ in fuse(found, 1.0)] == [0, 1]
    assert [at for at, _ in fuse(found, 0.1)] == [1, 0]


@given(
    st.permutations(list(range(12))),
    st.lists(st.integers(0, 11), unique=True, max_size=12),
    st.floats(0.4, 1),
)
def test_no_session_falls_by_more_than_one_place_where_words_found_something(ranked, by_words, sure) -> None:
    order = ordered_sessions(ranked, by_words, sure)
    assert sorted(order) == sorted(ranked)
    for at, session in enumerate(by_words):
        assert order.index(session) <= at + 1
    assert ordered_sessions(ranked, by_words, 0.1) == ranked


@given(st.lists(st.sampled_from([1, 5]), max_size=30))
def test_what_is_in_every_home_takes_each_fifth_place_at_most(kinds) -> None:
    found = list(enumerate(kinds))
    order = space_out(found, lambda each: each[1])
    assert sorted(order) == found
    assert [each for each in order if each[1] == 1] == [each for each in found if each[1] == 1]
    last = max((at for at, (_, kind) in enumerate(order) if kind == 1), default=-1)
    assert all(kind == 1 or at % 5 == 4 for at, (_, kind) in enumerate(order[: max(last, 0)]))
    assert all(order.index(each) >= found.index(each) for each in found if each[1] == 5)
