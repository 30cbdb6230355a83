"""Files of agent kinds: listing them with their problems, creating them from a template, editing them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.errors import ConfigError
from agent.session.subagents.definitions import Broken, Catalog, Definition, Definitions, Source, is_name
from tools.kit.files import write_new
from tools.text.safe_text import clean
from tools.text.words import plural

TEMPLATE = """\
---
name: {name}
description: Say in one line when to send this agent.
# Of what its sender has it may use: toolsets (file, terminal, code, todo, session, delegate), single tools.
# tools: [file, todo]
# readonly: it changes nothing. copy: it works in a copy of the project that you merge or discard.
# isolation: readonly
# model: provider/name
# budget: {{turns: 30, tokens: 200000, money: 0.50, seconds: 900}}
---
Say here how it works: what to begin with, what to look for, when to stop, and what its report has to hold.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentKind:
    """A kind of agent with its file, usable or not."""

    name: str
    source: Source
    path: Path
    definition: Definition | None
    """The parsed definition; None if the file is invalid."""
    problems: tuple[str, ...] = ()
    """Problems in the file."""
    doubts: tuple[str, ...] = ()
    """Reasons why the kind cannot be used with the current settings."""
    hides: tuple[Source, ...] = ()
    """The sources of other definitions with the same name, which are ignored."""

    @property
    def is_valid(self) -> bool:
        return not self.problems and not self.doubts


def kinds_of(catalog: Catalog, doubts: Mapping[str, Sequence[str]] | None = None) -> list[AgentKind]:
    """Return all kinds sorted by name; `doubts` holds, by name, reasons why a kind cannot be used. Pure."""
    found = [
        AgentKind(
            name=each.name,
            source=each.source,
            path=each.path,
            definition=each if isinstance(each, Definition) else None,
            problems=tuple(map(str, each.problems)) if isinstance(each, Broken) else (),
            doubts=tuple((doubts or {}).get(each.name, ())),
            hides=catalog.hidden.get(each.name, ()),
        )
        for each in (*catalog.definitions.values(), *catalog.broken.values())
    ]
    return sorted(found, key=lambda kind: kind.name)


def read_kinds(
    home: Home, workspace: Path, environ: Mapping[str, str] = os.environ
) -> tuple[list[AgentKind], str]:
    """Return all kinds with their problems, and the reason why kinds of the project are ignored, or "".

    Reads files and settings.
    """
    from agent.core.config.loader import load
    from agent.session.subagents.definitions import doubts
    from tools.discovery import discover
    from tools.registry import registry

    discover()
    loaded = load(home, environ, workspace)
    catalog = Definitions(home, workspace).load()
    doubted = {
        name: doubts(each, registry, loaded.settings, loaded.environ)
        for name, each in catalog.definitions.items()
    }
    return kinds_of(catalog, doubted), catalog.problem


def limits(definition: Definition) -> str:
    """Return an agent kind's tools and limits in a line: `file, todo · readonly · 40 requests`. Pure."""
    parts = [", ".join(map(clean, definition.tools)) or "all tools of its sender"]
    if definition.isolation != "shared":
        parts.append(definition.isolation)
    if definition.model:
        parts.append(clean(definition.model))
    budget = definition.budget
    parts += [
        plural(budget.turns, "request") if budget.turns else "",
        f"{budget.tokens:,} tokens" if budget.tokens else "",
        f"${budget.money:g}" if budget.money else "",
        f"{budget.seconds:g} s" if budget.seconds else "",
    ]
    return " · ".join(filter(None, parts))


def new_text(name: str) -> str:
    """Return the template for a new kind's file. Raises `ConfigError` if the name is not valid."""
    return TEMPLATE.format(name=valid_name(name))


def with_name(text: str, name: str) -> str:
    """Return the text of a kind's file with another value in its field `name`. Pure."""
    if text.count("---") < 2:
        return text
    fence, front, body = text.split("---", 2)
    return "---".join((fence, re.sub(r"(?m)^name:.*$", f"name: {name}", front, count=1), body))


def valid_name(text: str) -> str:
    """Return `text` as the name of a kind. Raises `ConfigError`."""
    name = text.strip().removeprefix("@")
    if not is_name(name):
        raise ConfigError(
            f"`{clean(name)[:60]}` is not a name for an agent; use a-z, 0-9 and single hyphens."
        )
    return name


def own_file(home: Home, name: str) -> Path:
    """Return the path of the user's own file for a kind, whether it exists or not."""
    return home.agents / f"{name}.md"


def create(home: Home, name: str, text: str) -> Path:
    """Write a new file for a kind; return its path. Raises `ConfigError` if it exists or cannot be made."""
    private_folder(home.root)
    private_folder(home.agents)
    path = own_file(home, valid_name(name))
    try:
        write_new(path, text.encode())
    except FileExistsError:
        raise ConfigError(f"{path} is there already; edit it, or choose another name.") from None
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror}; free the place and try again.") from None
    return path


def read_text(path: Path) -> str:
    """Return the text of a kind's file, even if it is not valid. Raises `ConfigError`."""
    from agent.core.config.trust import read_agent

    content, reason = read_agent(path, Path(os.path.realpath(path.parent)))
    if reason:
        raise ConfigError(f"{path} cannot be edited: {reason}.")
    return content.decode("utf-8", "replace")


def save(path: Path, text: str) -> None:
    """Overwrite the file of a kind. Raises `ConfigError`."""
    from tools.kit.files import write_atomically

    try:
        write_atomically(path, text.encode("utf-8", "replace"), PRIVATE_FILE)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"Cannot write {path}: {reason}; free the place and try again.") from None
