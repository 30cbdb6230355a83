"""Effects of a container on the folders of the machine that are mounted into it.

`docker run -v /:/host alpine rm -rf /host` deletes the files of the machine. So the command of a container
with mounts is read too, with its paths converted to those of the machine. Effects inside the container do not
count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.safety.places import absolute, joined
from agent.safety.reader.tree import UNKNOWN, value, words
from tools.kit.lazy_pattern import lazy_pattern

_FLAGS = words(
    "--rm --privileged --init --tty --interactive --detach --read-only --no-healthcheck --publish-all "
    "--quiet --oom-kill-disable --sig-proxy --disable-content-trust --replace --rmi --tls-verify --http-proxy"
)
"""Long options without a value; all others have one."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container that a command would start."""

    mounts: tuple[tuple[str, str], ...]
    """(folder of the machine, folder in the container)."""
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
    """Return the container that `docker run …` would start; None for other commands."""
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
    """Parse `source:target[:options]`, or `type=bind,source=…,target=…`; empty for a read-only mount."""
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
"""Languages in which backquotes are texts and start nothing."""
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
    """Return the known program texts that `name arguments…` would run."""
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
    """Yield shell commands that the program text starts. `language` is the name of its interpreter."""
    for match in _CALL.finditer(code):
        yield _text(match[1])
    for match in _LIST_CALL.finditer(code):
        yield " ".join(_quoted(_text(item)) for item in re.findall(_STRING, match[1], re.DOTALL))
    backquotes = _TEMPLATE_CALL if language in _WITH_TEMPLATES else _BACKQUOTES
    for match in backquotes.finditer(code):
        yield match[1]


def deleted_trees(code: str) -> Iterator[str]:
    """Yield the folders that a program text deletes with their content."""
    for match in _DELETE_TREE.finditer(code):
        yield _text(match[1]) if match[1] else "~"


def _text(literal: str) -> str:
    return _ESCAPE.sub(lambda escape: {"n": "\n", "t": "\t"}.get(escape[1], escape[1]), literal[1:-1])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
