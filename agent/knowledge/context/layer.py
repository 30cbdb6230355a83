"""A layer of the system prompt, its input, and its budget."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.knowledge.context.context_files import ContextFile
from agent.knowledge.context.quarantine import KeptPassage
from agent.knowledge.memory.service import MemoryBlock
from tools.parts import PartKind

CHARACTERS_PER_TOKEN = 4
"""The ratio assumed for prompt budgets, because the real one is unknown before the first request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Pieces of a part. If not all fit, some are left out, but none is shortened."""

    items: tuple[str, ...]
    between: str = "\n"
    """The separator between two entries."""
    end: str = ""
    """The text after the last entry."""
    head_stays: bool = False
    """Whether the text before the entries is shown even without any of them."""
    newest_last: bool = False
    """Whether the first entries are dropped first; by default the last ones are."""
    hint: str = ""
    """How the model can get the left-out entries."""
    evenly: bool = False
    """Whether the longest of adjacent parts in a layer shrinks first, so that each keeps its beginning; by
    default the last one shrinks first.
    """


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the system prompt and its source."""

    name: str
    """The name for the user."""
    text: str
    """The text; with `entries`, the text before them."""
    source: str = ""
    """The file it was read from; empty if it is built in."""
    truncated: bool = False
    """Whether the middle of that file was left out."""
    entries: Entries | None = None
    """Pieces that can be left out one by one; None: it is shown unchanged."""
    layer: str = ""
    """The layer it belongs to; set when the prompt is made, like `budget` and `left_out`."""
    budget: int | None = None
    """The maximum number of tokens of that layer; None: no separate budget."""
    left_out: tuple[str, ...] = ()
    """The beginnings of entries that were left out."""
    notes: tuple[str, ...] = ()
    """Notes on further changes to the part."""
    passages: tuple[KeptPassage, ...] = ()
    """Passages kept back because they read like an order to an agent."""


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """A skill in the index."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class PromptSection:
    """A section of the system prompt that a plugin adds."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts known when a session begins, from which the layers are made."""

    soul: ContextFile | None
    """The agent's identity, in the user's words."""
    project_files: Sequence[ContextFile]
    workspace: str
    date: str
    """The day the session began, without a time, so that the provider can cache the prompt."""
    tools: Collection[str]
    """The names of the offered tools."""
    platform: str
    tone: str = ""
    """The tone of the agent; empty for the plain one."""
    memory: Sequence[MemoryBlock] = ()
    """Notes from earlier sessions, by scope."""
    learnings: Sequence[str] = ()
    """Failures and fixes of earlier sessions, a line each, the most certain first."""
    brief: bool = False
    """Whether there is little room, so that built-in layers contain only what matters most."""
    skills: Sequence[SkillEntry] = ()
    """The usable skills, nearest scope first."""
    plugins: Sequence[PromptSection] = ()
    """The sections of plugins."""
    branch: str = ""
    """The branch of git that is checked out; empty without one."""
    budgets: Mapping[str, int] = field(default_factory=dict)
    """The maximum number of tokens of each layer, by name. Entries beyond that are left out; a layer that can
    shorten its entries instead reads this.
    """
    whole: int | None = None
    """The maximum number of tokens of all layers together; None: only their own budgets count."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the system prompt. `parts` is pure: the same facts give the same text."""

    name: str
    place: int
    """The position in the prompt; built-in layers have 10 to 90. Without room for all, later ones shrink
    first.
    """
    parts: Callable[[Facts], Iterable[Part]]


def of_file(name: str, file: ContextFile, text: str) -> Part:
    """Return a part of the prompt with `text`, which was read from a file."""
    return Part(name, text, str(file.path), file.truncated, notes=file.notes, passages=file.passages)


BEGINNING = 60
"""The number of characters by which a left-out entry is named."""


def fitted(parts: Sequence[Part], budgets: Mapping[str, int], whole: int | None) -> tuple[Part, ...]:
    """Return the parts with as many entries as fit into each layer's budget and into `whole`. Pure.

    `parts` name their layers and are in the order of the prompt. Texts without entries are never shortened.
    In the returned parts each entry is included in the text, or named in `left_out`.
    """
    kept = [_Shrinking(part) for part in parts]
    for name in dict.fromkeys(part.layer for part in parts):
        if name in budgets:
            _shrink([each for each in kept if each.part.layer == name], budgets[name])
    if whole is not None:
        _shrink(kept, whole)
    shown = (each.rendered(budgets.get(each.part.layer)) for each in kept)
    return tuple(part for part in shown if part.text)


def _shrink(parts: Sequence[_Shrinking], budget: int) -> None:
    """Leave out entries of the last parts first, until all parts fit into `budget` tokens."""
    over = sum(each.tokens for each in parts) - budget
    for group in reversed(_neighbours(parts)):
        while over > 0 and (left := [each for each in group if each.items]):
            longest = max(left, key=lambda each: each.tokens)
            before = longest.tokens
            longest.leave_one_out()
            over -= before - longest.tokens


def _neighbours(parts: Sequence[_Shrinking]) -> list[list[_Shrinking]]:
    """Group adjacent parts of one layer that share its room evenly. Each other part is a group of its own."""
    groups: list[list[_Shrinking]] = []
    for each in parts:
        last = groups[-1][-1].part if groups else None
        if last is not None and last.layer == each.part.layer and each.shares and groups[-1][-1].shares:
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


class _Shrinking:
    """A part, and which of its entries are still included."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.items = list(part.entries.items) if part.entries is not None else []
        self._left: list[str] = []
        self._stays = part.entries is None or part.entries.head_stays
        self._characters = len(self._text())

    @property
    def shares(self) -> bool:
        """Whether this part shares the room of its layer evenly with adjacent parts."""
        return self.part.entries is not None and self.part.entries.evenly

    @property
    def tokens(self) -> int:
        return math.ceil(self._characters / CHARACTERS_PER_TOKEN)

    def leave_one_out(self) -> None:
        entries = self.part.entries
        assert entries is not None
        gone = self.items.pop(0 if entries.newest_last else -1)
        self._left.insert(len(self._left) if entries.newest_last else 0, gone)
        # Counted by what went: rendering again for each of thousands would be quadratic.
        is_gone = not self.items and not self._stays
        mark = len(self._mark()) + len(entries.between) if len(self._left) == 1 else 0
        less = len(gone) + len(entries.between) - mark
        self._characters = 0 if is_gone else self._characters - less

    def rendered(self, budget: int | None) -> Part:
        named = tuple(" ".join(each.split())[:BEGINNING] for each in self._left)
        return replace(self.part, text=self._text(), entries=None, budget=budget, left_out=named)

    def _text(self) -> str:
        part, entries = self.part, self.part.entries
        if entries is None:
            return part.text
        if not self.items and not self._stays:
            return ""
        pieces = [*self.items]
        if self._left:
            pieces.insert(0 if entries.newest_last else len(pieces), self._mark())
        return part.text + entries.between.join(pieces) + entries.end

    def _mark(self) -> str:
        """Return the text that replaces the entries left out."""
        hint = f"; {self.part.entries.hint}" if self.part.entries and self.part.entries.hint else ""
        return f"[{len(self._left):,} more left out for want of room{hint}]"


log = logging.getLogger(__name__)

LAYERS = PartKind("layers", "agent.knowledge.context.layers")


def system_prompt(facts: Facts) -> tuple[Part, ...]:
    """Return the parts of a session's prompt, in order and within their budgets.

    `joined` makes one text of them. Imports the layers.
    """
    parts = [replace(part, layer=layer.name) for layer in layers() for part in layer.parts(facts)]
    return fitted(parts, facts.budgets, facts.whole)


def layers() -> list[Layer]:
    """Return all layers in order; one that cannot be loaded is logged and left out."""
    found: list[Layer] = [module.LAYER for module in LAYERS.load_all()[0]]
    return sorted(found, key=lambda layer: layer.place)


def joined(parts: Sequence[Part]) -> str:
    """Return the parts as the one text sent to the model."""
    return "\n\n".join(part.text for part in parts)
