"""Checks before a run begins: a model, names of toolsets, and whether the runner can be reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Literal

from agent.automation.batch.distribution import Distribution
from agent.automation.batch.task_file import NumberedTask
from agent.core.config.loader import LoadedSettings
from agent.errors import ConfigError, HermesError
from agent.session.wiring.routes import plan_routes
from agent.session.wiring.terminal_backend import backend_options
from tools.discovery import discover
from tools.results import ToolError
from tools.terminal.backends.opening import open_backend
from tools.toolsets import no_such


async def refuse_without_model(models: Set[str], loaded: LoadedSettings, environ: Mapping[str, str]) -> None:
    """Raise `HermesError` where none of `models` can be asked, so that every task would fail.

    An empty name is the usual model. Where some can be asked, tasks of the others tell why theirs cannot.
    """
    faults: list[HermesError] = []
    for model in sorted(models):
        try:
            await plan_routes(loaded.settings, environ, model or None)
        except HermesError as error:
            faults.append(error)
    if models and len(faults) == len(models):
        raise faults[0]


def refuse_unknown_toolsets(tasks: Sequence[NumberedTask], distribution: Distribution) -> None:
    """Raise `ConfigError` where a task or the distribution of a run names a toolset that there is not.

    Imports all tools if any is named. What servers bring is known when they have answered, so each session
    checks that.
    """
    if not distribution and not any(each.task.toolsets or each.task.distribution for each in tasks):
        return
    discover()
    if problem := _unknown(distribution):
        raise ConfigError(f"--distribution: {problem}")
    for each in tasks:
        if problem := _unknown((*each.task.toolsets, *each.task.distribution)):
            raise ConfigError(f"Task {each.shown}: {problem}")


async def refuse_unreachable(
    runner: Literal["docker", "ssh"], loaded: LoadedSettings, environ: Mapping[str, str], folder: Path
) -> None:
    """Raise `ConfigError` where no command can be run by `runner`, such as a host that is away.

    `folder` is one that the place can reach: that of the results.
    """
    ssh = loaded.settings.terminal.ssh
    if runner == "ssh" and not ssh.host:
        raise ConfigError("--runner ssh needs the name of a host; set terminal.ssh.host.")
    if runner == "ssh" and not ssh.shared:
        raise ConfigError(
            "Tasks of --runner ssh work in folders under -o, which the host has to have under the same "
            "path; if it does, set terminal.ssh.shared: true."
        )
    terminal = loaded.settings.terminal.model_copy(update={"backend": runner, "workdir": ""})
    options = backend_options(terminal, environ)
    assert options is not None
    try:
        backend = open_backend(options, folder)
        try:
            await backend.open()
        finally:
            await backend.aclose()
    except ToolError as error:
        raise ConfigError(f"--runner {runner}: {error}") from error


def _unknown(names: Iterable[str]) -> str:
    return no_such(name for name in names if not name.startswith("mcp"))
