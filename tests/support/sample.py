"""Samples of parametrized tests: `@pytest.mark.sample(3)` leaves three of its cases in the usual run.

They are spread evenly over the list, beginning with the first; the others become `thorough`. A case that is
named on the command line is always one of them, as nothing else of its test is collected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    families: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sample") is not None:
            families[item.nodeid.partition("[")[0]].append(item)
    for family in families.values():
        mark = family[0].get_closest_marker("sample")
        assert mark is not None
        usual = set(spread(len(family), int(mark.args[0])))
        for place, item in enumerate(family):
            if place not in usual:
                item.add_marker(pytest.mark.thorough)


def spread(many: int, wanted: int) -> Sequence[int]:
    """Places of `wanted` of `many` things, evenly spread, beginning with the first. Pure."""
    return [place * many // wanted for place in range(wanted)] if wanted < many else range(many)
