"""Layers of the prompt are fitted into their budgets by whole entries, the lowest first."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from agent.knowledge.context.layer import CHARACTERS_PER_TOKEN, Entries, Part, fitted


def part(layer: str, count: int, *, size: int = 40, **entries: object) -> Part:
    items = tuple(f"{layer}-{number} ".ljust(size, "x") for number in range(count))
    return Part(layer.title(), f"# {layer}\n", entries=Entries(items=items, **entries), layer=layer)  # type: ignore[arg-type]


def test_what_fits_stays_whole() -> None:
    (shown,) = fitted([part("skills", 3)], {"skills": 100}, None)
    assert shown.text.count("skills-") == 3
    assert (shown.left_out, shown.budget, shown.entries) == ((), 100, None)


def test_entries_beyond_the_budget_of_their_layer_are_left_out_whole_and_named() -> None:
    (shown,) = fitted([part("skills", 9, hint="skills_list shows them")], {"skills": 50}, None)
    assert "skills-0" in shown.text
    assert "skills-8" not in shown.text
    assert all(len(line) == 40 for line in shown.text.split("\n") if line.startswith("skills-"))
    assert shown.left_out[-1].startswith("skills-8")
    assert f"[{len(shown.left_out)} more left out for want of room; skills_list shows them]" in shown.text


def test_the_oldest_go_first_where_the_newest_stand_last() -> None:
    (shown,) = fitted([part("memory", 9, newest_last=True)], {"memory": 50}, None)
    assert "memory-8" in shown.text
    assert "memory-0" not in shown.text


def test_when_all_together_are_too_much_the_lower_layers_shrink_first() -> None:
    parts = [part("project", 5), part("skills", 5), part("memory", 5)]
    shown = {each.layer: each for each in fitted(parts, {}, 90)}
    assert shown["project"].left_out == ()
    assert "memory" not in shown or len(shown["memory"].left_out) >= len(shown["skills"].left_out)
    assert len(shown["skills"].left_out) > 0


def test_files_that_share_their_room_each_keep_their_beginning() -> None:
    parts = [part("project", count, evenly=True) for count in (2, 40, 30)]
    shown = fitted(parts, {"project": 200}, None)
    assert ["project-0" in each.text for each in shown] == [True, True, True]
    assert [bool(each.left_out) for each in shown] == [False, True, True]
    assert sum(token_count(each.text) for each in shown) <= 200


def token_count(text: str) -> int:
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def test_what_has_no_entries_is_never_cut() -> None:
    care = Part("Care", "c" * 4_000, layer="care")
    assert fitted([care, part("memory", 3)], {}, 10) == (care,)


def test_a_head_that_stays_is_shown_without_its_entries() -> None:
    (shown,) = fitted([part("identity", 2, head_stays=True, size=4_000)], {"identity": 5}, None)
    assert shown.text.startswith("# identity")


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 12), st.integers(10, 300), st.booleans()), max_size=6
    ),
    st.integers(0, 500),
    st.integers(0, 1_500),
)
def test_no_budget_is_exceeded_by_more_than_the_marks(
    wanted: list[tuple[str, int, int, bool]], each: int, whole: int
) -> None:
    parts = [part(name, count, size=size, newest_last=last) for name, count, size, last in wanted]
    shown = fitted(parts, dict.fromkeys("abc", each), whole)
    room = 20 * len(shown)
    assert sum(token_count(one.text) for one in shown) <= whole + room
    for name in "abc":
        assert sum(token_count(one.text) for one in shown if one.layer == name) <= each + room
