"""A result as a log of Inspect (its JSON form, version 2), with the conversations of its sessions. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent.automation.evaluation.figures import RunFigures, SuiteResult
from agent.core.store.nodes import Node
from agent.session.export.trajectories import openai_messages

_STOPS = {"done": "stop", "budget": "max_tokens"}


def inspect_log(
    result: SuiteResult, paths: Mapping[str, Sequence[Node]], created: str, version: str
) -> dict[str, Any]:
    """The log. `paths` are the nodes of sessions, secrets masked; `created` is an ISO time with zone."""
    summary = result.summary()
    model = result.model or "hermes"
    done = sum(each.outcome == "done" for each in result.runs_of_tasks)
    names = list(result.by_task())
    task = {"task": result.suite, "task_id": result.suite, "task_version": 0, "task_args": {}}
    metrics = {
        name: {"name": name, "value": value, "params": {}}
        for name, value in (("accuracy", summary["passed"]), ("mean", summary["score"]))
    }
    score = {"name": "checks", "scorer": "checks", "params": {}, "metrics": metrics}
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "run_id": f"{result.suite}-{result.seed}",
            "created": created,
            **task,
            "dataset": {"name": result.suite, "samples": len(names), "sample_ids": names},
            "model": model,
            "model_args": {},
            "config": {"epochs": result.runs},
            "packages": {"hermes": version},
            "metadata": {
                "seed": result.seed,
                "interval": summary["interval"],
                "cost": summary["cost"],
                "skills": result.skills,
                "memory": result.memory,
                "judge": None if result.judge is None else result.judge.to_json(),
            },
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {
            "total_samples": len(result.runs_of_tasks),
            "completed_samples": done,
            "scores": [score],
        },
        "stats": {"started_at": created, "completed_at": created, "model_usage": {}},
        "samples": [_sample(each, paths.get(each.session, ()), model) for each in result.runs_of_tasks],
    }


def _sample(figures: RunFigures, path: Sequence[Node], model: str) -> dict[str, Any]:
    messages = [_message(each) for each in openai_messages(path)["messages"]]
    asked = next((each["content"] for each in messages if each["role"] == "user"), "")
    said = next((each for each in reversed(messages) if each["role"] == "assistant"), None)
    answer = str(said["content"]) if said is not None else ""
    stop = _STOPS.get(figures.outcome, "unknown")
    choices = [{"message": said, "stop_reason": stop}] if said is not None else []
    failed = [str(check["check"]) for check in figures.checks if check.get("passed") is False]
    return {
        "id": figures.task,
        "epoch": figures.run,
        "input": asked,
        "target": "",
        "messages": messages,
        "output": {"model": model, "choices": choices},
        "scores": {
            "checks": {
                "value": figures.score,
                "answer": answer,
                "explanation": f"do not hold: {'; '.join(failed)}" if failed else figures.error or None,
                "metadata": {"passed": figures.passed, "outcome": figures.outcome},
            }
        },
        "metadata": {"session": figures.session, "calls": figures.calls, "tokens": figures.tokens},
        "store": {},
        "events": [],
        "model_usage": {},
        "attachments": {},
        "total_time": figures.seconds,
    }


def _message(given: Mapping[str, Any]) -> dict[str, Any]:
    """A message of chat completions as Inspect has it."""
    message: dict[str, Any] = {"role": given["role"], "content": given.get("content") or ""}
    if given["role"] == "assistant":
        message["source"] = "generate"
        calls = [
            {
                "id": call["id"],
                "function": call["function"]["name"],
                "arguments": _arguments(call["function"]["arguments"]),
                "type": "function",
            }
            for call in given.get("tool_calls") or ()
        ]
        if calls:
            message["tool_calls"] = calls
    if given["role"] == "tool":
        message["tool_call_id"] = given["tool_call_id"]
    return message


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        given = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        given = text
    return given if isinstance(given, dict) else {"arguments": given}
