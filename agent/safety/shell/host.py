"""What the parts of the interpreter need of the whole: they are handed it, and import nothing above them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent.safety.shell.judge import Judge
from agent.safety.shell.state import State
from agent.safety.shell.tree import Source
from agent.safety.shell.values import Arguments, Output
from agent.safety.shell.words import Scope


class Host(Scope, Protocol):
    """The shell whose script is followed; see `script.Interpreter`."""

    judge: Judge
    state: State
    source: Source
    """The text that is followed now."""

    def run(self, text: str, stdin: Output = None) -> Output:
        """Follow a script; returns what it may print. Raises `TangledError` when it is too involved."""
        ...

    def call_function(self, name: str, arguments: Sequence[str], stdin: Output) -> Output:
        """Follow a function that was defined before, with these arguments."""
        ...


class Starter(Protocol):
    """What starts command lines in a shell; see `commands.Commands`."""

    @property
    def shell(self) -> Host: ...

    def invoke(self, argv: Arguments, stdin: Output, functions: bool = True) -> Output:
        """Follow one command line; returns what it may print. Only the shell itself calls `functions`."""
        ...
