"""Order of the files of a run: those that cost most first, so that no worker ends with one alone.

`dearest_files.txt` names them, as the end of a run with `--dearest 60` does; the others follow by their
number of tests. Needs `--no-loadscope-reorder`, or the scheduler orders them by that number alone.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("dearest_files.txt")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    dear = {name: place for place, name in enumerate(LIST.read_text("utf-8").split())}
    counts = Counter(item.nodeid.partition("::")[0] for item in items)

    def place(item: pytest.Item) -> tuple[int, int]:
        name = item.nodeid.partition("::")[0]
        return dear.get(name, len(dear)), -counts[name]

    items.sort(key=place)
