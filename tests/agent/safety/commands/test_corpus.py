from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.safety.commands.corpus import (
    EXPECTED,
    WORKSPACE,
    assessor,
    commands,
    everything,
    table,
    tallies,
)

JUDGE = assessor()
PAGE = Path(__file__).parents[4] / "docs" / "permissions-corpus.md"


@pytest.mark.parametrize("name", EXPECTED)
def test_every_command_is_judged_as_its_class_asks(name: str) -> None:
    wrong: list[tuple[str, str, tuple[str, ...]]] = []
    for command in commands(name):
        verdict = JUDGE.assess(command, WORKSPACE)
        told = verdict.kind == "allow" or verdict.reasons
        shown = all(reason.isprintable() and reason for reason in verdict.reasons)
        if verdict.kind != EXPECTED[name] or not told or not shown:
            wrong.append((command, verdict.kind, verdict.reasons))
    assert wrong == []


def test_the_corpus_is_large_and_has_no_doubles() -> None:
    found = [command for _, command in everything()]
    assert len(set(found)) == len(found) >= 400


def test_plain_work_hardly_ever_asks_and_nothing_destructive_is_silent() -> None:
    rows = {row.name: row for row in tallies()}
    everyday = [rows[name] for name in ("everyday", "build_test", "mentions")]
    assert sum(row.ask + row.hardline for row in everyday) <= 0.02 * sum(row.total for row in everyday)
    assert all(row.allow == 0 for name, row in rows.items() if EXPECTED[name] != "allow")
    assert rows["hardline"].hardline == rows["hardline"].total


def test_the_published_table_is_in_step() -> None:
    assert PAGE.read_text("utf-8") == table()
