"""States follow from steps alone: checked against a model that keeps every state."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind, Step
from agent.workspace.checkpoints.state_listings import (
    State,
    alike,
    between,
    breaks,
    difference,
    last_states,
    targets,
)
from tests.agent.workspace.checkpoints.support import file

contents = st.none() | st.sampled_from(
    [file(b"1"), file(b"2"), file(b"1", 0o755), PathEntry(PathKind.LINK, 0, target="a")]
)


def step(number: int, *changes: PathChange) -> Step:
    return Step(number, "tool", "s", "", "", 0.0, "/", changes)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Step], dict[int, State]]:
    """Steps that nobody disturbed, some numbers missing, and the state after each."""
    state: State = {}
    steps: list[Step] = []
    states: dict[int, State] = {0: {}}
    number = 0
    for _ in range(draw(st.integers(0, 6))):
        number += draw(st.integers(1, 3))
        changes: list[PathChange] = []
        for path in draw(st.lists(st.sampled_from("abcd"), max_size=3)):  # a path may change twice in a step
            after = draw(contents)
            changes.append(PathChange(path, state.get(path), after))
            state = state | {path: after}
        steps.append(step(number, *changes))
        states[number] = state
    return steps, states


def standing(state: State) -> State:
    return {path: entry for path, entry in state.items() if entry is not None}


@pytest.mark.thorough
@given(histories())
def test_every_position_is_reached_from_the_end(history: tuple[list[Step], dict[int, State]]) -> None:
    steps, states = history
    now = states[max(states)]
    assert last_states(steps) == now
    for number, state in states.items():
        assert standing(now | targets(steps, number)) == standing(state)


@pytest.mark.thorough
@given(histories())
def test_differences_lead_from_any_position_to_any_other(
    history: tuple[list[Step], dict[int, State]],
) -> None:
    steps, states = history
    for first, before in states.items():
        for second, after in states.items():
            changes = difference(steps, first, second)
            assert [change.path for change in changes] == sorted(
                path for path in set(before) | set(after) if not alike(before.get(path), after.get(path))
            )
            for change in changes:
                assert (change.before, change.after) == (before.get(change.path), after.get(change.path))


@pytest.mark.thorough
@settings(max_examples=40, deadline=None)
@given(histories())
def test_a_history_nobody_disturbed_is_not_broken(history: tuple[list[Step], dict[int, State]]) -> None:
    assert breaks(history[0]) == {}


def test_what_others_changed_between_two_steps_is_named_with_the_step_that_found_it() -> None:
    one, two, three = file(b"1"), file(b"2"), file(b"3")
    steps = [
        step(1, PathChange("a", None, one), PathChange("b", None, one)),
        step(2, PathChange("a", two, three), PathChange("b", one, two)),
        step(5, PathChange("a", None, one)),
    ]
    assert breaks(steps) == {"a": (2, 5)}
    assert breaks(steps, 1) == {"a": (5,)}
    assert breaks(steps, 2) == {}
    # What somebody else wrote before step 2 belongs to position 1.
    assert targets(steps, 1) == {"a": two, "b": one}


def test_contents_that_were_not_kept_are_a_difference_and_a_break() -> None:
    unknown = PathEntry(PathKind.FILE, 0o644, 9, 1, None, reason="larger than 1 MB")
    steps = [step(1, PathChange("a", None, unknown)), step(2, PathChange("a", unknown, unknown))]
    assert breaks(steps) == {"a": (2,)}
    assert difference(steps, 1, 2) == (PathChange("a", unknown, unknown),)


def test_steps_are_found_by_number_also_where_numbers_are_missing() -> None:
    steps = [step(2), step(4), step(7)]
    assert [each.number for each in between(steps, 2, 6)] == [4]
