"""Everyday work inside each boundary: a part of the table in docs/sandbox.md, and the table itself."""

from __future__ import annotations

import pytest

from tests.agent.safety.sandbox.toolchains import (
    BEGIN,
    COLUMNS,
    END,
    NOT_TRIED,
    PAGE,
    WORKFLOWS,
    WORKS,
    outcome,
)
from tests.support.thorough import thoroughly

USUAL = (
    "npm: install a packed package",
    "make and gcc",
    "git: a work tree",
    "git: a filter",
    "git: sign with a key of the project",
    "git: a separate git folder",
)
ROWS = {each.name: each for each in WORKFLOWS}
PIP = "pip: install by a requirements file"
KNOWN = {
    ("yarn: install a folder by `file:`", "Landlock alone"),
    (PIP, "bubblewrap"),
    (PIP, "Landlock alone"),
}
"""What does not work, as the page says."""


@pytest.mark.parametrize("name", [*USUAL, *thoroughly(*(name for name in ROWS if name not in USUAL))])
@pytest.mark.parametrize("column", ["bubblewrap", *thoroughly("Landlock alone", "neither")])
def test_everyday_work_is_done_unasked_and_no_secret_is_read(name: str, column: str) -> None:
    how, said = outcome(ROWS[name], COLUMNS[column])
    assert how in (WORKS, NOT_TRIED) or (name, column) in KNOWN, said


def test_the_page_has_a_row_for_each_workflow() -> None:
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert [row.split(" | ")[0].removeprefix("| ") for row in table.splitlines()[2:]] == list(ROWS)
