"""One program with its arguments, and what can be said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from agent.safety.commands.ground import Ground
from agent.safety.rules import Line
from agent.safety.shell.marks import GLOBS, UNKNOWN, words

RUNS_PROJECT = "runs a program of the project"
"""The reason for programs and scripts inside the workspace; a sandbox may make it harmless."""

_STARTING = words("-- exec run x dlx shell with foreach do watch record stat")
"""Words behind which stands what a program starts."""


@dataclass(frozen=True, slots=True)
class Program:
    """A file that would be run, by an interpreter or (language empty) by itself."""

    path: str
    """Where it lies; empty for a program that is only a text."""
    language: str = ""
    arguments: Sequence[str] = ()
    text: str | None = None
    """The program itself, where it is given as text."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What is said of one call: whether it may happen unasked, and one clause that says why."""

    kind: Literal["allow", "ask"]
    reason: str
    runs: Program | None = None
    """The program of the project it is about."""

    def __bool__(self) -> bool:
        """Whether it asks."""
        return self.kind == "ask"


@lru_cache(maxsize=1_024)
def fine(reason: str) -> Opinion:
    return Opinion("allow", reason)


@lru_cache(maxsize=1_024)
def ask(reason: str) -> Opinion:
    return Opinion("ask", reason)


def runs_text(text: str, language: str, reason: str, arguments: Sequence[str] = ()) -> Opinion:
    """The opinion on running a program given as text, before it is read; `reason` says how it is given."""
    return Opinion("ask", reason, Program("", language, tuple(arguments), text))


def runs(path: str, language: str = "", arguments: Sequence[str] = ()) -> Opinion:
    """The opinion on running a program of the project, before it is looked into."""
    return Opinion("ask", RUNS_PROJECT, Program(path, language, tuple(arguments)))


@dataclass(slots=True)
class Call(Line):
    """A command line, in one of the folders it would run in."""

    ground: Ground
    word: str = ""
    """How the program is called, with its folder."""
    stdin: Sequence[str] | None = None
    """The texts it may be given on standard input; None when they are not known."""
    inputs: Sequence[str] = ()
    """The files the shell opens as its standard input."""
    named: Set[str] = frozenset()
    """Names of files that earlier commands of the same script were given, or wrote to."""
    made: Set[str] = frozenset()
    """Files that were not there before, and that the shell itself opened for writing in the same script."""
    held: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What files may hold that the same script has written, by their absolute paths."""

    @property
    def unsure(self) -> bool:
        """Whether any argument is not known."""
        return any(UNKNOWN in argument for argument in self.arguments)

    @property
    def may_hide_options(self) -> bool:
        """Whether an argument may turn out to be an option nobody wrote."""
        return any(argument.startswith((UNKNOWN, *GLOBS)) for argument in self.arguments)

    @property
    def inside(self) -> bool:
        """Whether it would run in the workspace."""
        return self.ground.inside(self.cwd)

    def flag(self, *options: str) -> str | None:
        """The first argument that is one of the options: `-x`, `--word` or `--word=value`."""
        for argument in self.options():
            if argument in options or argument.partition("=")[0] in options:
                return argument
        return None

    def tells(self, *options: str) -> bool:
        """Whether the program is only asked for help or its version.

        Behind a word that starts something else such an option is not for the program itself.
        """
        for argument in self.arguments:
            if argument in options:
                return True
            if argument in _STARTING:
                return False
        return False

    def may_mean(self, *options: str) -> str | None:
        """Like `flag`, but the beginning of a long option counts as well, as many programs take it."""
        for argument in self.options():
            given = argument.partition("=")[0]
            short = given.startswith("--") and len(given) > 3
            if given in options or (short and any(option.startswith(given) for option in options)):
                return argument
        return None

    def changed(self, paths: Sequence[str]) -> Opinion | None:
        """What speaks against writing to the paths, which may be relative."""
        for path in paths:
            if reason := self.ground.write(self.path(path)):
                return ask(reason)
        return None

    def revealed(self, paths: Sequence[str]) -> Opinion | None:
        """What speaks against reading the paths."""
        for path in paths:
            if reason := self.ground.read(self.path(path)):
                return ask(reason)
        return None


Rule = Callable[[Call], Opinion]
