"""Programs that hand names on to others: `find`, `xargs`, containers, aliases of git."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

from agent.safety.names import DELETERS, OWNERS
from agent.safety.programs.table import programs
from agent.safety.reader.containers import container
from agent.safety.reader.marks import ANY, UNKNOWN, globbing, pattern, value
from agent.safety.reader.reading import Touched
from agent.safety.reader.shell import ShellReader
from agent.safety.reader.wrappers import NOT_KNOWN, unwrap

_MOST = 64
"""Lines of input that are read one by one."""


def _find(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str:
    at = 0
    while at < len(arguments) and (
        arguments[at] in ("-L", "-H", "-P") or arguments[at].startswith(("-O", "-D"))
    ):
        at += 1
    start = at
    while at < len(arguments) and not (arguments[at].startswith("-") or arguments[at] in ("(", "!", ")")):
        at += 1
    tests = list(arguments[at:])
    roots = list(arguments[start:at]) or ["."]
    actions = ("-delete", "-exec", "-execdir", "-ok", "-okdir")
    tail = _named(tests[: next((place for place, test in enumerate(tests) if test in actions), len(tests))])
    paths = [root if UNKNOWN in root else f"{root.rstrip('/')}/{tail}" for root in roots]
    if tail == ANY and not any(".git" in test for test in tests):
        # A search finds hidden names too, which no pattern of the shell does.
        here = (".", "..", *script.state.cwds)
        paths += [f"{root.rstrip('/')}/.git" for root in roots if root.rstrip("/") in here]
    rest = tests
    while rest:
        test = rest.pop(0)
        if test == "-delete":
            script.record("rm", ("-r", *paths))
        elif test in ("-fprint", "-fprintf", "-fls", "-fprint0") and rest:
            script.writes[Touched(rest[0], script.state.cwds)] = None
        elif test in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next(
                (place for place, word in enumerate(rest) if word == ";" or (word == "+" and place)),
                len(rest),
            )
            inner, rest = rest[:end], rest[end + 1 :]
            for path in paths:
                if inner:
                    argv = [word.replace("{}", path) for word in inner]
                    if argv[0] == "shred":
                        argv = ["rm", *argv]
                    deep = "-r" if argv[0] in DELETERS else "-R" if argv[0] in OWNERS else ""
                    script.apart([argv[0], deep, *argv[1:]] if deep else argv)
    return "".join(f"{path}\n" for path in paths)


def _named(tests: Sequence[str]) -> str:
    """What the names of the files look like that `find` finds below its root."""
    if {"-o", "-or", "!", "-not", ","} & set(tests):
        return ANY
    for place, test in enumerate(tests[:-1]):
        if test in ("-name", "-iname"):
            name = globbing(value(tests[place + 1]))
            wide = pattern(name).fullmatch("x9") is not None
            return ANY if wide or UNKNOWN in name else f"{ANY}/{name}"
    return ANY


def _xargs(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> None:
    program = programs()["xargs"]
    assert program.wraps is not None
    inner = unwrap(program.wraps, arguments)
    own = arguments[: len(arguments) - (len(inner.argv) if inner is not None else 0)]
    if UNKNOWN in own:
        script.doubt(NOT_KNOWN)
    if inner is None or not inner.argv:
        return
    mark = _replaced(own)
    from_file = any(re.match(r"-[a-zA-Z]*a|--arg-file", word) for word in own)
    if stdin is None or UNKNOWN in stdin or from_file:
        lines = [UNKNOWN]
    else:
        lines = [line for line in re.split(r"[\n\0]", stdin) if line]
        lines = lines if len(lines) <= _MOST else [*lines[:_MOST], UNKNOWN]
    if mark is not None:
        for each in lines:
            script.apart([word.replace(mark, each) for word in inner.argv])
        return
    whole = any(re.match(r"-[0d]|--(?:null|delimiter)", word) for word in own)
    groups = [[line] if whole else _split(line) for line in lines]
    if any(re.match(r"-[nL]|--max-(?:args|lines)", word) for word in own):
        if not any(re.match(r"-L|--max-lines", word) for word in own):
            number = re.search(r"(?:-n|--max-args[= ]) ?(\d+)", " ".join(own))
            size, flat = int(number[1]) if number else 1, [word for group in groups for word in group]
            groups = [flat[at : at + max(1, size)] for at in range(0, len(flat), max(1, size))]
        for group in groups:
            script.apart([*inner.argv, *group])
        return
    script.apart([*inner.argv, *(word for group in groups for word in group)])


def _split(line: str) -> list[str]:
    """The words of a line as `xargs` reads it: with quotes and backslashes."""
    if UNKNOWN in line or not re.search(r"['\"\\]", line):
        return line.split()
    try:
        return shlex.split(line)
    except ValueError:
        return [UNKNOWN]


def _replaced(arguments: Sequence[str]) -> str | None:
    for place, word in enumerate(arguments):
        if not word.startswith("-"):
            return None
        if word in ("-I", "--replace"):
            return "".join(arguments[place + 1 : place + 2])
        if word.startswith("-I"):
            return word[2:]
        if word in ("-i",):
            return "{}"
        if word.startswith("--replace="):
            return word.partition("=")[2]
    return None


def _at(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> None:
    if stdin is not None:
        script.apart(value(stdin))


def _git(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    for argument in arguments:
        if argument.startswith("alias.") and "=" in argument:
            text = value(argument.partition("=")[2])
            script.apart(text[1:] if text.startswith("!") else f"git {text}")
    script.started(programs()["git"], arguments, stdin)
    if arguments[:1] == ("ls-files",) or "--name-only" in arguments:
        return f"./{ANY}\n"
    return None


def _container(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> None:
    """The command of a container, with the paths of mounted folders turned into those of the machine."""
    box = container(arguments, script.state.cwds[0])
    if box is None:
        return
    inside = script.inside(box.folder)
    inside.start(box.argv)
    for command in inside.commands:
        for mapped in box.mapped(command.arguments, command.cwds[0]):
            script.record(command.name, mapped)
    for path, cwds in inside.writes:
        for place in box.places(path, cwds[0]):
            script.writes[Touched(place, script.state.cwds)] = None


Handler = Callable[[ShellReader, Sequence[str], "str | None"], "str | None"]
HANDING_ON: dict[str, Handler] = {
    "find": _find,
    "xargs": _xargs,
    "git": _git,
    "docker": _container,
    "podman": _container,
    "nerdctl": _container,
    "at": _at,
    "batch": _at,
}
