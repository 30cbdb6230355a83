"""Constant output: what `echo`, `printf`, `cat` and a few others print, and the files it is kept in.

Text that travels through pipes, files and substitutions is followed this way
until something runs it. Every function takes the shell's state, the marked
arguments and what is known of standard input; None means that nothing is known.
"""

from __future__ import annotations

import base64 as codec
import binascii
import itertools
import re
from collections.abc import Callable, Sequence

from agent.safety.places import absolute, joined
from agent.safety.shell import marks
from agent.safety.shell.marks import ANY, GLOBS, UNKNOWN, value
from agent.safety.shell.searchers import names
from agent.safety.shell.state import State
from agent.safety.shell.values import Arguments, Output, printed

LARGEST = 2_000_000
"""Characters of constant output that are kept."""


def echo(state: State, arguments: Arguments, stdin: Output) -> Output:
    newline, escapes = "\n", False
    at = 0
    while at < len(arguments) and re.fullmatch(r"-[neE]+", arguments[at]):
        newline = "" if "n" in arguments[at] else newline
        escapes |= "e" in arguments[at]
        at += 1
    text = " ".join(arguments[at:])
    # Some shells carry out escapes without being asked.
    texts = [text] if not escapes and "\\" not in text else [_decoded(text), *([] if escapes else [text])]
    return _kept(state, [each + newline for each in texts])


def printf(state: State, arguments: Arguments, stdin: Output) -> Output:
    if arguments[:1] == ("-v",) and len(arguments) > 2:
        texts = _formatted(arguments[2:])
        state.assign(arguments[1], [value(texts.partition("\0")[0])] if texts is not None else [UNKNOWN])
        return [""]
    text = _formatted(arguments[1:] if arguments[:1] == ("--",) else arguments)
    return None if text is None else _kept(state, [text])


def cat(state: State, arguments: Arguments, stdin: Output) -> Output:
    operands = [argument for argument in arguments if not argument.startswith("-") or argument == "-"]
    if not operands:
        return stdin
    texts: Output = [""]
    for operand in operands:
        piece = stdin if operand in ("-", "/dev/stdin") else content(state, [operand])
        if piece is None or texts is None or len(piece) * len(texts) > 16:
            return None
        texts = [one + other for one in texts for other in piece]
    return _kept(state, texts)


def _kept(state: State, texts: list[str]) -> Output:
    state.spend(sum(len(text) for text in texts) // 64)
    return texts if sum(len(text) for text in texts) <= LARGEST else None


def rev(state: State, arguments: Arguments, stdin: Output) -> Output:
    if arguments or stdin is None:
        return None
    return ["\n".join(line[::-1] for line in text.split("\n")) for text in stdin]


def base64(state: State, arguments: Arguments, stdin: Output) -> Output:
    if stdin is None or not any(argument in ("-d", "-D", "--decode", "-di") for argument in arguments):
        return None
    try:
        return [
            marks.unmarked(codec.b64decode(text.encode(), validate=False).decode("utf-8", "replace"))
            for text in stdin
        ]
    except (binascii.Error, ValueError):
        return None


def ls(state: State, arguments: Arguments, stdin: Output) -> Output:
    """A folder prints any names, a file its own."""
    operands = [argument for argument in arguments if not argument.startswith("-")]
    if any(UNKNOWN in operand for operand in operands):
        return None
    itself = "".join(f"{operand}\n" for operand in operands)
    if any(argument.startswith("-") and "d" in argument for argument in arguments):
        return [itself]
    return [itself] if any(mark in itself for mark in GLOBS) else [f"{ANY}\n", itself]


def content(state: State, paths: Sequence[str]) -> Output:
    """What is in the files, when this script has written them."""
    found: list[str] = []
    if "/dev/null" in paths:
        paths = [path for path in paths if path != "/dev/null"]
        found = [] if paths else [""]
    for path in paths:
        known = state.get("file", path)
        if known is None:
            known = state.get("file", _full(state, path))
        if known is None:
            return None
        found += known
    return found


def remember(state: State, paths: Sequence[str], output: Output, appends: bool) -> None:
    """Output went to a file."""
    for path in paths:
        if not path.isascii() and (UNKNOWN in path or any(mark in path for mark in GLOBS)):
            continue
        full = _full(state, path)
        before = state.get("file", full) if appends else [""]
        texts: Output = None
        if output is not None and before is not None and len(output) * len(before) <= 16:
            texts = _kept(state, [one + other for one in before for other in output])
        state.put("file", full, texts)


def _full(state: State, path: str) -> str:
    return absolute(joined(state.cwds[0], path))


def _decoded(text: str) -> str:
    return UNKNOWN.join(printed(piece) for piece in text.split(UNKNOWN))


_DIRECTIVE = re.compile(r"%(?:%|[-+ #0]*\d*(?:\.\d+)?([sbdciuxq]))")


def _formatted(arguments: Arguments) -> str | None:
    """What `printf format arguments…` prints; None when it cannot be known."""
    if not arguments or "%(" in arguments[0] or "%*" in arguments[0]:
        return None
    template, values = _decoded(arguments[0]), list(arguments[1:])
    pieces: list[str] = []
    count = sum(1 for match in _DIRECTIVE.finditer(template) if match[1])
    if count and len(values) > 1_000 * count:
        return None
    while True:
        at = 0
        for match in _DIRECTIVE.finditer(template):
            pieces.append(template[at : match.start()])
            at = match.end()
            if match[1] is None:
                pieces.append("%")
                continue
            text = values.pop(0) if values else ""
            pieces.append(_decoded(text) if match[1] == "b" else text)
        pieces.append(template[at:])
        if not values or not count:
            return "".join(pieces)


def which(state: State, arguments: Arguments, stdin: Output) -> Output:
    """Where programs are, as a rule."""
    return ["".join(f"/usr/bin/{name}\n" for name in arguments if not name.startswith("-"))]


def dirname(state: State, arguments: Arguments, stdin: Output) -> Output:
    operands = [argument for argument in arguments if not argument.startswith("-")]
    if any(UNKNOWN in operand for operand in operands):
        return None
    return ["".join(f"{operand.rstrip('/').rpartition('/')[0] or '/'}\n" for operand in operands)]


def basename(state: State, arguments: Arguments, stdin: Output) -> Output:
    """The last step of a path, without an ending that is named."""
    if not 1 <= len(arguments) <= 2 or any(UNKNOWN in a or a.startswith("-") for a in arguments):
        return None
    name = arguments[0].rstrip("/").rpartition("/")[2]
    ending = arguments[1] if len(arguments) == 2 and name != arguments[1] else ""
    return [f"{name.removesuffix(ending)}\n"]


def realpath(state: State, arguments: Arguments, stdin: Output) -> Output:
    """The path itself: links are not known here."""
    operands = [argument for argument in arguments if not argument.startswith("-")]
    if any(UNKNOWN in operand for operand in operands):
        return None
    return ["".join(f"{_full(state, operand)}\n" for operand in operands)]


def xxd(state: State, arguments: Arguments, stdin: Output) -> Output:
    if stdin is None or (not {"-r", "-p"} <= set(arguments) and "-rp" not in arguments):
        return None
    try:
        return [marks.unmarked(bytes.fromhex(text).decode("utf-8", "replace")) for text in stdin]
    except ValueError:
        return None


def pwd(state: State, arguments: Arguments, stdin: Output) -> Output:
    return [f"{cwd}\n" for cwd in state.cwds]


def git(state: State, arguments: Arguments, stdin: Output) -> Output:
    """The top of the repository is taken to be the folder the shell is in."""
    if arguments == ("rev-parse", "--show-toplevel"):
        return pwd(state, (), None)
    return names("git", arguments)


def searched(program: str) -> Callable[[State, Arguments, Output], Output]:
    """Programs that find names, and otherwise print no more than what they read."""

    def output(state: State, arguments: Arguments, stdin: Output) -> Output:
        found = names(program, arguments)
        return filtered(state, arguments, stdin) if found is None else found

    return output


def passed_on(state: State, arguments: Arguments, stdin: Output) -> Output:
    """`tee` prints what it reads."""
    return stdin


def nothing(state: State, arguments: Arguments, stdin: Output) -> Output:
    return [""]


MADE_BY_MKTEMP = "/tmp/tmp.made-by-mktemp"
"""Stands for the new file or folder that `mktemp` prints the path of."""


def mktemp(state: State, arguments: Arguments, stdin: Output) -> Output:
    plain = all(argument in ("-d", "-q", "-u", "--directory") for argument in arguments)
    return [f"{MADE_BY_MKTEMP}\n"] if plain else None


_NO_LINES = re.compile(r"-[a-z]*[nc]\s*[+-]?0+|-0+|--(?:lines|bytes)=[+-]?0+")


def some_lines(state: State, arguments: Arguments, stdin: Output) -> Output:
    """`head` and `tail`: nothing when none are wanted."""
    pairs = (f"{one} {other}" for one, other in itertools.pairwise(arguments))
    if any(_NO_LINES.fullmatch(text) for text in (*arguments, *pairs)):
        return [""]
    return filtered(state, arguments, stdin)


def filtered(state: State, arguments: Arguments, stdin: Output) -> Output:
    """Programs that print no more than what they read: nothing, when that is nothing."""
    files = [argument for argument in arguments if not argument.startswith("-")]
    empty = stdin == [""] and not any("/" in file or "." in file for file in files)
    return [""] if empty or "/dev/null" in files[-1:] else None


def stream_edited(state: State, arguments: Arguments, stdin: Output) -> Output:
    """`sed -n ''` and `awk 0` print nothing, whatever they read."""
    silent = arguments[:2] == ("-n", "") or arguments[:1] in (("0",), ("",))
    return [""] if silent else filtered(state, arguments, stdin)


def queried(state: State, arguments: Arguments, stdin: Output) -> Output:
    return [""] if "empty" in arguments else filtered(state, arguments, stdin)


def either(first: Output, second: Output) -> Output:
    """The output of one of two commands."""
    return None if first is None or second is None else [*first, *second]


def after(first: Output, second: Output) -> Output:
    """The output of two commands one after the other."""
    if first is None or second is None:
        return None
    if len(second) == 1 and len(first) == 1:
        if not first[0]:
            return second
        if not second[0]:
            return first
    if len(first) * len(second) > 64:
        return None
    return [one + other for one in first for other in second]


PRINTERS: dict[str, Callable[[State, Arguments, Output], Output]] = {
    "echo": echo,
    "printf": printf,
    "cat": cat,
    "pwd": pwd,
    "git": git,
    "which": which,
    "dirname": dirname,
    "basename": basename,
    "realpath": realpath,
    "readlink": realpath,
    "xxd": xxd,
    "tee": passed_on,
    "rev": rev,
    "base64": base64,
    "ls": ls,
    "mktemp": mktemp,
    "head": some_lines,
    "tail": some_lines,
    "sed": stream_edited,
    "awk": stream_edited,
    "jq": queried,
}
PRINTERS |= dict.fromkeys(
    ("sort", "uniq", "cut", "tr", "nl", "fold", "fmt", "column", "tac"),
    filtered,
)
PRINTERS |= {name: searched("grep") for name in ("grep", "egrep", "fgrep")}
PRINTERS |= {"rg": searched("rg"), "fd": searched("fd"), "fdfind": searched("fd")}
PRINTERS |= dict.fromkeys((":", "true", "false", "test", "[", "sleep", "wait", "umask", "unset"), nothing)
