"""The tools `rl_…`: choose an environment, configure a training run, start, monitor and stop it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tools.context import ToolContext
from tools.registry import Arguments, registry
from tools.results import Display, TextDetail
from tools.senses.services import until_ready
from tools.services.training_keeper import TrainingKeeper
from tools.text.safe_text import clean
from tools.text.words import plural

_RUN = {"run_id": {"type": "string"}}
Work = Callable[[Arguments, ToolContext], Awaitable[Mapping[str, Any]]]


async def _environments(_given: Arguments, context: ToolContext) -> Mapping[str, Any]:
    return await context.service(TrainingKeeper).environments()


async def _select(given: Arguments, context: ToolContext) -> Mapping[str, Any]:
    return await context.service(TrainingKeeper).select(given["name"], context.permit)


async def _configuration(_given: Arguments, context: ToolContext) -> Mapping[str, Any]:
    return await context.service(TrainingKeeper).configuration()


async def _edit(given: Arguments, context: ToolContext) -> Mapping[str, Any]:
    return await context.service(TrainingKeeper).edit(given["field"], given["value"])


async def _start(given: Arguments, context: ToolContext) -> Mapping[str, Any]:
    return await context.service(TrainingKeeper).start(given.get("run_id") or "", context.permit)


async def _status(given: Arguments, context: ToolContext) -> Mapping[str, Any]:
    return await context.service(TrainingKeeper).status(given["run_id"])


async def _stop(given: Arguments, context: ToolContext) -> Mapping[str, Any]:
    return await context.service(TrainingKeeper).stop(given["run_id"])


async def _results(given: Arguments, context: ToolContext) -> Mapping[str, Any]:
    return await context.service(TrainingKeeper).results(given["run_id"])


async def _runs(_given: Arguments, context: ToolContext) -> Mapping[str, Any]:
    return await context.service(TrainingKeeper).runs()


async def _test(given: Arguments, context: ToolContext) -> Mapping[str, Any]:
    tasks, group = given.get("num_steps", 2), given.get("group_size", 4)
    return await context.service(TrainingKeeper).test(tasks, group, given.get("model") or "", context.permit)


def _display_for(verb: str) -> Callable[[Arguments, Mapping[str, Any] | None], Display]:
    def describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
        named = arguments.get("run_id") or arguments.get("name") or arguments.get("field") or ""
        subject = clean(" ".join(f"{verb} {named}".split()))[:80]
        if result is None:
            return Display("train", subject)
        if result.get("error"):
            return Display("train", subject, clean(str(result["error"])))
        return Display("train", subject, clean(_outcome(result)), _detail(result))

    return describe


def _outcome(result: Mapping[str, Any]) -> str:
    if "environments" in result:
        return plural(len(result["environments"]), "environment")
    if "runs" in result:
        return plural(len(result["runs"]), "run")
    if "groups" in result:
        return f"{result.get('groups_whose_scores_differ')} of {len(result['groups'])} groups tell something"
    if "state" in result:
        steps = result.get("steps") or 0
        return f"{result.get('state')}, {plural(len(steps) if isinstance(steps, list) else steps, 'step')}"
    if "tasks" in result:
        return plural(result["tasks"], "task")
    return ""


def _detail(result: Mapping[str, Any]) -> TextDetail | None:
    lines: list[str] = []
    for name in ("environments", "runs", "groups"):
        rows = [each for each in result.get(name) or () if isinstance(each, Mapping)]
        lines += ["  ".join(str(value) for value in each.values()) for each in rows]
    configuration = result.get("configuration")
    if isinstance(configuration, Mapping):
        lines += [f"{name}: {value}" for name, value in configuration.items()]
    outcome = result.get("result")
    if isinstance(outcome, Mapping):
        lines += [f"{name}: {value}" for name, value in outcome.items()]
    return TextDetail(clean("\n".join(lines))) if lines else None


def _tool(name: str, verb: str, text: str, work: Work, properties: Mapping[str, Any], *needed: str) -> None:
    registry.register(
        name=name,
        toolset="rl",
        schema={
            "description": text,
            "parameters": {"type": "object", "properties": dict(properties), "required": list(needed)},
        },
        handler=work,
        describe=_display_for(verb),
        check_fn=until_ready,
        read_only=name in _LOOKING,
    )


_LOOKING = ("rl_get_current_config", "rl_check_status", "rl_get_results", "rl_list_runs")
_VALUE = {"description": "A number, a text, or for prompts a list of texts."}

_tool("rl_list_environments", "environments", "List the tasks one can train on.", _environments, {})
_tool(
    *("rl_select_environment", "select", "Train on this environment from now on.", _select),
    {"name": {"type": "string", "description": "A name of the list, or the path of a suite or task file."}},
    "name",
)
_tool("rl_get_current_config", "configuration", "Show what a training run would do.", _configuration, {})
_tool(
    *("rl_edit_config", "edit", "Change one field of the configuration.", _edit),
    {"field": {"type": "string"}, "value": _VALUE},
    *("field", "value"),
)
_tool(
    *("rl_start_training", "start", "Start a training run, which continues by itself.", _start),
    {
        "run_id": {
            "type": "string",
            "description": "A run that ended early, to continue with; else a new one.",
        }
    },
)
_tool("rl_check_status", "status", "Tell how far a training run is.", _status, _RUN, "run_id")
_tool("rl_stop_training", "stop", "End a training run; what it has stays.", _stop, _RUN, "run_id")
_tool("rl_get_results", "results", "Show the steps of a training run.", _results, _RUN, "run_id")
_tool("rl_list_runs", "runs", "List the training runs, newest first.", _runs, {})
_tool(
    *("rl_test_inference", "test", "Let a model work on a few tasks without training.", _test),
    {
        "num_steps": {"type": "integer", "description": "Tasks (2)."},
        "group_size": {"type": "integer", "description": "Tries at each (4)."},
        "model": {"type": "string"},
    },
)
