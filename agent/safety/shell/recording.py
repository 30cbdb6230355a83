"""What following a shell text brings to light, kept so that many judges can look at it.

A text is followed once; whoever has something to say about it (the hardline, the
assessment of commands, rules, self-protection) is shown the same record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from agent.safety.shell import marks
from agent.safety.shell.judge import Judge
from agent.safety.shell.script import Interpreter
from agent.safety.shell.state import TangledError
from agent.safety.shell.values import Value


class Start(NamedTuple):
    """A program would be started; see `Judge.command`."""

    name: str
    arguments: tuple[str, ...]
    cwds: tuple[str, ...]
    word: str
    stdin: tuple[str, ...] | None

    def show(self, judge: Judge) -> None:
        judge.command(self.name, self.arguments, self.cwds, word=self.word, stdin=self.stdin)


class Opened(NamedTuple):
    """The shell itself would open a file."""

    path: str
    cwds: tuple[str, ...]
    writes: bool
    texts: tuple[str, ...] | None = None

    def show(self, judge: Judge) -> None:
        if self.writes:
            judge.written(self.path, self.cwds, self.texts)
        else:
            judge.read(self.path, self.cwds)


class Unsettled(NamedTuple):
    """A file was written to in a part that perhaps does not run; see `Judge.unsettled`."""

    path: str
    cwds: tuple[str, ...]

    def show(self, judge: Judge) -> None:
        judge.unsettled(self.path, self.cwds)


class Assigned(NamedTuple):
    """A variable would be set to one of the values."""

    name: str
    values: tuple[Value, ...]

    def show(self, judge: Judge) -> None:
        judge.assigned(self.name, self.values)


class Remark(NamedTuple):
    """Anything else a judge is told, by the name of the method that tells it."""

    method: str
    text: str

    def show(self, judge: Judge) -> None:
        getattr(judge, self.method)(self.text)


Event = Start | Opened | Unsettled | Assigned | Remark


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """The events of one text in the order they would happen, each once. A key of caches, by identity."""

    text: str
    """The text that was followed: without NUL and characters that could be taken for marks."""
    events: tuple[Event, ...]
    tangled: bool = False
    """Whether it was too involved to be followed to its end."""
    fault: str = ""
    """The kind of error that stopped the reading, if one did; a mistake of ours, never of the text."""

    def show(self, judge: Judge) -> None:
        """Let a judge look at everything. What the judge raises comes through."""
        for event in self.events:
            event.show(judge)


@lru_cache(maxsize=32)
def record(text: str, cwd: str, home: str) -> Recording:
    """Follow a shell text that starts in `cwd`. Never raises; takes time in proportion to its length.

    Says nothing about the disk, so a record stays true.
    """
    text = marks.unmarked(text)
    recorder = _Recorder()
    tangled, fault = False, ""
    interpreter = Interpreter(recorder, home, cwd, len(text))
    try:
        interpreter.run(text)
    except (TangledError, RecursionError):
        tangled = True
    except Exception as error:
        fault = type(error).__name__
    finally:
        interpreter.close()
    return Recording(text, tuple(recorder.events), tangled, fault)


class _Recorder:
    """A judge that only takes down what it is shown. Loops and functions are followed more than once."""

    def __init__(self) -> None:
        self.events: dict[Event, None] = {}

    def command(
        self,
        name: str,
        arguments: Sequence[str],
        cwds: Sequence[str],
        *,
        word: str = "",
        stdin: Sequence[str] | None = None,
    ) -> None:
        texts = None if stdin is None else tuple(stdin)
        self.events[Start(name, tuple(arguments), tuple(cwds), word, texts)] = None

    def written(self, path: str, cwds: Sequence[str], texts: Sequence[str] | None = None) -> None:
        held = None if texts is None else tuple(texts)
        self.events[Opened(path, tuple(cwds), True, held)] = None

    def unsettled(self, path: str, cwds: Sequence[str]) -> None:
        self.events[Unsettled(path, tuple(cwds))] = None

    def read(self, path: str, cwds: Sequence[str]) -> None:
        self.events[Opened(path, tuple(cwds), False)] = None

    def assigned(self, name: str, values: Sequence[Value]) -> None:
        self.events[Assigned(name, tuple(values))] = None

    def consulted(self, name: str) -> None:
        self.events[Remark("consulted", name)] = None

    def foreign(self, name: str) -> None:
        self.events[Remark("foreign", name)] = None

    def bomb(self, name: str) -> None:
        self.events[Remark("bomb", name)] = None

    def doubt(self, sentence: str) -> None:
        self.events[Remark("doubt", sentence)] = None
