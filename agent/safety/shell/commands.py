"""Single command lines: builtins that change the shell, shells and wrappers that run something inside."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agent.safety.shell.containers import ENGINES, run_container
from agent.safety.shell.finders import find, hyperfine, npx, parallel, xargs
from agent.safety.shell.foreign_code import INTERPRETERS, deleted_trees, program_text, shell_texts
from agent.safety.shell.host import Host
from agent.safety.shell.marks import UNKNOWN, value
from agent.safety.shell.names import possible_names
from agent.safety.shell.output import PRINTERS, content, either
from agent.safety.shell.reading import read, read_lines
from agent.safety.shell.state import TangledError
from agent.safety.shell.tree import RESERVED
from agent.safety.shell.values import Arguments, Output
from agent.safety.shell.wrappers import (
    ASSIGNMENT,
    SHELLS,
    WRAPPERS,
    Inner,
    ShellCall,
    shell_call,
    unwrap,
)

DEEPEST = 20
"""Wrappers inside each other that are followed."""

FINDERS = {
    "find": find,
    "xargs": xargs,
    "parallel": parallel,
    "hyperfine": hyperfine,
    "npx": npx,
} | dict.fromkeys(ENGINES, run_container)


class Commands:
    """Follows command lines for a shell."""

    def __init__(self, shell: Host) -> None:
        self.shell = shell
        self._state = shell.state
        self.depth = 0
        """Wrappers inside each other that are followed now."""

    def invoke(self, argv: Arguments, stdin: Output, functions: bool = True) -> Output:
        """Follow one command line; returns what it may print. Raises `TangledError`.

        Only the shell itself calls `functions`; wrappers start programs.
        """
        self._state.spend(1 + len(argv) // 8)
        if not argv:
            return [""]
        if argv[0] in RESERVED or "=" in argv[0]:
            at = 0
            while at < len(argv) and argv[at] in RESERVED:  # the grammar reads some of them as commands
                at += 1
            argv = self._without_assignments(argv[at:])
            if not argv:
                return [""]
        self.depth += 1
        try:
            if self.depth > DEEPEST:
                raise TangledError
            return self._invoke(argv, stdin, functions)
        finally:
            self.depth -= 1

    def _invoke(self, argv: Arguments, stdin: Output, functions: bool) -> Output:
        word = argv[0]
        if functions and self._state.get("function", word) is not None:
            return self.shell.call_function(word, argv[1:], stdin)
        if word == UNKNOWN:
            # Perhaps nothing, as in `$SUDO rm …`.
            self.shell.judge.doubt("which program runs is not known here")
            self.invoke(argv[1:], stdin, functions)
            return None
        names = possible_names(word) or ("",)
        if len(names) == 1:
            return self._named(names[0], argv, stdin)
        output: Output = []
        for name in names:
            output = either(output, self._named(name, argv, stdin))
        return output

    def _named(self, name: str, argv: Arguments, stdin: Output) -> Output:
        arguments = argv[1:]
        self.shell.judge.command(name, arguments, self._state.cwds, word=argv[0], stdin=stdin)
        if name not in _FOLLOWED:
            self._run_file(argv[0], arguments)
            return None
        if name in _BUILTINS:
            return _BUILTINS[name](self, arguments, stdin)
        if name in INTERPRETERS:
            self._run_foreign(name, arguments, stdin)
        if name in PRINTERS:
            return PRINTERS[name](self._state, arguments, stdin)
        if name in FINDERS:
            return FINDERS[name](self, arguments, stdin)
        if name in WRAPPERS:
            return self._follow(unwrap(name, arguments), stdin, name)
        self._run_file(argv[0], arguments)
        return None

    def _without_assignments(self, argv: Arguments) -> Arguments:
        at = 0
        while at < len(argv) and (match := ASSIGNMENT.fullmatch(argv[at])):
            self._state.assign(match[1], [value(match[3])])
            at += 1
        return argv[at:]

    # Running text

    def _run(
        self, script: str, positional: Sequence[str] | None = None, stdin: Output = None, name: str = ""
    ) -> Output:
        """Follow the text of an inner shell; what it changes stays inside. `name` is its `$0`."""
        if UNKNOWN in script:
            self.shell.judge.doubt("it runs text that is not known here")
        with self._state.scope(merge=False):
            if positional is not None:
                self._state.positional = tuple(positional)
            if name:
                self._state.assign("0", [name])
            return self.shell.run(script, stdin)

    def _follow(self, inner: Inner | None, stdin: Output, name: str = "") -> Output:
        if inner is None:
            return [""] if name == "exec" else None
        with self._state.scope(merge=False):
            for name, text in inner.assignments:
                self._state.assign(name, [value(text)])
            for folder in inner.folders:
                self._state.change_folder([folder])
            if inner.script is not None:
                return self._run(inner.script, stdin=stdin)
            return self.invoke(inner.argv, stdin, functions=False)

    def _run_shell(self, arguments: Arguments, stdin: Output) -> Output:
        call: ShellCall = shell_call(arguments)
        if call.script is not None:
            return self._run(call.script, call.positional, stdin, call.name)
        if call.reads_input:
            return self._run_texts(stdin, call.positional)
        if call.file in ("/dev/stdin", "-", "/proc/self/fd/0", "/dev/fd/0"):
            return self._run_texts(stdin, call.positional)
        if arguments[0] == "-n" and len(arguments) == 2:
            return [""]  # the script is only checked
        texts = content(self._state, [call.file or ""])
        # Whoever judges a script that is a file reads it, or asks.
        return None if texts is None else self._run_texts(texts, call.positional)

    def _run_texts(self, texts: Output, positional: Sequence[str] = ()) -> Output:
        if texts is None:
            self.shell.judge.doubt("it runs text that is not known here")
            return None
        output: Output = []
        for text in texts:
            output = either(output, self._run(value(text), positional))
        return output

    def _run_foreign(self, name: str, arguments: Arguments, stdin: Output) -> None:
        """Commands inside a program in another language."""
        for code in program_text(name, arguments, stdin):
            self.shell.judge.foreign(name)
            for path in deleted_trees(code):
                place = self.shell.home("") + path[1:] if path == "~" or path.startswith("~/") else path
                self.shell.judge.command("rm", ("-r", place), self._state.cwds)
            for script in shell_texts(code, name):
                self._run(script)

    def _run_file(self, path: str, arguments: Arguments) -> None:
        """A program that this very script has written before."""
        if "/" in path and (texts := content(self._state, [path])) is not None:
            self._run_texts(texts, arguments)

    def _input_is_script(self, arguments: Arguments, stdin: Output) -> Output:
        if stdin is not None:
            self._run_texts(stdin)
        return None

    def _eval(self, arguments: Arguments, stdin: Output) -> Output:
        text = value(" ".join(arguments[1:] if arguments[:1] == ("--",) else arguments))
        if UNKNOWN in text:
            self.shell.judge.doubt("it runs text that is not known here")
        return self.shell.run(text, stdin)

    def _source(self, arguments: Arguments, stdin: Output) -> Output:
        if not arguments:
            return None
        texts = stdin if arguments[0] in ("/dev/stdin", "/dev/fd/0") else content(self._state, [arguments[0]])
        for text in texts or ():
            self.shell.run(value(text), stdin)
        return None

    def _alias(self, arguments: Arguments, stdin: Output) -> Output:
        for argument in arguments:
            _, equals, text = argument.partition("=")
            if equals:
                self._run(value(text))
        return [""]

    def _trap(self, arguments: Arguments, stdin: Output) -> Output:
        operands = [argument for argument in arguments if argument not in ("--", "-l", "-p")]
        if len(operands) > 1:
            self._run(value(operands[0]))
        return [""]

    def _command(self, arguments: Arguments, stdin: Output) -> Output:
        at = 0
        while at < len(arguments) and arguments[at].startswith("-"):
            if "v" in arguments[at].lower():
                return PRINTERS["which"](self._state, arguments[at + 1 :], stdin)
            at += 1
        return self.invoke(arguments[at:], stdin, functions=False)

    def _time(self, arguments: Arguments, stdin: Output) -> Output:
        """The word of the shell, which measures what this shell does; with options it is the program."""
        rest = arguments[1:] if arguments[:1] in (("-p",), ("--",)) else arguments
        if rest and rest[0].startswith("-"):
            return self._follow(unwrap("time", arguments), stdin)
        return self.invoke(rest, stdin)

    # The shell's own state

    def _cd(self, arguments: Arguments, stdin: Output) -> Output:
        operands = [argument for argument in arguments if not re.fullmatch(r"-[PLe@n]+|--", argument)]
        if not operands:
            self._state.change_folder([self.shell.home("")])
        elif operands[0] == "-" or re.fullmatch(r"[+-]\d+", operands[0]):
            self._state.change_folder(["/" + UNKNOWN])
        else:
            self._state.change_folder([operands[0]])
        return [""]

    def _popd(self, arguments: Arguments, stdin: Output) -> Output:
        self._state.change_folder(["/" + UNKNOWN])
        return None

    def _set(self, arguments: Arguments, stdin: Output) -> Output:
        if "--" in arguments:
            rest = arguments[arguments.index("--") + 1 :]
        else:
            rest = arguments if arguments and not arguments[0].startswith(("-", "+")) else ()
        if rest:
            self._state.positional = tuple(value(argument) for argument in rest)
        return [""]

    def _shift(self, arguments: Arguments, stdin: Output) -> Output:
        if self._state.positional is not None:
            count = int(arguments[0]) if arguments and arguments[0].isdigit() and len(arguments[0]) < 6 else 1
            gone, left = self._state.positional[:count], self._state.positional[count:]
            several = any(UNKNOWN in word for word in gone)
            self._state.positional = (UNKNOWN, *left) if several else left
        return [""]

    def _read(self, arguments: Arguments, stdin: Output) -> Output:
        return read(self._state, arguments, stdin)

    def _read_lines(self, arguments: Arguments, stdin: Output) -> Output:
        return read_lines(self._state, arguments, stdin)

    def _export(self, arguments: Arguments, stdin: Output) -> Output:
        for argument in arguments:
            if match := ASSIGNMENT.fullmatch(argument):
                self._state.assign(match[1], [value(match[3])])
        return [""]


_BUILTINS: dict[str, Callable[[Commands, Arguments, Output], Output]] = {
    "cd": Commands._cd,
    "chdir": Commands._cd,
    "pushd": Commands._cd,
    "popd": Commands._popd,
    "set": Commands._set,
    "shift": Commands._shift,
    "eval": Commands._eval,
    "source": Commands._source,
    ".": Commands._source,
    "alias": Commands._alias,
    "trap": Commands._trap,
    "read": Commands._read,
    "mapfile": Commands._read_lines,
    "readarray": Commands._read_lines,
    "export": Commands._export,
    "declare": Commands._export,
    "typeset": Commands._export,
    "local": Commands._export,
    "readonly": Commands._export,
    "command": Commands._command,
    "builtin": Commands._command,
    "time": Commands._time,
    "at": Commands._input_is_script,
    "batch": Commands._input_is_script,
}
_BUILTINS |= dict.fromkeys(SHELLS, Commands._run_shell)

_FOLLOWED = frozenset({*_BUILTINS, *INTERPRETERS, *PRINTERS, *FINDERS, *WRAPPERS})
"""Programs of which more is known than that they run."""
