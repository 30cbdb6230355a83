"""The order in which files of tests are given to workers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.support.order import LIST, pytest_collection_modifyitems


def test_dear_files_come_first_and_the_others_by_their_number_of_tests() -> None:
    dear = LIST.read_text("utf-8").split()
    given = ["tests/a.py::one", f"{dear[1]}::x", "tests/b.py::one", "tests/b.py::two", f"{dear[0]}::x"]
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in given]
    pytest_collection_modifyitems(items)
    ordered = [item.nodeid for item in items]
    assert ordered == [given[4], given[1], given[2], given[3], given[0]]


def test_each_file_that_is_listed_as_dear_exists() -> None:
    root = LIST.parents[2]
    assert [name for name in LIST.read_text("utf-8").split() if not (root / name).is_file()] == []
