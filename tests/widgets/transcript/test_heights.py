"""Heights: a Fenwick tree against a plain list."""

from hypothesis import given
from hypothesis import strategies as st

from widgets.transcript.document import Heights

heights = st.lists(st.integers(0, 9), max_size=40)


@given(
    heights, st.lists(st.tuples(st.sampled_from("acs"), st.integers(0, 50), st.integers(0, 9)), max_size=30)
)
def test_whatever_is_done_it_adds_up_like_a_list(start, steps):
    tree, plain = Heights(start), list(start)
    for step, index, height in steps:
        if step in "ac" or not plain:
            tree.append(height)
            plain.append(height)
        else:
            tree.set(index % len(plain), height)
            plain[index % len(plain)] = height
        assert [tree.before(at) for at in range(len(plain) + 1)] == [
            sum(plain[:at]) for at in range(len(plain) + 1)
        ]
        assert tree.total == sum(plain)


@given(heights, heights, st.integers(0, 400), st.data())
def test_what_is_added_above_counts_down_from_minus_one(below, above, row, data):
    tree, plain = Heights(below), list(below)
    for height in above:
        tree.prepend(height)
        plain.insert(0, height)
    first = -len(above)
    if plain:
        at = data.draw(st.integers(0, len(plain) - 1))
        tree.set(first + at, 5)
        plain[at] = 5
    assert [tree[first + at] for at in range(len(plain))] == plain
    assert [tree.before(first + at) for at in range(len(plain) + 1)] == [
        sum(plain[:at]) for at in range(len(plain) + 1)
    ]
    index, rest = tree.find(row)
    if row < sum(plain):
        assert 0 <= rest < tree[index] and tree.before(index) + rest == row
    else:
        assert (index, rest) == (len(below), row - sum(plain))


@given(heights, st.integers(0, 400))
def test_a_row_is_found_in_the_thing_that_holds_it(start, row):
    tree = Heights(start)
    index, rest = tree.find(row)
    if row < sum(start):
        assert 0 <= rest < start[index]
        assert sum(start[:index]) + rest == row
    else:
        assert (index, rest) == (len(start), row - sum(start))
