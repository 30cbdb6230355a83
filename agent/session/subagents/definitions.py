"""Kinds of agents, each defined by a file: how such an agent works, and what it may use.

A file is YAML between two lines of `---`, then the agent's instructions. Any error in a file makes that kind
unusable, but no other kind: an agent whose limits cannot be read must not work without them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from agent.core.config import trust
from agent.core.config.document import SettingsDocument, UnusableError, decode
from agent.core.config.document import parse as parse_yaml
from agent.core.config.problem import SettingPlace, SettingProblem, short_text
from agent.core.config.settings_file import UnreadableSettingsError
from agent.core.home import Home
from agent.errors import ConfigError
from agent.model.effort import WORDS, parse_effort
from agent.model.protocol import Thinking
from agent.model.providers import resolve
from agent.session.spending.budget import Budget
from agent.session.subagents.records import Isolation
from tools.kit.lazy_pattern import lazy_pattern
from tools.registry import Registry
from tools.text.safe_text import clean
from tools.toolsets import members

if TYPE_CHECKING:
    from agent.core.config.schema import Settings


Source = Literal["built-in", "yours", "project"]

BUILTIN = Path(__file__).parent / "builtin"
LONGEST_NAME = 40
LONGEST_DESCRIPTION = 300
LONGEST_PROMPT = 20_000
"""The maximum number of characters, as for the two constants above."""
MOST_TOOLS = 64
TOLD = 4
"""The maximum number of problems shown when a session is opened; the others are only counted."""
UNTRUSTED = "This project brings agents of its own, which were not read; see `hermes config trust`."

_NAME = lazy_pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FENCE = lazy_pattern(r"---[ \t]*\r?")
_FIELDS = ("name", "description", "tools", "model", "effort", "budget", "isolation")
_MEASURES = ("turns", "tokens", "money", "seconds")
_STRICT: tuple[Isolation, ...] = ("shared", "copy", "readonly")
"""Isolation levels, from the loosest to the strictest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One kind of agent."""

    name: str
    description: str
    """One line on when to use such an agent."""
    prompt: str
    """The agent's instructions."""
    tools: tuple[str, ...] = ()
    """Toolsets or tools that it may use, among those of the agent that starts it; empty for all of them."""
    model: str = ""
    """The model that it uses; empty for the session's model."""
    effort: Thinking | None = None
    """The agent's thinking effort; None means the session's."""
    budget: Budget = field(default_factory=Budget)
    isolation: Isolation = "shared"
    """The loosest isolation with which it may work."""
    source: Source = "built-in"
    path: Path = Path()
    foreign: bool = False
    """True if it is a program other than Hermes, configured in the settings."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The result of reading a file: a definition, or its problems."""

    definition: Definition | None
    problems: tuple[SettingProblem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A file without a valid definition. Its name stays reserved, so that no other agent is used instead."""

    name: str
    source: Source
    path: Path
    problems: tuple[SettingProblem, ...]


@dataclass(frozen=True, slots=True)
class Catalog:
    """All definitions by name, sorted by name."""

    definitions: Mapping[str, Definition] = field(default_factory=dict)
    broken: Mapping[str, Broken] = field(default_factory=dict)
    hidden: Mapping[str, tuple[Source, ...]] = field(default_factory=dict)
    """The sources of overridden definitions, by the name of the kind."""
    problem: str = ""
    """The reason why the project's agents are not used; empty if there is none."""

    def notices(self) -> list[str]:
        """Return sentences about problems for the user; beyond `TOLD` broken files, only their number."""
        wrong = [str(problem) for each in self.broken.values() for problem in each.problems]
        more = [f"{len(wrong) - TOLD} more: see `hermes agents check`."] if len(wrong) > TOLD else []
        return [*([self.problem] if self.problem else []), *wrong[:TOLD], *more]


def is_name(text: str) -> bool:
    """Return whether `text` is a valid agent name: lower-case letters, digits and single hyphens."""
    return len(text) <= LONGEST_NAME and _NAME.fullmatch(text) is not None


def stricter(one: Isolation, other: Isolation) -> Isolation:
    """Return the stricter of two isolation levels."""
    return one if _STRICT.index(one) >= _STRICT.index(other) else other


def parse(content: bytes, file: str, source: Source = "yours", path: Path = Path()) -> Parsed:
    """Return the definition in the bytes of a file such as `reviewer.md`, or its problems. Never raises."""
    origin = f"agents/{short_text(file)}"
    try:
        front, body = _split_front_matter(decode(content))
    except UnusableError as wrong:
        return Parsed(None, (SettingProblem(origin, wrong.message, wrong.place),))
    # The line of the fence is left empty, so that line numbers are those of the file.
    document = parse_yaml(f"\n{front}".encode(), origin)
    reader = _Reader(document, origin, source)
    definition = reader.definition(file.removesuffix(".md"), body, path)
    problems = tuple(sorted(reader.problems, key=lambda each: each.place or SettingPlace(0, 0)))
    return Parsed(None if problems else definition, problems)


def _split_front_matter(text: str) -> tuple[str, str]:
    """Return front matter and body. Raises `UnusableError` if a line of `---` is missing."""
    lines = text.split("\n")
    if not _FENCE.fullmatch(lines[0]):
        raise UnusableError(
            "the first line must be `---`; begin with name and description.", SettingPlace(1, 1)
        )
    end = next((at for at, line in enumerate(lines[1:], 1) if _FENCE.fullmatch(line)), None)
    if end is None:
        raise UnusableError(
            "a second line of `---` is missing; put it before the instructions.", SettingPlace(1, 1)
        )
    return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :]).replace("\r\n", "\n").strip()


class _Reader:
    """Reads the fields of one file and collects their problems."""

    def __init__(self, document: SettingsDocument, origin: str, source: Source) -> None:
        self.problems = list(document.problems)
        self._document = document
        self._origin = origin
        self._source: Source = source

    def definition(self, stem: str, body: str, path: Path) -> Definition:
        """Return the definition; it may only be used if `problems` is empty."""
        for key in self._document.data:
            if key not in _FIELDS:
                near = get_close_matches(key, _FIELDS, 1)
                mend = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(_FIELDS)}."
                place = self._document.keys.get((key,))
                self.problems.append(
                    SettingProblem(self._origin, f"`{short_text(key)}` is unknown; {mend}", place, key)
                )
        return Definition(
            name=self._name(stem),
            description=self._description(),
            prompt=self._prompt(body),
            tools=self._tools(),
            model=self._model(),
            effort=self._effort(),
            budget=self._budget(),
            isolation=self._isolation(),
            source=self._source,
            path=path,
        )

    def _wrong(self, key: str, what: str) -> None:
        place = self._document.values.get((key,)) or self._document.keys.get((key,))
        self.problems.append(SettingProblem(self._origin, f"`{short_text(key)}` {what}", place, key))

    def _text(self, key: str) -> str:
        value = self._document.data.get(key, "")
        if isinstance(value, str):
            return value.strip()
        self._wrong(
            key, f"must be text; put {short_text(value, 30)} into quotes." if _is_plain(value) else _TEXT
        )
        return ""

    def _name(self, stem: str) -> str:
        if not is_name(stem):
            message = f"the file must be called NAME.md, NAME of a-z, 0-9 and -, at most {LONGEST_NAME} long."
            self.problems.append(SettingProblem(self._origin, message))
        said = self._text("name")
        if said and said != stem:
            self._wrong("name", f"must be that of the file; write {short_text(stem)}, or leave it out.")
        return stem

    def _description(self) -> str:
        text = " ".join(self._text("description").split())
        if not text and isinstance(self._document.data.get("description", ""), str):
            self._wrong("description", "is missing; say in one line when to send this agent.")
        if clean(text) != text:
            self._wrong("description", "holds characters that cannot be seen; remove them.")
        if len(text) > LONGEST_DESCRIPTION:
            self._wrong("description", f"is longer than {LONGEST_DESCRIPTION} characters; shorten it.")
        return text

    def _prompt(self, body: str) -> str:
        if not body:
            message = "there are no instructions; write below the second `---` how the agent works."
            self.problems.append(SettingProblem(self._origin, message))
        elif len(body) > LONGEST_PROMPT:
            message = f"the instructions are longer than {LONGEST_PROMPT:,} characters; shorten them."
            self.problems.append(SettingProblem(self._origin, message))
        return body

    def _tools(self) -> tuple[str, ...]:
        value = self._document.data.get("tools", [])
        if isinstance(value, str):
            value = value.split(",")
        if not isinstance(value, list) or not all(isinstance(each, str) and each.strip() for each in value):
            self._wrong("tools", "must be a list of toolsets or tools, such as [file, todo].")
            return ()
        if not value and "tools" in self._document.data:
            self._wrong("tools", "is empty; name what it may use, or leave it out for all its sender has.")
        if len(value) > MOST_TOOLS:
            self._wrong("tools", f"names more than {MOST_TOOLS}; name toolsets instead.")
        return tuple(dict.fromkeys(each.strip() for each in value))

    def _model(self) -> str:
        name = self._text("model")
        if self._source == "project" and name.startswith("local:"):
            self._wrong("model", "cannot name weights in a project; name a configured model.")
        if len(name) > 200 or not name.isprintable():
            self._wrong("model", "is not a name of a model; write it as provider/name.")
        return name

    def _effort(self) -> Thinking | None:
        value = self._document.data.get("effort")
        if value is None:
            return None
        try:
            # YAML reads a bare `off` as false.
            return parse_effort("off" if value is False else str(value))
        except ValueError:
            self._wrong("effort", f"must be {', '.join(WORDS)} or a number of tokens.")
            return None

    def _budget(self) -> Budget:
        value = self._document.data.get("budget", {})
        if not isinstance(value, dict):
            self._wrong("budget", "must be ceilings, such as {turns: 20, tokens: 100000}.")
            return Budget()
        limits: dict[str, Any] = {}
        for name, limit in value.items():
            whole = name in ("turns", "tokens")
            if name not in _MEASURES:
                self._wrong("budget", f"has no {short_text(name)}; it has {', '.join(_MEASURES)}.")
            elif not _is_number(limit) or limit <= 0 or (whole and limit != int(limit)):
                kind = "a whole number" if whole else "a number"
                self._wrong("budget", f"must have {kind} above 0 for {name}, not {short_text(limit, 30)}.")
            else:
                limits[name] = int(limit) if whole else float(limit)
        return Budget(**limits)

    def _isolation(self) -> Isolation:
        value = self._document.data.get("isolation", "shared")
        if value not in get_args(Isolation):
            self._wrong("isolation", "must be shared, readonly or copy.")
            return "readonly"
        return cast("Isolation", value)


_TEXT = "must be text in one line."


def _is_plain(value: object) -> bool:
    return isinstance(value, (bool, int, float))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True, slots=True)
class Definitions:
    """The sources of definitions: Hermes itself, its home folder, and the project around `workspace`."""

    home: Home
    workspace: Path
    further: tuple[Definition, ...] = ()
    """Definitions from the settings, which count as the user's own."""

    def load(self) -> Catalog:
        """Return all definitions, read from the files. Never raises for their contents.

        Definitions of a trusted project override the user's, and these override the built-in ones.
        """
        own = self.home.agents
        found = [_parse_all(_builtin(), {}, BUILTIN, "built-in")]
        found.append(_parse_all(*trust.read_agents(own, Path(os.path.realpath(own))), own, "yours"))
        found.append([Parsed(each) for each in self.further])
        project, problem = self._project()
        return _merge_layers([*found, project], problem)

    def _project(self) -> tuple[list[Parsed | Broken], str]:
        try:
            project = trust.read_project(self.home, self.workspace)
        except UnreadableSettingsError as error:
            return [], f"The agents of this project are not used: {error}."
        if project is None or not (project.agents or project.refused):
            return [], ""
        if not trust.is_trusted(self.home, project):
            return [], UNTRUSTED
        folder = project.root / trust.FOLDER / trust.AGENTS
        return _parse_all(project.agents, project.refused, folder, "project"), ""


def read_definition(path: Path, source: Source = "yours") -> Parsed:
    """Read the definition in one file at any path; return it, or its problems."""
    content, reason = trust.read_agent(path, Path(os.path.realpath(path.parent)))
    if reason:
        return Parsed(None, (SettingProblem(short_text(str(path), 300), f"{reason}."),))
    return parse(content, path.name, source, path)


def _builtin() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(BUILTIN.glob("*.md"))}


def _parse_all(
    contents: Mapping[str, bytes], refused: Mapping[str, str], folder: Path, source: Source
) -> list[Parsed | Broken]:
    made: list[Parsed | Broken] = []
    for name, content in contents.items():
        parsed = parse(content, name, source, folder / name)
        made.append(
            parsed if parsed.definition else _broken_definition(name, source, folder, parsed.problems)
        )
    for name, reason in refused.items():
        problem = SettingProblem(f"agents/{short_text(name)}", f"it is not read: {reason}.")
        made.append(_broken_definition(name, source, folder, (problem,)))
    return made


def _broken_definition(
    file: str, source: Source, folder: Path, problems: tuple[SettingProblem, ...]
) -> Broken:
    return Broken(name=file.removesuffix(".md"), source=source, path=folder / file, problems=problems)


def _merge_layers(layers: Iterable[Iterable[Parsed | Broken]], problem: str) -> Catalog:
    """Return the catalog of merged layers; later layers override earlier ones by name."""
    chosen: dict[str, Definition | Broken] = {}
    hidden: dict[str, tuple[Source, ...]] = {}
    for layer in layers:
        for each in layer:
            one = each if isinstance(each, Broken) else each.definition
            if one is None:
                continue
            if (before := chosen.get(one.name)) is not None:
                hidden[one.name] = (*hidden.get(one.name, ()), before.source)
            chosen[one.name] = one
    ordered = [chosen[name] for name in sorted(chosen)]
    return Catalog(
        {each.name: each for each in ordered if isinstance(each, Definition)},
        {each.name: each for each in ordered if isinstance(each, Broken)},
        hidden,
        problem,
    )


def doubts(
    definition: Definition, registry: Registry, settings: Settings, environ: Mapping[str, str]
) -> list[str]:
    """Return one sentence for each tool or model that a definition names and that does not exist here."""
    found = [
        f"`tools` names {clean(name)}, which is not a toolset or tool here; correct it or leave it out."
        for name in definition.tools
        if members(name, registry) is None
    ]
    if definition.model:
        try:
            target = resolve(settings, environ, definition.model)[0]
        except ConfigError as error:
            found.append(f"`model`: {clean(str(error))}")
        else:
            if target.kind == "demo":
                found.append("`model`: the demo model answers no agents; name another one.")
    return found
