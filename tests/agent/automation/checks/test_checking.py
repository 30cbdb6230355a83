"""Each kind of check on what holds and on what does not, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.automation.checks.check import Evidence, carry_out, checks_of
from agent.errors import ConfigError


async def _run(command: str, seconds: float) -> tuple[int, str]:
    return (0, "12 passed") if command == "good" else (3, "1 failed")


_ONLY_X = {"patternProperties": {"^x": {}}, "additionalProperties": False}


def evidence(folder: Path, answer: str = "") -> Evidence:
    (folder / "a.txt").write_text("one\ntwo\n")
    return Evidence(answer=answer, folder=folder, calls=["read_file", "patch", "terminal"], run=_run)


@pytest.mark.sample(13)
@pytest.mark.parametrize(
    ("check", "answer", "passed"),
    [
        ({"contains": "PARIS"}, "It is Paris.", True),
        ({"contains": "London"}, "It is Paris.", False),
        ({"contains": "London", "not": True}, "It is Paris.", True),
        ({"exact": "42"}, " 42\n", True),
        ({"exact": "42"}, "42.", False),
        ({"regex": r"^\d+$"}, "so\n42\nand", True),
        ({"json_schema": {"type": "object", "required": ["a"]}}, 'Here:\n```json\n{"a": 1}\n```', True),
        ({"json_schema": {"type": "object", "required": ["a"]}}, "{}", False),
        ({"json_schema": {"type": "object"}}, "no json", False),
        ({"json_schema": {"type": 7}}, "{}", None),
        ({"json_schema": {"$ref": "#/lost"}}, "{}", None),
        ({"json_schema": {"$ref": "http://127.0.0.1:9/schema"}}, "{}", None),
        ({"json_schema": {"$ref": "#"}}, "{}", None),
        ({"json_schema": {"pattern": "^a+$"}}, '"aaa"', True),
        ({"json_schema": {"pattern": "^a+$"}}, '"aab"', False),
        ({"json_schema": {"patternProperties": {"^x": {"type": "string"}}}}, '{"x1": "a", "y": 1}', True),
        ({"json_schema": {"patternProperties": {"^x": {"type": "string"}}}}, '{"x1": 1}', False),
        ({"json_schema": _ONLY_X}, '{"x": 1}', True),
        ({"json_schema": _ONLY_X}, '{"y": 1}', False),
        ({"json_schema": {"additionalProperties": {"type": "null"}}}, '{"y": 1}', False),
        ({"file": "a.txt"}, "", True),
        ({"file": "b.txt"}, "", False),
        ({"file": {"path": "b.txt", "exists": False}}, "", True),
        ({"file": {"path": "a.txt", "exists": False}}, "", False),
        ({"file": {"path": "a.txt", "contains": "two"}}, "", True),
        ({"file": {"path": "a.txt", "exact": "one\ntwo"}}, "", True),
        ({"file": {"path": "a.txt", "regex": "^three"}}, "", False),
        ({"tools": {"exact": ["read_file", "patch", "terminal"]}}, "", True),
        ({"tools": {"exact": ["patch", "read_file", "terminal"]}}, "", False),
        ({"tools": {"subset": ["terminal", "patch"]}}, "", True),
        ({"tools": {"order": ["read_file", "terminal"]}}, "", True),
        ({"tools": {"order": ["terminal", "read_file"]}}, "", False),
        ({"command": "good"}, "", True),
        ({"command": "bad"}, "", False),
        ({"command": {"run": "bad", "exit": 3}}, "", True),
        ({"command": {"run": "good", "contains": "13"}}, "", False),
        ({"judge": "Is it right?"}, "", None),
        ({"judge": "Is it right?", "not": True}, "", None),
    ],
)
async def test_a_check_passes_where_it_holds(tmp_path: Path, check: Any, answer: str, passed: bool | None):
    (result,) = await carry_out(checks_of([check]), evidence(tmp_path, answer))
    assert result.passed is passed


async def test_a_file_outside_of_the_folder_is_not_looked_at(tmp_path: Path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "out").symlink_to(tmp_path)
    (tmp_path / "secret").write_text("x")
    (result,) = await carry_out(checks_of([{"file": "out/secret"}]), evidence(inner))
    assert (result.passed, result.detail) == (False, "the path leads out of the folder")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("contains", "`checks` is a list"),
        ([1], "a check is a mapping"),
        ([{}], "this one has nothing"),
        ([{"contain": "x"}], "this one has contain"),
        ([{"contains": "x", "exact": "y"}], "one kind"),
        ([{"contains": 1}], "`contains` has to be text"),
        ([{"regex": "("}], "not a regular expression"),
        ([{"file": "/etc/passwd"}], "within the folder"),
        ([{"file": {"path": "../x"}}], "within the folder"),
        ([{"tools": ["a"]}], "under one of exact, subset, order"),
        ([{"command": ""}], "is a command line"),
        ([{"judge": ""}], "is a rubric"),
        ([{"json_schema": "x"}], "is a schema"),
        ([{"command": {"run": "a", "after": 1}}], "`command.after` is unknown"),
    ],
)
def test_a_wrong_check_is_refused_with_what_is_wrong(given: Any, said: str):
    with pytest.raises(ConfigError, match=said):
        checks_of(given)


_SLOW, _ENDLESS = "^(a|aa)+$", "a" * 90 + "b"


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("check", "answer"),
    [
        ({"regex": _SLOW}, _ENDLESS),
        ({"regex": _SLOW, "not": True}, _ENDLESS),
        ({"file": {"path": "a.txt", "regex": _SLOW}}, ""),
        ({"json_schema": {"pattern": _SLOW}}, f'"{_ENDLESS}"'),
        ({"json_schema": {"patternProperties": {_SLOW: {}}}}, f'{{"{_ENDLESS}": 1}}'),
    ],
    ids=["regex", "negated", "file", "pattern of a schema", "names of a schema"],
)
async def test_a_pattern_that_takes_for_ever_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: Any, answer: str
):
    monkeypatch.setattr("agent.automation.checks.check.SECONDS", 0.05)
    here = evidence(tmp_path, answer)
    (tmp_path / "a.txt").write_text(_ENDLESS)
    (result,) = await carry_out(checks_of([check]), here)
    assert result.passed is None and "write a simpler one" in result.detail
