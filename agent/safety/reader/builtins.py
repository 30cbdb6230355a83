"""Shell builtins: the changes that they make to the shell's state, and their output if it is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agent.safety.reader.expansion import HIDDEN, ShellReader, unescaped
from agent.safety.reader.known_output import which
from agent.safety.reader.tree import GLOBS, UNKNOWN, value


def go(script: ShellReader, folder: str) -> None:
    if folder == "-" or UNKNOWN in folder or any(mark in folder for mark in GLOBS):
        script.state.go((UNKNOWN,))
    elif folder.startswith("/"):
        script.state.go((folder,))
    else:
        script.state.go(tuple(f"{cwd}/{folder}" for cwd in script.state.cwds))


def _cd(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str:
    operands = [word for word in arguments if word == "-" or not word.startswith("-")]
    home = script.state.get("HOME")
    go(script, operands[0] if operands else home if isinstance(home, str) else UNKNOWN)
    return ""


def _popd(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str:
    script.state.go((UNKNOWN,))
    return ""


def _eval(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    return script.run(" ".join(map(value, arguments)), stdin)


def _trap(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str:
    arguments = [word for word in arguments if word != "--"]
    if len(arguments) > 1 and arguments[0] not in ("-", ""):
        with script.state.perhaps():
            script.run(value(arguments[0]))
    return ""


def _source(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    if arguments and arguments[0] in ("/dev/stdin", "/dev/fd/0"):
        return run_input(script, stdin)
    if arguments and (known := script.state.files.get(arguments[0].removeprefix("./"))) is not None:
        return script.run(value(known), stdin)
    if not arguments or UNKNOWN in arguments[0] or arguments[0].startswith("/dev/fd/"):
        script.doubt("it runs text that is not known")
    return None


def run_input(script: ShellReader, stdin: str | None) -> str | None:
    if stdin is None:
        script.doubt("it runs text that is not known")
        return None
    return script.run(value(stdin))


def _alias(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str:
    for argument in arguments:
        name, equals, text = value(argument).partition("=")
        if equals:
            script.state.aliases[name] = text
    return ""


def _read(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str:
    _subscripts(script, arguments, stdin)
    names = [word for word in arguments if re.fullmatch(r"[A-Za-z_]\w*", word)] or ["REPLY"]
    script.assigned.update(names)
    lines = None if stdin is None else value(stdin).rstrip("\n").split("\n")
    if lines is not None and len(lines) == 1 and not any(word.startswith("-a") for word in arguments):
        found = lines[0].split(None, len(names) - 1)
        for place, name in enumerate(names):
            script.state.variables[name] = found[place] if place < len(found) else ""
    else:
        script.state.variables.update(dict.fromkeys(names, UNKNOWN))
    return ""


def _mapfile(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str:
    if any(word.startswith("-C") for word in arguments):
        script.doubt("part of it is not understood")
    name = arguments[-1] if arguments and not arguments[-1].startswith("-") else "MAPFILE"
    known = stdin is not None and UNKNOWN not in stdin
    script.state.variables[name] = (
        tuple(filter(None, re.split(r"[\n\0]", value(stdin or "")))) if known else UNKNOWN
    )
    return ""


def _set(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str:
    if "--" in arguments:
        script.state.positional = tuple(map(value, arguments[list(arguments).index("--") + 1 :]))
    elif arguments and not arguments[0].startswith(("-", "+")):
        script.state.positional = tuple(map(value, arguments))
    return ""


def _shift(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str:
    known = script.state.positional
    is_open = known is None or bool(arguments) or UNKNOWN in known
    script.state.positional = None if known is None or is_open else known[1:]
    return ""


def _echo(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str:
    words = list(arguments)
    escapes = False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        escapes |= "e" in words.pop(0)
    # Patterns are kept, because they would print file names.
    text = " ".join(words)
    return (unescaped(text) if escapes else text) + "\n"


def _printf(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str:
    rest = list(arguments)
    name = ""
    if rest[:1] == ["-v"]:
        _subscripts(script, arguments, stdin)
        name, rest = "".join(rest[1:2]), rest[2:]
    if rest[:1] == ["--"]:
        rest = rest[1:]
    if not rest:
        return ""
    form, values = unescaped(rest[0]), rest[1:]
    output = ""
    for _ in range(max(1, min(len(values), 64))):
        taken = 0

        def format_value(match: re.Match[str]) -> str:
            nonlocal taken
            if match[0] == "%%":
                return "%"
            taken += 1
            given = values.pop(0) if values else ""
            if match[1] == "s":
                return given
            return (
                unescaped(given)
                if match[1] in "bq"
                else (given if given.isdigit() and match[1] in "diu" else UNKNOWN)
            )

        output += re.sub(r"%%|%[-+ #0-9.*]*([a-zA-Z])", format_value, form)
        if not values or not taken:
            break
    if name:
        script.state.variables[name] = value(output)
        script.assigned.add(name)
        return ""
    return output


def _command(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    if arguments[:1] and re.fullmatch(r"-[vVp]*[vV]p*", arguments[0]):
        return which(script, arguments, stdin)
    rest = [word for word in arguments if word != "--"]
    while rest and rest[0] == "-p":
        rest.pop(0)
    if not rest:
        return ""
    functions, script.state.functions = script.state.functions, {}
    try:
        return script.start(rest, stdin)
    finally:
        script.state.functions = functions | script.state.functions


def _subscripts(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> None:
    """Record a doubt if a builtin that evaluates its arguments again is given a command substitution."""
    if any(HIDDEN.search(word) for word in arguments):
        script.doubt("part of it is not understood")


Handler = Callable[[ShellReader, Sequence[str], "str | None"], "str | None"]
BUILTINS: dict[str, Handler] = {
    "cd": _cd,
    "pushd": _cd,
    "popd": _popd,
    "eval": _eval,
    "trap": _trap,
    "source": _source,
    ".": _source,
    "alias": _alias,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "set": _set,
    "shift": _shift,
    "echo": _echo,
    "printf": _printf,
    "command": _command,
    "test": _subscripts,
    "[": _subscripts,
    "let": _subscripts,
    "wait": _subscripts,
}
