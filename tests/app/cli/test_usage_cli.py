"""`hermes usage`, on real stores."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from functools import partial
from pathlib import Path

import pytest

from agent.core.store.store import Store
from agent.session.spending.report import UsageLine, UsageReport
from agent.session.spending.request_table import Payer, RequestAmount, State, add, agent_name
from app.cli.sessions.usage import cost, table_of
from app.main import main

HOSTILE = "p/\x1b]52;c;aGk=\x07[bold]model\u202e"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def _add(
    payer: Payer, amount: RequestAmount, state: State, created: float, connection: sqlite3.Connection
) -> None:
    add(connection, payer, amount, state, created, 0)


def fill(home: Path, *requests: tuple[dict[str, str], RequestAmount, State, float]) -> None:
    async def write() -> None:
        home.mkdir(mode=0o700, exist_ok=True)
        async with await Store.open(home / "state.db") as store:
            for who, amount, state, created in requests:
                payer = Payer(**{"session": "s", "project": "/p", "agent": "main", "model": "p/m", **who})
                await store.database.write(partial(_add, payer, amount, state, created))

    asyncio.run(write())


def usage(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["usage", *arguments]) == 0
    return capsys.readouterr().out


def test_a_home_without_sessions_has_spent_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert usage(capsys) == "No request was made in the last 30 days.\n"
    assert usage(capsys, "--days", "0") == "No request was made.\n"
    assert json.loads(usage(capsys, "--json")) == {"by": "day", "since": "", "lines": [], "total": None}
    assert not home.exists()


def test_the_table_adds_up_and_says_what_is_unknown_and_what_nobody_counted(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = time.time()
    fill(
        home,
        ({"agent": agent_name("scout")}, RequestAmount(1_000, 200, 400, 1.25), "counted", now),
        ({}, RequestAmount(10, 5, 0, None), "counted", now),
        ({}, RequestAmount(7_000, 900, 0, 0.5), "assumed", now),
    )
    lines = usage(capsys, "--by", "agent").splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["agent", "requests", "in", "cached", "out", "cost"],
        ["agent", "scout", "1", "1,000", "400", "200", "$1.25"],
        ["main", "agent", "2", "10", "0", "5", "$0.00+"],
        ["total", "3", "1,010", "400", "205", "$1.25+"],
    ]
    assert "The price of 1 request is not known" in lines[4]
    assert lines[5] == "1 request broke off before anybody counted: at most 7,900 tokens, $0.5000 more."


def test_json_holds_what_the_table_shows(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = time.time()
    fill(home, ({"model": "p/x"}, RequestAmount(10, 5, 2, None), "counted", now))
    found = json.loads(usage(capsys, "--json", "--by", "model"))
    line = {
        "requests": 1,
        "input": 10,
        "cached": 2,
        "output": 5,
        "cost": None,
        "unpriced": 1,
        "uncounted": 0,
        "assumed": 0,
        "assumed_cost": 0.0,
    }
    assert found["lines"] == [{"key": "p/x", **line}]
    assert found["total"] == {"key": "total", **line}


@pytest.mark.sample(2)
@pytest.mark.parametrize("by", ["model", "project", "agent"])
def test_hostile_names_steer_no_terminal(home: Path, capsys: pytest.CaptureFixture[str], by: str) -> None:
    who = {"model": HOSTILE, "project": HOSTILE, "agent": agent_name(HOSTILE + "x" * 500)}
    fill(home, (who, RequestAmount(1, 1, 0, 0.0), "counted", time.time()))
    for output in (usage(capsys, "--by", by), usage(capsys, "--by", by, "--json")):
        assert not set(output) & set("\x1b\x07\u202e")
    assert all(len(line) < 130 for line in usage(capsys, "--by", by).splitlines())


def test_only_the_days_asked_for_are_shown(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = time.time()
    state: State = "counted"
    fill(home, *[({}, RequestAmount(1, 1, 0, 0.0), state, now - days * 86_400) for days in (0, 5, 50)])
    found = [json.loads(usage(capsys, "--json", "--days", days)) for days in ("3", "30", "0")]
    assert [each["total"]["requests"] for each in found] == [1, 2, 3]


@pytest.mark.parametrize("days", ["-1", "1.5", "999999999", "x"])
def test_days_that_are_none_are_refused(home: Path, capsys: pytest.CaptureFixture[str], days: str) -> None:
    with pytest.raises(SystemExit) as left:
        main(["usage", "--days", days])
    assert left.value.code == 2
    assert "whole number" in capsys.readouterr().err or days == "-1"


def test_costs_are_shown_to_the_cent_or_finer() -> None:
    shown = [cost(UsageLine("x", 2, cost=value)) for value in (0.0, 0.0123, 1234.5)]
    assert shown == ["$0.00", "$0.0123", "$1,234.50"]
    assert cost(UsageLine("x", 2, unpriced=2)) == "unknown"
    assert table_of(UsageReport("day", "", (UsageLine("2026-03-28", 1),), UsageLine("total", 1)))[
        0
    ].startswith("day ")
