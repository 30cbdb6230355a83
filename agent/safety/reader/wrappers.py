"""Programs that run another program: where the inner command begins in their arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.safety.programs.table import Wrapper
from agent.safety.reader.marks import UNKNOWN, value, words

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.ASCII | re.DOTALL)
SHELLS = words("sh bash dash ash zsh ksh ksh93 mksh pdksh rbash yash fish csh tcsh")
_SHELL_VALUED = frozenset({"--rcfile", "--init-file", "-O", "+O", "-o", "+o"})


NOT_KNOWN = "it starts a program that is not known"
"""A doubt about a command, as a clause."""


@dataclass(frozen=True, slots=True)
class Inner:
    """What a wrapper runs: a command line, or shell text; with assignments before it."""

    argv: tuple[str, ...] = ()
    script: str | None = None
    assignments: tuple[tuple[str, str], ...] = ()
    folders: tuple[str, ...] = ()
    """Where the wrapper goes before that, one step after the other."""


def unwrap(wrapper: Wrapper, arguments: Sequence[str]) -> Inner | None:
    """The command inside the arguments of a wrapper; None when there is none."""
    assignments: list[tuple[str, str]] = []
    folders: list[str] = []
    skip, at, options = wrapper.skip, 0, True
    while at < len(arguments):
        argument = arguments[at]
        if options and argument == "--":
            options = False
        elif options and argument.startswith("-") and len(argument) > 1:
            script, consumed = _option(wrapper, arguments, at)
            if script is not None:
                rest = " ".join(_quoted(word) for word in arguments[at + consumed + 1 :] if wrapper.assigns)
                text = value(script).replace("\\_", " ") if wrapper.assigns else value(script)
                return Inner((), f"{text} {rest}".rstrip(), tuple(assignments), tuple(folders))
            folders += _folder(wrapper, arguments[at : at + consumed + 1])
            at += consumed
        elif wrapper.assigns and (match := ASSIGNMENT.fullmatch(argument)):
            assignments.append((match[1], match[3]))
        elif argument == UNKNOWN and not skip:
            pass  # an option whose name is not known, or nothing
        elif skip:
            skip -= 1
        else:
            break
        at += 1
    rest = tuple(arguments[at:])
    if not rest:
        return None
    if wrapper.joins:
        return Inner((), value(" ".join(rest)), tuple(assignments), tuple(folders))
    return Inner(rest, None, tuple(assignments), tuple(folders))


def _folder(wrapper: Wrapper, option: Sequence[str]) -> list[str]:
    """The folder that an option, with its value, says the command runs in."""
    if not wrapper.folder:
        return []
    first = option[0]
    if first.startswith("--"):
        name, _, attached = first[2:].partition("=")
    else:
        name = next((letter for letter in first[1:] if letter in wrapper.valued), "")
        attached = first.partition(name)[2] if name else ""
    return [attached or "".join(option[1:2])] if name in wrapper.folder else []


def _quoted(word: str) -> str:
    return "'" + value(word).replace("'", "'\\''") + "'"


def _option(wrapper: Wrapper, arguments: Sequence[str], at: int) -> tuple[str | None, int]:
    """The shell text an option holds, and the number of arguments that belong to it."""
    argument = arguments[at]
    following = arguments[at + 1] if at + 1 < len(arguments) else None
    if argument.startswith("--"):
        option, equals, attached = argument[2:].partition("=")
        if option in wrapper.script:
            return (attached, 0) if equals else (following, 1)
        return None, int(option in wrapper.valued and not equals)
    for place, letter in enumerate(argument[1:], start=2):
        rest = argument[place:]
        if letter in wrapper.script:
            return (rest, 0) if rest else (following, 1)
        if letter in wrapper.valued:
            return None, int(not rest)
    return None, 0


@dataclass(frozen=True, slots=True)
class ShellCall:
    """What a shell is asked to run."""

    script: str | None = None
    file: str | None = None
    reads_input: bool = False
    positional: tuple[str, ...] = ()


def shell_call(arguments: Sequence[str]) -> ShellCall:
    """What `sh arguments…` would run."""
    at = 0
    takes_script = reads_input = False
    while at < len(arguments):
        argument = arguments[at]
        if argument in ("--", "-"):
            at += 1
            break
        if argument in _SHELL_VALUED:
            at += 2
            continue
        if argument == "--command":
            takes_script = True
        elif argument.startswith("--") or argument == UNKNOWN:
            pass
        elif argument[:1] in ("-", "+") and len(argument) > 1:
            takes_script |= argument[0] == "-" and "c" in argument
            reads_input |= argument[0] == "-" and "s" in argument
            at += int(argument.endswith(("o", "O")))
        else:
            break
        at += 1
    rest = tuple(arguments[at:])
    if takes_script:
        return ShellCall(script=value(rest[0]) if rest else "", positional=rest[2:])
    if reads_input or not rest:
        return ShellCall(reads_input=True, positional=rest)
    return ShellCall(file=rest[0], positional=rest[1:])
