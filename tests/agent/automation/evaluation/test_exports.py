"""Results as other programs read them: a log of Inspect, an offline run of Weights & Biases."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.automation.evaluation.figures import RunFigures, SuiteResult, compare, read_result
from agent.automation.evaluation.report import inspect_log, write_run
from agent.core.store.nodes import Node
from agent.errors import ConfigError

CALL = {"id": "c1", "name": "read_file", "arguments": '{"path": "a"}'}
PATH = [
    Node(1, "s1", None, "system", 0.0, "You are Hermes.", {}),
    Node(2, "s1", 1, "user", 0.0, "What is in a?", {"origin": "prompt"}),
    Node(3, "s1", 2, "assistant", 0.0, "", {"calls": [CALL]}),
    Node(4, "s1", 3, "tool", 0.0, '{"content": "two"}', {"call": "c1", "tool": "read_file"}),
    Node(5, "s1", 4, "assistant", 0.0, "Two.", {}),
]


def result() -> SuiteResult:
    def run(task: str, number: int, passed: bool, session: str) -> RunFigures:
        check = {"check": "contains: two", "passed": passed, "detail": ""}
        return RunFigures(
            task, number, passed, float(passed), 1, 120, None, 1.5, "done", (check,), session, ""
        )

    return SuiteResult("mine", 2, 7, "m", "1.0", (run("a", 1, True, "s1"), run("a", 2, False, "")))


def log() -> dict[str, object]:
    return inspect_log(result(), {"s1": PATH}, "2026-11-24T00:00:00+00:00", "1.0")


def test_a_log_has_a_sample_for_every_run_with_its_conversation_and_score() -> None:
    made = json.loads(json.dumps(log()))
    assert (made["version"], made["status"], made["eval"]["dataset"]["sample_ids"]) == (2, "success", ["a"])
    first, second = made["samples"]
    assert [each["role"] for each in first["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert first["messages"][2]["tool_calls"][0]["arguments"] == {"path": "a"}
    assert (first["epoch"], first["scores"]["checks"]["value"], first["input"]) == (1, 1.0, "What is in a?")
    assert second["messages"] == [] and second["scores"]["checks"]["explanation"].endswith("contains: two")
    assert made["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 0.5


@pytest.mark.thorough
def test_inspect_reads_the_log(tmp_path: Path) -> None:
    reader = pytest.importorskip("inspect_ai.log", reason="inspect-ai is not installed")
    (tmp_path / "log.json").write_text(json.dumps(log()))
    read = reader.read_eval_log(str(tmp_path / "log.json"))
    assert read.status == "success" and read.eval.task == "mine" and len(read.samples) == 2
    assert read.samples[0].messages[3].tool_call_id == "c1"


def test_without_the_package_a_run_of_weights_and_biases_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(ConfigError, match="extra `wandb`"):
        write_run(result(), tmp_path)


@pytest.mark.parametrize(
    ("place", "change"),
    [
        ("run", {"score": "a"}),
        ("run", {"task": 5}),
        ("run", {"passed": "no"}),
        ("run", {"cost": []}),
        ("run", {"checks": [1]}),
        ("run", {"checks": [{"passed": False}]}),
        ("run", {"unknown": 1}),
        ("whole", {"suite": None}),
        ("whole", {"runs": "2"}),
        ("whole", {"results": [1]}),
        ("whole", {"results": None}),
    ],
)
def test_a_result_with_a_wrong_field_is_refused(tmp_path: Path, place: str, change: dict[str, Any]) -> None:
    given = json.loads(json.dumps(result().to_json()))
    (tmp_path / "result.json").write_text(json.dumps(given))
    assert read_result(tmp_path) == result()
    (given if place == "whole" else given["results"][0]).update(change)
    (tmp_path / "result.json").write_text(json.dumps(given))
    with pytest.raises(ConfigError, match="is not a result of") as refused:
        read_result(tmp_path)
    assert refused.value.exit_code == 2


def test_results_of_two_suites_are_not_compared() -> None:
    with pytest.raises(ConfigError, match="A is of the suite mine, B of other"):
        compare(result(), replace(result(), suite="other"))
