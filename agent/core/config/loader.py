"""The settings of a session, from all their sources.

Later sources override earlier ones: built-in defaults, `~/.hermes/config.yaml`, `.hermes/config.yaml` of a
trusted project, the environment, choices made for this session only. A faulty source never stops the program:
wrong entries are left out and reported, and the file is never changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from agent.core.config import settings_file, trust
from agent.core.config.document import SettingsDocument, parse
from agent.core.config.environment import env_file_problems, environment, override_layers
from agent.core.config.hook_list import Hook
from agent.core.config.layers import SettingsLayer, SettingSource, merge_layers
from agent.core.config.problem import Path as KeyPath
from agent.core.config.problem import SettingProblem
from agent.core.config.schema import Settings, hooks_of
from agent.core.home import Home

USER_FILE = "config.yaml"
PROJECT_FILE = ".hermes/config.yaml"


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings with their sources, their problems and the environment they were read with."""

    settings: Settings
    problems: tuple[SettingProblem, ...] = ()
    sources: Mapping[KeyPath, SettingSource] = field(default_factory=dict)
    """The sources of values; a setting without an entry has its default."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The environment, completed by `~/.hermes/.env`; provider keys are looked up here."""
    project: Literal["none", "trusted", "untrusted"] = "none"
    """`untrusted`: the workspace has settings that were not read; `hermes config trust` shows them."""
    project_hooks: tuple[Hook, ...] = ()
    """The hooks of a trusted project; each runs only after the user has consented to it separately."""

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """Return all declared hooks, those of the user's own settings first."""
        return (*hooks_of(self.settings), *self.project_hooks)


def load(
    home: Home,
    environ: Mapping[str, str] = os.environ,
    workspace: Path | None = None,
    *,
    thorough: bool = False,
    chosen: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Read all settings. Never raises for the contents of a file or a variable.

    `chosen` are settings for this session only, by section. Without `workspace` no project settings are read.
    `thorough` also reports wrong entries that have no effect because a later source overrides them.
    """
    variables = environment(home, environ)
    layers = [_user_layer(home)]
    state: Literal["none", "trusted", "untrusted"] = "none"
    brought: tuple[Hook, ...] = ()
    wrong: tuple[SettingProblem, ...] = ()
    if workspace is not None:
        state, layer, brought, wrong = _project_layer(home, workspace)
        layers.append(layer)
    layers += override_layers(variables)
    if chosen:
        layers.append(SettingsLayer("this session", SettingsDocument(dict(chosen))))
    merged = merge_layers(layers)
    problems = [*merged.problems, *wrong, *env_file_problems(home)]
    for layer in layers:
        problems += layer.document.problems
        problems += merge_layers([layer]).problems if thorough else ()
    return LoadedSettings(
        settings=merged.settings,
        problems=_in_order(problems, layers),
        sources=merged.sources,
        environ=variables,
        project=state,
        project_hooks=brought,
    )


def _user_layer(home: Home) -> SettingsLayer:
    try:
        content = settings_file.read_file(home.config)
    except settings_file.UnreadableSettingsError as error:
        problem = SettingProblem(USER_FILE, f"cannot be read: {error}. The defaults are used.")
        return SettingsLayer(USER_FILE, SettingsDocument(problems=(problem,)))
    return SettingsLayer(USER_FILE, parse(content, USER_FILE) if content else SettingsDocument())


def _project_layer(
    home: Home, workspace: Path
) -> tuple[
    Literal["none", "trusted", "untrusted"], SettingsLayer, tuple[Hook, ...], tuple[SettingProblem, ...]
]:
    """Return a project's settings as four members.

    They are the state of trust, the layer of permitted settings, the hooks, and the problems of the hooks.
    """
    nothing = SettingsLayer(PROJECT_FILE)
    try:
        project = trust.read_project(home, workspace)
    except settings_file.UnreadableSettingsError as error:
        problem = SettingProblem(PROJECT_FILE, f"is not used: {error}.")
        return "untrusted", SettingsLayer(PROJECT_FILE, SettingsDocument(problems=(problem,))), (), ()
    if project is None or project.config is None:
        return "none", nothing, (), ()
    if not trust.is_trusted(home, project):
        return "untrusted", nothing, (), ()
    document = parse(project.config, PROJECT_FILE)
    hooks: tuple[Hook, ...] = ()
    wrong: tuple[SettingProblem, ...] = ()
    if "hooks" in document.data:
        alone = replace(document, data={"hooks": document.data["hooks"]}, problems=())
        merged = merge_layers([SettingsLayer(PROJECT_FILE, alone)])
        hooks, wrong = tuple(hooks_of(merged.settings, str(project.root))), tuple(merged.problems)
    return "trusted", SettingsLayer(PROJECT_FILE, trust.restrict(document, PROJECT_FILE)), hooks, wrong


def _in_order(problems: list[SettingProblem], layers: list[SettingsLayer]) -> tuple[SettingProblem, ...]:
    """Return each problem once, by file in the order of `layers`, and by position within a file."""
    rank = {layer.origin: index for index, layer in enumerate(layers)}
    once = dict.fromkeys(problems)
    return tuple(sorted(once, key=lambda p: (rank.get(p.origin, len(rank)), p.place or (1 << 30, 0))))
