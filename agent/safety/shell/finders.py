"""Commands that run others on what they find or read: find, xargs, parallel."""

from __future__ import annotations

import re

from agent.safety.shell import names
from agent.safety.shell.host import Starter
from agent.safety.shell.marks import ANY, GLOBS, UNKNOWN, globbing, value, words
from agent.safety.shell.output import content
from agent.safety.shell.values import Arguments, Output
from agent.safety.shell.wrappers import fetched, unwrap

# Primaries of find that leave a whole tree a whole tree.
_FIND_OPEN = words(
    "-type -xtype -mindepth -xdev -mount -depth -d -follow -ignore_readdir_race -o -or -a -and -print "
    "-print0 -delete -exec -execdir -ok -okdir -prune -true -quit -ls -L -P -H -s -X -x -E -regextype ( ) ! "
    "-not , -warn -nowarn"
)


def find(commands: Starter, arguments: Arguments, stdin: Output) -> Output:
    start = 0
    while start < len(arguments) and re.fullmatch(r"-[HLPEXdsx]|-O\d|-D.*", arguments[start]):
        start += 1
    end = start
    while end < len(arguments) and not (arguments[end].startswith("-") or arguments[end] in ("(", "!", ",")):
        end += 1
    roots = arguments[start:end] or (".",)
    tests = arguments[end:]
    whole = _is_whole(tests)
    found = roots if whole else _named(roots, tests)
    if "-delete" in tests and _is_whole(tests[: tests.index("-delete")]):
        commands.shell.judge.command("rm", ("-r", *roots), commands.shell.state.cwds)
    selected = roots if whole or _is_whole(tests, "-maxdepth") else found or (UNKNOWN,)
    for place, test in enumerate(tests):
        if test in ("-exec", "-execdir", "-ok", "-okdir"):
            _execute(commands, tests[place + 1 :], selected, stdin, deep=whole)
        elif test in ("-fprint", "-fprint0", "-fls", "-fprintf") and place + 1 < len(tests):
            commands.shell.judge.written(tests[place + 1], commands.shell.state.cwds)
    return ["".join(f"{path}\n" for path in found)] if found else None


_TEXTS_OF_HYPERFINE = words("-p --prepare -s --setup -c --cleanup --conclude --reference")
_VALUES_OF_HYPERFINE = re.compile(
    r"-[wmMrPDLSNnuo]|--(?:warmup|min-runs|max-runs|runs|parameter-\w+|shell|style|sort|"
    r"command-name|time-unit|output|input|export-[a-z-]+)"
)


def hyperfine(commands: Starter, arguments: Arguments, stdin: Output) -> Output:
    """Every operand, and what is to be done around it, is shell text."""
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        option, equals, text = argument.partition("=")
        if option in _TEXTS_OF_HYPERFINE:
            text = text if equals else "".join(rest[:1])
            rest[: 0 if equals else 1] = []
        elif _VALUES_OF_HYPERFINE.fullmatch(option):
            rest[: 0 if equals else 1] = []
            continue
        elif argument.startswith("-"):
            continue
        else:
            text = argument
        with commands.shell.state.scope(merge=False):
            commands.shell.run(value(text), stdin)
    return None


def _named(roots: Arguments, tests: Arguments) -> Arguments:
    """Patterns for what find selects when exactly one test is about names; empty otherwise."""
    primaries = _primaries(tests)
    chosen = [test for test in primaries if test in ("-name", "-iname")]
    if len(chosen) != 1 or {"-o", "-or", "!", "-not", ","} & set(primaries):
        return ()
    place = tests.index(chosen[0]) + 1
    name = globbing(tests[place]) if place < len(tests) else UNKNOWN
    return tuple(f"{root}/{ANY}/{name}" for root in roots)


def _primaries(tests: Arguments) -> list[str]:
    """The tests of find, without the inner command lines and the values of `-type`."""
    found: list[str] = []
    inside = skip = False
    for test in tests:
        if inside:
            inside = test not in (";", "+")
        elif not skip and (test.startswith("-") or test in ("(", ")", "!", ",")):
            found.append(test)
            inside = test in ("-exec", "-execdir", "-ok", "-okdir")
            skip = test in ("-type", "-xtype", "-mindepth", "-regextype")
            continue
        skip = False
    return found


def _is_whole(tests: Arguments, *more: str) -> bool:
    """Whether find selects everything in its folders; `more` are further tests that leave it so."""
    return all(test in _FIND_OPEN or test in more for test in _primaries(tests))


def _execute(commands: Starter, rest: Arguments, roots: Arguments, stdin: Output, *, deep: bool) -> None:
    """Follow the command of `-exec`; with `deep` it is run on everything below the roots."""
    end = next((at for at, word in enumerate(rest) if word in (";", "+")), len(rest))
    line: list[str] = []
    for word in rest[:end]:
        line += roots if word == "{}" else [word.replace("{}", roots[0])]
    with commands.shell.state.scope(merge=False):
        commands.invoke(tuple(line), stdin, functions=False)
        if deep and line and line[0] in names.DELETERS | names.OWNERS | {"shred"}:
            # One by one comes to the same as recursively.
            name = "rm" if line[0] == "shred" else line[0]
            commands.shell.judge.command(name, ("-R", *line[1:]), commands.shell.state.cwds)


def xargs(commands: Starter, arguments: Arguments, stdin: Output) -> Output:
    inner = unwrap("xargs", arguments)
    line = inner.argv if inner is not None else ("echo",)
    replaced = next((mark for mark in _placeholders(arguments) if any(mark in word for word in line)), None)
    if (file := _value_of(arguments, "-a", "--arg-file")) is not None:
        stdin = content(commands.shell.state, [file])
    blanks = r"[\n\0]+" if replaced is not None or _splits_lines(arguments) else r"[\s\0]+"
    for text in stdin if stdin is not None else [UNKNOWN]:
        if replaced is None:
            for group in _groups(arguments[: len(arguments) - len(line)], text, blanks):
                commands.invoke((*line, *group), None, functions=False)
            continue
        items = [item for item in re.split(blanks, text) if item.strip()]
        for item in items:
            filled = tuple(word.replace(replaced, item.strip()) for word in line)
            commands.invoke(filled, None, functions=False)
    return None


MOST_GROUPS = 64
"""Command lines of one `xargs` that are followed each by itself."""


def _groups(arguments: Arguments, text: str, blanks: str) -> list[list[str]]:
    """The items of each command line that `xargs` makes of what it reads."""
    lines = _count(arguments, "L", "l", "--max-lines")
    most = _count(arguments, "n", "n", "--max-args")
    if lines:
        rows = [row for row in text.split("\n") if row.strip()]
        pieces = ["\n".join(rows[at : at + lines]) for at in range(0, len(rows), lines)]
        groups = [[item for item in re.split(blanks, piece) if item.strip()] for piece in pieces]
    else:
        items = [item for item in re.split(blanks, text) if item.strip()]
        groups = [items[at : at + most] for at in range(0, len(items), most)] if most else [items]
    groups = groups or [[]]  # without anything to read it starts once
    return groups if len(groups) <= MOST_GROUPS else [*groups[:MOST_GROUPS], [UNKNOWN]]


def _count(arguments: Arguments, short: str, other: str, long: str) -> int:
    """The number that an option is given; 0 without it."""
    for place, argument in enumerate(arguments):
        if match := re.fullmatch(rf"-[0rtxp]*[{short}{other}](\d{{0,5}})|{long}=?(\d{{0,5}})", argument):
            following = arguments[place + 1] if place + 1 < len(arguments) else ""
            given = (
                match[1] or match[2] or (following if following.isdecimal() and len(following) < 6 else "1")
            )
            return max(1, int(given))
    return 0


def npx(commands: Starter, arguments: Arguments, stdin: Output) -> Output:
    """A wrapper that comes as a package starts what it starts by itself as well."""
    line = fetched(arguments)
    return commands.invoke(line, stdin, functions=False) if line else None


_PARALLEL_PLACES = re.compile(r"\{(?:\d*|[-+]?\d*[./]+|#|%|=.*?=)\}")


def parallel(commands: Starter, arguments: Arguments, stdin: Output) -> Output:
    """The words are joined to shell text, with an input in place of `{}`; without words each input is one."""
    first = next((at for at, word in enumerate(arguments) if re.fullmatch(r":{3,4}\+?", word)), None)
    inner = unwrap("parallel", arguments[:first])
    line = " ".join(inner.argv) if inner is not None else ""
    items: list[str] = [UNKNOWN]
    if first is not None and "::::" not in "".join(arguments[first:]):
        items = [word for word in arguments[first:] if not re.fullmatch(r":::\+?", word)]
    elif first is None and stdin is not None and _value_of(arguments, "-a", "--arg-file") is None:
        items = [item for text in stdin for item in text.splitlines()]
    for item in dict.fromkeys(items):
        text = _with_input(value(line), item)
        with commands.shell.state.scope(merge=False):
            commands.shell.run(text, None)
            if inner is not None:  # other versions start the words as they are
                commands.invoke((*inner.argv, item), None, functions=False)
    return None


def _with_input(line: str, item: str) -> str:
    """A line of `parallel` with an input in it, which is one word, or as many as its pattern finds."""
    if not line:
        return value(item)
    word = value(item)
    if not any(mark in item for mark in GLOBS):
        word = "'" + word.replace("'", "'\\''") + "'"
    text = _PARALLEL_PLACES.sub(lambda _: word, line)
    return f"{line} {word}" if text == line else text


def _value_of(arguments: Arguments, *options: str) -> str | None:
    for place, argument in enumerate(arguments[:-1]):
        if argument in options:
            return arguments[place + 1]
    return None


def _splits_lines(arguments: Arguments) -> bool:
    """Whether `xargs` takes whole lines as items."""
    return any(a.startswith(("-d", "--delimiter", "--null")) or re.match(r"-[a-z]*0", a) for a in arguments)


def _placeholders(arguments: Arguments) -> list[str]:
    """The text that `xargs -I text` replaces."""
    found: list[str] = []
    for place, argument in enumerate(arguments):
        if argument in ("-I", "--replace") and place + 1 < len(arguments):
            found.append(arguments[place + 1])
        elif argument.startswith(("-I", "-i")) and len(argument) > 2:
            found.append(argument[2:])
        elif argument.startswith("--replace="):
            found.append(argument.partition("=")[2])
    return [*found, "{}"] if any(a.startswith(("-I", "-i", "--replace")) for a in arguments) else []
