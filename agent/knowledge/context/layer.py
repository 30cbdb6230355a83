"""A layer of the system prompt, what it is made from, and what it has room for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.knowledge.context.context_files import ContextFile
from agent.knowledge.context.quarantine import KeptPassage
from agent.knowledge.memory.service import MemoryBlock

CHARACTERS_PER_TOKEN = 4
"""How budgets of the prompt are counted: before the first request nobody knows better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Pieces of a part that are shown whole or not at all, when there is no room for all of them."""

    items: tuple[str, ...]
    between: str = "\n"
    """What stands between two of them."""
    end: str = ""
    """What stands behind the last one."""
    head_stays: bool = False
    """Whether what stands before them is shown even without any of them."""
    newest_last: bool = False
    """Whether the first ones go first; as a rule the last ones do."""
    hint: str = ""
    """How the model gets at those that were left out."""
    evenly: bool = False
    """Whether of neighbours in one layer the longest gives way first, so that each keeps its beginning; as
    a rule the last one does."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the system prompt, and where it comes from."""

    name: str
    """What a person calls it."""
    text: str
    """The text; with `entries`, what stands before them."""
    source: str = ""
    """The file it was read from; empty if it is built in."""
    truncated: bool = False
    """Whether the middle of that file was left out."""
    entries: Entries | None = None
    """What can be left out piece by piece; None: it is shown as it is."""
    layer: str = ""
    """The layer it belongs to; filled in when the prompt is made, as are the next two."""
    budget: int | None = None
    """Tokens that layer may take; None: it has no budget of its own."""
    left_out: tuple[str, ...] = ()
    """The beginnings of entries that were left out."""
    notes: tuple[str, ...] = ()
    """What else was done to it."""
    passages: tuple[KeptPassage, ...] = ()
    """What was kept back of it because it reads like an order to an agent."""


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """A skill as the index names it."""

    name: str
    description: str


class PluginSection(Protocol):
    """A section that a plugin adds."""

    @property
    def name(self) -> str: ...

    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known when a session begins."""

    soul: ContextFile | None
    """Who the agent is, in the person's words."""
    project_files: Sequence[ContextFile]
    workspace: str
    date: str
    """The day it began, without a time, so that the provider can cache the prompt."""
    tools: Collection[str]
    """The names on offer."""
    platform: str
    tone: str = ""
    """How to speak; empty is plain."""
    memory: Sequence[MemoryBlock] = ()
    """What is remembered from earlier sessions, by scope."""
    learnings: Sequence[str] = ()
    """What failed in earlier sessions and what worked, a line each, the surest first."""
    brief: bool = False
    """Whether there is little room: layers of the program say only what matters most."""
    skills: Sequence[SkillEntry] = ()
    """The skills that can be used, nearest scope first."""
    plugins: Sequence[PluginSection] = ()
    """What plugins add."""
    branch: str = ""
    """The branch of git that is checked out; empty without one."""
    budgets: Mapping[str, int] = field(default_factory=dict)
    """Tokens each layer may take, by its name. Entries beyond are left out for it; a layer that can do
    better, such as by shortening its entries, looks here."""
    whole: int | None = None
    """Tokens of all layers together; None: only their own budgets count."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer. `parts` is pure: the same facts give the same text."""

    name: str
    place: int
    """Layers stand in the order of their places; those of the program have 10 to 90. Where there is no
    room for all, those behind shrink first."""
    parts: Callable[[Facts], Iterable[Part]]


def of_file(name: str, file: ContextFile, text: str) -> Part:
    """A part whose text was read from a file."""
    return Part(name, text, str(file.path), file.truncated, notes=file.notes, passages=file.passages)
