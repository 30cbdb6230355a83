"""The settings of a session, from all places they can come from.

Later ones win: built-in defaults, `~/.hermes/config.yaml`, `.hermes/config.yaml` of a
trusted project, the environment. A broken place never stops the program: what is wrong
is left out and told, the file is never touched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agent.config import files, trust
from agent.config.document import Document, parse
from agent.config.environment import env_file_problems, environment, override_layers
from agent.config.layers import Layer, Source, settle
from agent.config.problem import Path as KeyPath
from agent.config.problem import Problem
from agent.config.schema import Settings
from agent.home import Home

USER_FILE = "config.yaml"
PROJECT_FILE = ".hermes/config.yaml"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and everything worth telling about them."""

    settings: Settings
    problems: tuple[Problem, ...] = ()
    sources: Mapping[KeyPath, Source] = field(default_factory=dict)
    """Where values come from; what is missing here is a default."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The environment with `~/.hermes/.env` below it; keys of providers are looked up here."""
    project: Literal["none", "trusted", "untrusted"] = "none"
    """`untrusted`: the workspace brings settings that were not read; `hermes config trust` shows them."""


def load(
    home: Home,
    environ: Mapping[str, str] = os.environ,
    workspace: Path | None = None,
    *,
    thorough: bool = False,
) -> Loaded:
    """Read all settings. Never raises for anything a file or a variable holds.

    Without `workspace` no project settings are looked for. `thorough` also tells of
    wrong entries that do no harm because something else overrides them.
    """
    variables = environment(home, environ)
    layers = [_user_layer(home)]
    state: Literal["none", "trusted", "untrusted"] = "none"
    if workspace is not None:
        state, layer = _project_layer(home, workspace)
        layers.append(layer)
    layers += override_layers(variables)
    settled = settle(layers)
    problems = [*settled.problems, *env_file_problems(home)]
    for layer in layers:
        problems += layer.document.problems
        problems += settle([layer]).problems if thorough else ()
    return Loaded(
        settings=settled.settings,
        problems=_in_order(problems, layers),
        sources=settled.sources,
        environ=variables,
        project=state,
    )


def _user_layer(home: Home) -> Layer:
    try:
        content = files.read_file(home.config)
    except files.UnreadableError as error:
        problem = Problem(USER_FILE, f"cannot be read: {error}. The defaults are used.")
        return Layer(USER_FILE, Document(problems=(problem,)))
    return Layer(USER_FILE, parse(content, USER_FILE) if content else Document())


def _project_layer(home: Home, workspace: Path) -> tuple[Literal["none", "trusted", "untrusted"], Layer]:
    nothing = Layer(PROJECT_FILE)
    try:
        project = trust.read_project(home, workspace)
    except files.UnreadableError as error:
        problem = Problem(PROJECT_FILE, f"is not used: {error}.")
        return "untrusted", Layer(PROJECT_FILE, Document(problems=(problem,)))
    if project is None or project.config is None:
        return "none", nothing
    if not trust.is_trusted(home, project):
        return "untrusted", nothing
    return "trusted", Layer(PROJECT_FILE, trust.restrict(parse(project.config, PROJECT_FILE), PROJECT_FILE))


def _in_order(problems: list[Problem], layers: list[Layer]) -> tuple[Problem, ...]:
    """Each problem once, by file in the order they are read, and by line within a file."""
    rank = {layer.origin: index for index, layer in enumerate(layers)}
    once = dict.fromkeys(problems)
    return tuple(sorted(once, key=lambda p: (rank.get(p.origin, len(rank)), p.place or (1 << 30, 0))))
