"""Readings of program starts: builtins of the shell, wrappers, and known output."""

from __future__ import annotations

from collections.abc import Sequence

from agent.safety.programs.table import Program, programs
from agent.safety.reader.builtins import BUILTINS, go, run_input
from agent.safety.reader.foreign_code import INTERPRETERS, deleted_trees, program_text, shell_texts
from agent.safety.reader.handing_on import HANDING_ON
from agent.safety.reader.known_output import KNOWN_OUTPUT
from agent.safety.reader.marks import GLOBS, UNKNOWN, literal, pattern, value
from agent.safety.reader.shell import ShellReader
from agent.safety.reader.wrappers import NOT_KNOWN, SHELLS, shell_call, unwrap
from agent.safety.rules import RULES

_PROBES = ("ls", "cat", "make", "python3", "nginx", "x9", "node")
_HANDLERS = BUILTINS | KNOWN_OUTPUT | HANDING_ON


def invoke(script: ShellReader, words: Sequence[str], stdin: str | None) -> str | None:
    """Read a command line; its output where that is known."""
    script.step()
    word, arguments = words[0], tuple(words[1:])
    if not word or word in ("{", "}", "!", "then", "do", "else"):
        return invoke(script, arguments, stdin) if arguments else ""
    if not word.isascii():
        if UNKNOWN in word:
            script.doubt(NOT_KNOWN)
            script.record(UNKNOWN, arguments, word)
            if (whole := word.replace(UNKNOWN, "")) in RULES:
                # What is not known may be nothing.
                invoke(script, (whole, *arguments), stdin)
            # It may turn out to be nothing, or a wrapper.
            return invoke(script, arguments, None) if arguments and word == UNKNOWN else None
        if any(mark in word for mark in GLOBS):
            return _globbed(script, word, arguments, stdin)
    if word in script.state.aliases:
        text = script.state.aliases.pop(word)
        try:
            return script.run(" ".join((text, *map(_quoted, arguments))), stdin)
        finally:
            script.state.aliases[word] = text
    if word in script.state.functions:
        return script.call(word, arguments, stdin)
    if "/" in word and (known := script.state.files.get(word.removeprefix("./"))) is not None:
        script.apart(value(known))
    name = word.rpartition("/")[2]
    script.record(name, arguments, word)
    if (handler := _HANDLERS.get(name)) is not None:
        return handler(script, arguments, stdin)
    if name in SHELLS:
        return _shell(script, arguments, stdin)
    if name in INTERPRETERS or name.startswith(("python3.", "pypy3.")):
        return _foreign(script, name, arguments, stdin)
    program = programs().get(name)
    return None if program is None else started(script, program, arguments, stdin)


def _globbed(script: ShellReader, word: str, arguments: Sequence[str], stdin: str | None) -> str | None:
    """A program named by a pattern, as in `/bin/r[m]`: each of those that the hardline knows may be meant."""
    script.doubt(NOT_KNOWN)
    script.record(literal(word), arguments, word)
    expression = pattern(word.rpartition("/")[2])
    if "/" in word and sum(expression.fullmatch(probe) is not None for probe in _PROBES) <= 1:
        for known in sorted((*RULES, *SHELLS, "find", "env", "sudo", "xargs")):
            if expression.fullmatch(known):
                invoke(script, (known, *arguments), stdin)
    return None


def _quoted(word: str) -> str:
    return "'" + value(word).replace("'", "'\\''") + "'"


def started(script: ShellReader, program: Program, arguments: Sequence[str], stdin: str | None) -> str | None:
    """What a program runs that is not the shell's own."""
    for place, argument in enumerate(arguments):
        option, equals, attached = argument.partition("=")
        if option in program.scripts:
            text = attached if equals else "".join(arguments[place + 1 : place + 2])
            script.apart(value(text.removeprefix("!")))
    if program.starts and (rest := _behind(program, arguments)):
        script.apart(list(rest) if len(rest) > 1 else value(rest[0]))
    if program.wraps is None:
        return None
    inner = unwrap(program.wraps, arguments)
    if UNKNOWN in arguments[: len(arguments) - (len(inner.argv) if inner is not None else 0)]:
        # It may be the command, or the first word of one.
        script.doubt(NOT_KNOWN)
    if inner is None:
        return None
    if inner.script is None and not inner.folders and not inner.assignments and _is_here(program):
        return invoke(script, inner.argv, stdin) if inner.argv else None
    outer = script.state
    script.state = outer.copy()
    try:
        for folder in inner.folders:
            go(script, folder)
        for name, text in inner.assignments:
            script.state.variables[name] = value(text)
            script.assigned.add(f"export {name}")
        if inner.script is not None:
            return script.run(inner.script, stdin)
        return invoke(script, inner.argv, stdin) if inner.argv else None
    finally:
        script.state = outer


def _is_here(program: Program) -> bool:
    """Whether the program is the shell's own, so that what it runs changes this very shell."""
    return program is programs()["builtin"]


def _behind(program: Program, arguments: Sequence[str]) -> Sequence[str]:
    """The command line behind a subcommand that starts one."""
    said: list[str] = []
    skip = False
    for place, argument in enumerate(arguments):
        if skip:
            skip = False
        elif argument.startswith("-"):
            skip = argument in program.valued
        else:
            said.append(argument)
            if " ".join(said) in program.starts:
                rest = list(arguments[place + 1 :])
                while rest and rest[0].startswith("-"):
                    option = rest.pop(0)
                    if option in program.valued and rest:
                        rest.pop(0)
                return rest
            if len(said) > 2:
                break
    return ()


def _shell(script: ShellReader, arguments: Sequence[str], stdin: str | None) -> str | None:
    call = shell_call(arguments)
    outer = script.state
    script.state = outer.copy()
    script.state.functions, script.state.aliases = dict(outer.functions), {}
    # Patterns stay: what a search finds is given on.
    script.state.positional = call.positional
    try:
        if call.script is not None:
            return script.run(call.script, stdin)
        if call.reads_input or (call.file is not None and call.file in ("/dev/stdin", "/dev/fd/0")):
            return (
                None if arguments and set(arguments) <= {"--version", "--help"} else run_input(script, stdin)
            )
        if (
            call.file is not None
            and (known := script.state.files.get(call.file.removeprefix("./"))) is not None
        ):
            return script.run(value(known), stdin)
        if call.file is not None and (call.file.startswith("/dev/fd/") or UNKNOWN in call.file):
            script.doubt("it runs text that is not known")
        return None
    finally:
        script.state = outer


def _foreign(script: ShellReader, name: str, arguments: Sequence[str], stdin: str | None) -> None:
    """A program in another language: only shell commands and folders that it names are read."""
    doubts, outer = dict(script.doubts), script.state
    for code in program_text(name, arguments, None if stdin is None else [stdin]):
        if "(" not in code and "`" not in code and "system" not in code:
            continue
        for text in shell_texts(code, name):
            script.apart(text)
        for tree in deleted_trees(code):
            home = outer.get("HOME")
            path = f"{home}{tree[1:]}" if tree[:1] == "~" else tree
            script.record("rm", ("-r", path))
    script.doubts = doubts
