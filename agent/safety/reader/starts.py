"""Programs that start others: wrappers, and programs that take a command as arguments.

The command of a container can affect folders of the machine that are mounted into it: `docker run -v /:/host
alpine rm -rf /host` deletes the files of the machine. So such a command is read too, with its paths converted
to those of the machine. Effects inside the container do not count.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agent.safety.places import absolute, joined
from agent.safety.programs.table import Program, Wrapper, programs
from agent.safety.reader.builtins import BUILTINS, go, run_input
from agent.safety.reader.expansion import ShellReader, Touched
from agent.safety.reader.known_output import KNOWN_OUTPUT
from agent.safety.reader.tree import ANY, GLOBS, UNKNOWN, globbing, literal, pattern, value, words
from agent.safety.rules import DELETERS, OWNERS, RULES
from tools.kit.lazy_pattern import lazy_pattern

_FLAGS = words(
    "--rm --privileged --init --tty --interactive --detach --read-only --no-healthcheck --publish-all "
    "--quiet --oom-kill-disable --sig-proxy --disable-content-trust --replace --rmi --tls-verify --http-proxy"
)
"""Long options without a value; all others count as having one."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container that a command would start."""

    mounts: tuple[tuple[str, str], ...]
    """Each mount as (folder of the machine, folder in the container)."""
    folder: str
    argv: tuple[str, ...]

    def places(self, argument: str, cwd: str) -> list[str]:
        """Return a path in the container as paths of the machine, one for every mount that contains it."""
        found = (_place(argument, cwd, source, absolute(target)) for source, target in self.mounts)
        return [place for place in found if place is not None]

    def map_arguments(self, arguments: Sequence[str], cwd: str) -> Iterator[tuple[str, ...]]:
        """Yield the arguments with paths of the machine, once for every mount that they use."""
        for source, target in self.mounts:
            places = [_place(argument, cwd, source, absolute(target)) for argument in arguments]
            if any(places):
                pairs = zip(arguments, places, strict=True)
                yield tuple(place or word for word, place in pairs if place or word.startswith("-"))


def container(arguments: Sequence[str], cwd: str) -> Container | None:
    """Return the container that `docker run …` would start; None for other arguments."""
    rest = list(arguments)
    while rest and rest[0] not in ("run", "create"):
        rest.pop(0)
    if not rest:
        return None
    mounts: list[tuple[str, str]] = []
    entry, folder = "", "/"
    rest[:1] = []
    while rest and rest[0].startswith("-"):
        option, equals, value = rest.pop(0).partition("=")
        if option in _FLAGS or re.fullmatch(r"-[ditPq]+", option):
            continue
        if not option.startswith("--") and len(option) > 2:
            letters = option.lstrip("-ditPq")
            option, value, equals = f"-{letters[:1]}", letters[1:], letters[1:]
        if not equals and rest:
            value = rest.pop(0)
        if option in ("-v", "--volume", "--mount"):
            mounts += _mount(value, cwd)
        elif option in ("-w", "--workdir"):
            folder = value
        elif option == "--entrypoint":
            entry = value
    argv = [entry, *rest[1:]] if entry else rest[1:]
    if argv[:1] == ["chroot"] and len(argv) > 2:
        root = absolute(joined(folder, argv[1]))
        mounts = [(source, "/") for source, target in mounts if absolute(target) == root]
        argv, folder = argv[2:], "/"
    return Container(tuple(mounts), folder, tuple(argv)) if mounts and argv else None


def _mount(text: str, cwd: str) -> list[tuple[str, str]]:
    """Return (source, target) of `source:target[:options]` or `type=bind,…`; empty for a read-only mount."""
    if "=" in text and "," in text:
        pairs = {part.partition("=")[0]: part.partition("=")[2] for part in text.split(",")}
        source = pairs.get("source") or pairs.get("src") or ""
        target = pairs.get("target") or pairs.get("destination") or pairs.get("dst") or ""
        if pairs.get("type") != "bind" or {"readonly", "ro"} & set(pairs):
            return []
    else:
        source, _, rest = text.partition(":")
        target, _, options = rest.partition(":")
        if not source.startswith(("/", ".", "~", UNKNOWN)) or "ro" in options.split(","):
            return []
    return [(joined(cwd, source), target)] if source and target else []


def _place(argument: str, cwd: str, source: str, target: str) -> str | None:
    """Return a path in the container as a path of the machine; None if it is not in this mount."""
    option, equals, rest = argument.partition("=")
    if argument.startswith("-") or not argument:
        return None
    if equals and option.isalpha():  # dd if=… of=…
        place = _place(rest, cwd, source, target)
        return f"{option}={place}" if place else None
    path = absolute(joined(cwd, argument))
    below = f"{target.rstrip('/')}/"
    if path == target or below.startswith(f"{path.rstrip('/')}/"):
        return source
    return f"{source.rstrip('/')}/{path[len(below) :]}" if path.startswith(below) else None


INTERPRETERS = words(
    "python python2 python3 pypy pypy3 perl ruby node nodejs bun deno php lua awk gawk mawk nawk"
)

_STRING = r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
_STARTER = (
    r"\b(?:system|popen|Popen|run|call|check_call|check_output|getoutput|getstatusoutput|exec|execSync|execFileSync"
    r"|spawn|spawnSync|shell_exec|passthru|proc_open|qx|sh)"
)
_CALL = lazy_pattern(rf"{_STARTER}\s*\(?\s*{_STRING}", re.DOTALL)
_LIST_CALL = lazy_pattern(rf"{_STARTER}\s*\(\s*\[((?:\s*{_STRING}\s*(?:,|(?=\])))+)\s*\]", re.DOTALL)
_BACKQUOTES = lazy_pattern(r"`([^`]*)`")
_TEMPLATE_CALL = lazy_pattern(rf"{_STARTER}\s*\(\s*`([^`]*)`")
_WITH_TEMPLATES = words("node nodejs bun deno")
"""Interpreters of languages in which backquotes are texts and start nothing."""
_PLACE = rf"(?:[\w.]*(?:expanduser|Path|path)\s*\(\s*)?{_STRING}"
_HOME = (
    r"Path\.home\(\)|Dir\.home|[\w.]*homedir\(\)|(?:os\.)?environ\[.HOME.\]|process\.env\.HOME|ENV\[.HOME.\]"
)
_DELETE_TREE = lazy_pattern(
    r"\b(?:rmtree|rm_rf|rm_r|remove_tree|remove_dir_all|rmSync|rmdirSync)\s*\(?\s*"
    rf"(?:{_PLACE}|({_HOME})\s*[,)\n;'\"]|({_HOME})\s*$)",
    re.DOTALL,
)
_ESCAPE = lazy_pattern(r"\\(.)", re.DOTALL)


def program_text(name: str, arguments: Sequence[str], stdin: list[str] | None) -> list[str]:
    """Return the known pieces of source code that the interpreter `name` would run with these arguments."""
    found: list[str] = []
    operands = 0
    for place, argument in enumerate(arguments):
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        if re.fullmatch(r"-[A-Za-z]*[cer]|--eval|--print|-[A-Za-z]*pe", argument):
            found.append(value(following))
        elif not argument.startswith("-") or argument == "-":
            operands += argument != "-"
    if name.endswith("awk"):
        return [value(argument) for argument in arguments if "{" in argument]
    if not found and not operands and stdin is not None:
        found = [value(text) for text in stdin]
    return [text for text in found if text and text != UNKNOWN]


def shell_texts(code: str, language: str = "") -> Iterator[str]:
    """Yield the shell commands that source code starts. `language` is the name of its interpreter."""
    for match in _CALL.finditer(code):
        yield _text(match[1])
    for match in _LIST_CALL.finditer(code):
        yield " ".join(_single_quoted(_text(item)) for item in re.findall(_STRING, match[1], re.DOTALL))
    backquotes = _TEMPLATE_CALL if language in _WITH_TEMPLATES else _BACKQUOTES
    for match in backquotes.finditer(code):
        yield match[1]


def deleted_trees(code: str) -> Iterator[str]:
    """Yield the folders that source code deletes with their content; `~` for the home folder."""
    for match in _DELETE_TREE.finditer(code):
        yield _text(match[1]) if match[1] else "~"


def _text(literal: str) -> str:
    return _ESCAPE.sub(lambda escape: {"n": "\n", "t": "\t"}.get(escape[1], escape[1]), literal[1:-1])


def _single_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


ASSIGNMENT = lazy_pattern(r"([A-Za-z_]\w*)(\+?)=(.*)", re.ASCII | re.DOTALL)
SHELLS = words("sh bash dash ash zsh ksh ksh93 mksh pdksh rbash yash fish csh tcsh")
_SHELL_VALUED = frozenset({"--rcfile", "--init-file", "-O", "+O", "-o", "+o"})


NOT_KNOWN = "it starts a program that is not known"
"""A doubt about a command, as a clause for the user."""


@dataclass(frozen=True, slots=True)
class Inner:
    """The command inside a wrapper, as a command line or shell text, and the assignments before it."""

    argv: tuple[str, ...] = ()
    script: str | None = None
    assignments: tuple[tuple[str, str], ...] = ()
    folders: tuple[str, ...] = ()
    """The folders to which the wrapper changes before it runs the command, in order."""


def unwrap(wrapper: Wrapper, arguments: Sequence[str]) -> Inner | None:
    """Return the command inside the arguments of a wrapper; None if there is none."""
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
    """Return the folder that an option, given with its value, sets for the command; empty if it sets none."""
    if not wrapper.folder:
        return []
    first = option[0]
    if first.startswith("--"):
        name, _, attached = first[2:].partition("=")
    else:
        name = next((letter for letter in first[1:] if letter in wrapper.valued), "")
        attached = first.partition(name)[2] if name else ""
    return [attached or "".join(option[1:2])] if name in wrapper.folder else []


def _option(wrapper: Wrapper, arguments: Sequence[str], at: int) -> tuple[str | None, int]:
    """Return the shell text in an option, or None, and the number of further arguments that it uses."""
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
    """The script, file or input that a shell is started with."""

    script: str | None = None
    file: str | None = None
    reads_input: bool = False
    positional: tuple[str, ...] = ()


def shell_call(arguments: Sequence[str]) -> ShellCall:
    """Return what `sh arguments…` would run."""
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


_MOST = 64
"""The number of input lines that are read one by one."""


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
    tail = _name_words(
        tests[: next((place for place, test in enumerate(tests) if test in actions), len(tests))]
    )
    paths = [root if UNKNOWN in root else f"{root.rstrip('/')}/{tail}" for root in roots]
    if tail == ANY and not any(".git" in test for test in tests):
        # A search also finds hidden names, which shell patterns do not match.
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


def _name_words(tests: Sequence[str]) -> str:
    """Return a marked pattern for the paths that `find` can find below its start folder."""
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
    """Split a line into words as `xargs` does, with quotes and backslashes."""
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
    """Read the command of a container, with paths of mounted folders converted to the machine's."""
    box = container(arguments, script.state.cwds[0])
    if box is None:
        return
    inside = script.inside(box.folder)
    inside.start(box.argv)
    for command in inside.commands:
        for mapped in box.map_arguments(command.arguments, command.cwds[0]):
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


_PROBES = ("ls", "cat", "make", "python3", "nginx", "x9", "node")
_HANDLERS = BUILTINS | KNOWN_OUTPUT | HANDING_ON


def invoke(script: ShellReader, words: Sequence[str], stdin: str | None) -> str | None:
    """Read a command line as if it ran at this point; return its output, None if unknown."""
    script.step()
    word, arguments = words[0], tuple(words[1:])
    if not word or word in ("{", "}", "!", "then", "do", "else"):
        return invoke(script, arguments, stdin) if arguments else ""
    if not word.isascii():
        if UNKNOWN in word:
            script.doubt(NOT_KNOWN)
            script.record(UNKNOWN, arguments, word)
            if (whole := word.replace(UNKNOWN, "")) in RULES:
                # The unknown part may be empty.
                invoke(script, (whole, *arguments), stdin)
            # The unknown word may be empty, or a wrapper.
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
    """Read a command whose program is named by a pattern, such as `/bin/r[m]`.

    Each program with hardline rules that the pattern matches is read as a possible one.
    """
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
    """Read the commands that a program from the table starts; return their output, None if unknown."""
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
        # The unknown argument may be the command, or its first word.
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
    """Return whether the program is a builtin, so that the commands it starts change this shell."""
    return program is programs()["builtin"]


def _behind(program: Program, arguments: Sequence[str]) -> Sequence[str]:
    """Return the command line after a subcommand that starts it, as in `docker exec`; empty without one."""
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
    # Patterns are kept, because found names are passed on.
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
    """Read a program in another language, but only the shell commands in it and the folders it deletes."""
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
