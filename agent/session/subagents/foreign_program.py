"""Agents of other programs that the settings name: how each is started."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.errors import ConfigError
from agent.session.subagents.definitions import Definition, is_name

if TYPE_CHECKING:
    from agent.core.config.sections import ForeignAgentSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignProgram:
    """One program that speaks the Agent Client Protocol."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    env_passthrough: tuple[str, ...] = ()
    """Names of the person's variables that it gets besides the usual ones."""
    description: str = ""

    @property
    def line(self) -> str:
        """Its command line, for a person."""
        return shlex.join((self.command, *self.args))

    @property
    def definition(self) -> Definition:
        """The kind of agent that it is."""
        told = self.description or f"Another program ({self.name}) with tools and a model of its own."
        return Definition(name=self.name, description=told, prompt="", source="yours", foreign=True)


def foreign_programs(
    given: Mapping[str, ForeignAgentSettings],
) -> tuple[dict[str, ForeignProgram], list[str]]:
    """The programs of the settings by name, and what is wrong with the others, a sentence each. Pure."""
    found: dict[str, ForeignProgram] = {}
    problems: list[str] = []
    for name, entry in given.items():
        if not is_name(name):
            problems.append(f"The agent {name!r} of the settings needs a name of a-z, 0-9 and -.")
            continue
        try:
            words = shlex.split(entry.command)
        except ValueError as error:
            words = []
            problems.append(f"The command of the agent {name} cannot be read ({error}); close its quotes.")
        if not words:
            continue
        found[name] = ForeignProgram(
            name=name,
            command=words[0],
            args=tuple(words[1:]),
            env=dict(entry.env),
            env_passthrough=tuple(entry.env_passthrough),
            description=" ".join(entry.description.split())[:300],
        )
    return found, problems


def program_named(programs: Mapping[str, ForeignProgram], name: str) -> ForeignProgram:
    """The program of that name. Raises `ConfigError`."""
    if name not in programs:
        raise ConfigError(f"The agent {name} is not in the settings any more (agents.{name}); add it again.")
    return programs[name]
