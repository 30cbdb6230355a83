"""`hermes cron next`: one schedule, or many lines of them."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from app.main import main


def answers(
    lines: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[int, list[Any]]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    code = main(["cron", "next", "--stdin", *more])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_one_schedule_is_answered_in_words_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["cron", "next", "30", "2", "*", "*", "*", "--tz", "Europe/Berlin", "--from", "2026-03-28T12:00"]
    assert main([*asked, "-n", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "At 02:30 every day (Europe/Berlin)",
        "  Sun 2026-03-29 03:00:00+02:00",
        "  Mon 2026-03-30 02:30:00+02:00",
    ]
    assert main([*asked, "-n", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "schedule": "30 2 * * *",
        "kind": "cron",
        "next": ["2026-03-29T03:00:00+02:00"],
        "text": "At 02:30 every day",
    }
    assert main(["cron", "next", "2020-01-01", "--tz", "UTC"]) == 0
    assert "never" in capsys.readouterr().out


def test_without_a_zone_that_of_the_machine_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    assert main(["cron", "next", "0 9 * * *", "--from", "2026-01-01T09:00", "-n", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["next"] == ["2026-01-02T09:00:00+05:45"]


def test_lines_are_answered_in_order_and_a_bad_one_shows_in_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"schedule": "every 2h", "tz": "UTC", "from": "2026-01-01T00:00:00Z", "count": 2}
    lines = [
        good,
        {**good, "schedule": "99 * * * *"},
        {**good, "tz": None, "count": None},
        {**good, "count": True},
        {**good, "from": "yesterday"},
        {"schedule": 5},
        {**good, "count": 0},
        [],
    ]
    data = b"\n".join(json.dumps(line).encode() for line in lines) + b"\n\n\xff\xfe\n" + b"[" * 90_000 + b"\n"
    code, found = answers(data, monkeypatch, capsys, "--tz", "Europe/Berlin")
    assert code == 2 and len(found) == 10
    assert found[0] == {
        "schedule": "every 2h",
        "kind": "interval",
        "next": ["2026-01-01T02:00:00+00:00", "2026-01-01T04:00:00+00:00"],
        "text": "Every 2 hours",
    }
    assert found[2]["next"][0] == "2026-01-01T03:00:00+01:00" and len(found[2]["next"]) == 5
    errors = [each["error"] for each in found if "error" in each]
    assert len(errors) == 8 and found[1]["schedule"] == "99 * * * *" and found[5]["schedule"] is None
    code, found = answers(json.dumps(good).encode(), monkeypatch, capsys)
    assert code == 0 and len(found) == 1
    long = b"[" * 300_000 + b"\n" + json.dumps(good).encode()
    code, found = answers(long, monkeypatch, capsys)
    assert code == 2 and ["error" in each for each in found] == [True, False]
    assert "longer than 100,000 bytes" in found[0]["error"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["next"], "A schedule is missing"),
        (["next", "30m", "-n", "0"], "ask for 1 to 10000"),
        (["next", "30m", "--from", "noon"], "is not an ISO time"),
        (["next", "30m", "--tz", "Mars"], "There is no time zone 'Mars'"),
        (["next", "30m", "--stdin"], "leave SCHEDULE out"),
        (["next", "30m", "--tz", ""], "There is no time zone ''"),
        (["next", "30m", "--from", ""], "'' is not an ISO time"),
        (["add", "30m", "x", "--cwd", ""], "--cwd is empty"),
    ],
)
def test_mistakes_are_one_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cron", *words]) == 2
    assert said in capsys.readouterr().err
