"""What programs that search the folder they are in print when they print names of files."""

from __future__ import annotations

import re

from agent.safety.shell.marks import ANY, UNKNOWN, globbing, words
from agent.safety.shell.values import Arguments, Output

_GIT = words("ls-files grep diff")
_NEEDED = {
    "grep": re.compile(r"-[a-zA-Z]*l[a-zA-Z]*|--files-with-matches|--name-only"),
    "rg": re.compile(r"-[a-zA-Z]*l[a-zA-Z]*|--files(?:-with-matches)?"),
    "diff": re.compile(r"--name-only"),
}
"""What makes a program print nothing but names, one a line."""
_VALUED = {
    "rg": words("-g --glob -t --type -T --type-not -e -m --max-count"),
    "grep": words("-e -m --max-count"),
    "fd": words("-e --extension -t --type -E --exclude -d --max-depth"),
    "diff": words("--diff-filter"),
}
_PLAIN = re.compile(r"[\w./*?-]+")
_UPWARDS = re.compile(r"/|~|\.\.|.*/\.\.(?:/|$)")


def names(program: str, arguments: Arguments) -> Output:
    """Patterns for the files a search finds below its folder; None when it prints anything else.

    They begin with `./`, so that no name is mistaken for a command.
    """
    rest = list(arguments)
    if program == "git":
        if not rest or rest[0] not in _GIT:
            return None
        program = rest.pop(0)
    found = _chosen(program, rest)
    if found is None:
        return None
    operands, patterns = found
    if program in ("rg", "grep") and "--files" not in rest:
        operands = operands[1:]  # the first is what is looked for
    if program in ("ls-files", "diff"):
        patterns += [each for each in operands if "*" in each]
        operands = [each for each in operands if "*" not in each]
    if program == "diff":
        operands = []  # they may be commits; what is named lies below the top all the same
    if program == "fd":
        operands = operands[1:]
    if len(patterns) > 1 or any(not _PLAIN.fullmatch(e) or _UPWARDS.match(e) for e in (*operands, *patterns)):
        return None
    name = f"{ANY}/{globbing(patterns[0].rpartition('/')[2])}" if patterns else ANY
    roots = [f"./{each.removeprefix('./').rstrip('/')}" for each in operands if each != "."]
    files = [root for root in roots if not patterns]  # an operand may be a file
    return ["".join(f"{path}\n" for path in (*files, *(f"{root}/{name}" for root in roots or ["."])))]


def _chosen(program: str, rest: list[str]) -> tuple[list[str], list[str]] | None:
    """Operands and patterns of names; None when not only names are printed, or not all is known."""
    needed = _NEEDED.get(program)
    if any(UNKNOWN in each for each in rest) or (needed and not any(map(needed.fullmatch, rest))):
        return None
    operands: list[str] = []
    patterns: list[str] = []
    valued = _VALUED.get(program, frozenset())
    left = list(rest)
    while left:
        argument = left.pop(0)
        option, equals, value = argument.partition("=")
        if argument == "--":
            operands += left
            break
        if option in valued or option == "--include":
            value = value if equals else "".join(left[:1])
            left[: 0 if equals else 1] = []
            if option in ("-g", "--glob", "--include") and not value.startswith("!"):
                patterns.append(value)
            elif option in ("-e", "--extension") and program == "fd":
                patterns.append(f"*.{value}")
        elif argument.startswith("-"):
            # Options that leave the folder, print more than names, or bring in hidden files by choice.
            if re.match(
                r"--(?:hidden|no-ignore|unrestricted|base-directory|search-path|exec|null-data|file)",
                argument,
            ):
                return None
            if program in ("fd", "rg") and re.match(r"-[a-zA-Z]*[uHIxXf]", argument):
                return None
        else:
            operands.append(argument)
    return operands, patterns
