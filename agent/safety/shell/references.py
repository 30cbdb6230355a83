"""What the words of a script refer to: variables, the output of commands, home folders."""

from __future__ import annotations

from abc import ABC, abstractmethod

from agent.safety.shell.judge import Judge
from agent.safety.shell.marks import UNKNOWN
from agent.safety.shell.state import State
from agent.safety.shell.values import Output, Value


class References(ABC):
    """The `Scope` of words for whoever can follow a script, see `words`."""

    def __init__(self, judge: Judge, state: State) -> None:
        self.judge = judge
        self.state = state

    @abstractmethod
    def run(self, text: str, stdin: Output = None) -> Output:
        """Follow a script; returns what it may print. Raises `TangledError` when it is too involved."""

    def values(self, name: str) -> list[Value] | None:
        found = self.state.values(name)
        if found is None:
            self.judge.consulted(name)
        return found

    def spend(self, steps: int) -> None:
        self.state.spend(steps)

    def branch(self, fields: int) -> None:
        self.state.branch(fields)

    def set_default(self, name: str, values: list[Value]) -> None:
        self.state.assign(name, values)

    def output(self, script: str) -> list[str]:
        """What `$(script)` may print, without the closing line feeds."""
        with self.state.scope(merge=False):
            found = self.run(script)
        if found is None:
            return [UNKNOWN]
        self.state.spend(sum(map(len, found)) // 64)
        return [text.replace("\0", "").rstrip("\n") for text in found]

    def file_of(self, script: str, writes: bool) -> str:
        """A path that stands for `<(script)` or `>(script)`."""
        with self.state.scope(merge=False):
            found = self.run(script)
        path = f"/dev/fd/{self.state.name_once()}"
        if not writes and found is not None:
            self.state.put("file", path, found)
        return path

    def home(self, user: str) -> str:
        match user:
            case "":
                known = self.state.values("HOME")
                return known[0] if known and isinstance(known[0], str) else UNKNOWN
            case "+":
                return self.state.cwds[0]
            case "-":
                return UNKNOWN
            case "root":
                return "/root"
            case _:
                return f"/home/{user}"
