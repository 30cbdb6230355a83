"""The parts of one command as they stand in the tree: raw words, and what stands around them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(slots=True)
class Redirection:
    """All redirections of one command, as raw words."""

    targets: list[tuple[str, str]] = field(default_factory=list)
    """(operator, word) in order."""
    words: list[str] = field(default_factory=list)
    """Arguments of the command that stand behind a redirection."""
    here_string: str | None = None
    document: tuple[str, bool] | None = None
    """Body of a here-document, and whether it is taken literally."""
    takes_output: bool = False
    """Whether standard output goes to a file."""
    pipeline: list[Node] = field(default_factory=list)
    """Stages behind a here-document's start."""
    empties_input: bool = False
    """Whether the command reads the file its output goes to, which the shell has emptied by then."""
    followers: list[Node] = field(default_factory=list)
    """What follows `&&` or `||` behind a here-document's start."""


NO_REDIRECTION = Redirection()
"""For the many commands without any. Nobody changes it."""


class CommandLine(NamedTuple):
    """The parts of one simple command."""

    words: tuple[str, ...]
    """Raw words, also those behind redirections."""
    plain: bool
    """Whether the words stand for themselves, and nothing else is in the line."""
    several: bool
    """Whether what the grammar takes for one word goes on after the end of the command."""
    assignments: tuple[Node, ...]
    inside: tuple[Node, ...]
    """Statements in it: `time ( … )`."""
    around: Redirection
    script: str = ""
    """All of it, where the grammar took several lines for one command, as it does behind long pipelines."""
