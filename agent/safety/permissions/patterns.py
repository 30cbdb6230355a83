"""Patterns in permission rules for addresses, paths and commands."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from agent.safety.places import absolute, current, joined
from agent.safety.programs.table import programs
from agent.safety.reader import tree
from agent.safety.reader.expansion import Command, Reading
from agent.safety.reader.tree import GLOBS, UNKNOWN
from tools.kit.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class Certainty(IntEnum):
    """The certainty of a match. If a rule only matches `MAYBE`, the user is asked, even if it denies."""

    NO = 0
    MAYBE = 1
    YES = 2


_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}


class AddressPattern:
    """A URL glob: `*` matches within one segment of the path, `**` across segments.

    A pattern may be a host alone. A rule that allows then covers http and https on their default ports.
    Raises `ValueError` with a text that continues a sentence about the pattern.
    """

    def __init__(self, text: str) -> None:
        scheme, separator, rest = text.partition("://")
        if not separator:
            scheme, rest = "", text
        host, slash, path = rest.partition("/")
        if not host or "@" in host or any(char.isspace() for char in text):
            raise ValueError("names no host")
        name, _, port = host.rpartition(":") if re.search(r":(?:\d+|\*)$", host) else (host, "", "")
        self._scheme = scheme.lower()
        self._host = _host(name.removeprefix("[").removesuffix("]"))
        self._port = port
        self._path = f"/{path}" if slash and path else "/**"

    @property
    def is_exact_place(self) -> bool:
        """True if it gives http(s), an IP address or `localhost`, and a port; its path may have wildcards."""
        if self._scheme not in ("http", "https") or not self._port.isdigit():
            return False
        try:
            return self._host == "localhost" or str(ip_address(self._host)) == self._host
        except ValueError:
            return False

    def covers(self, url: str) -> bool:
        """Return whether it matches strictly, for rules that allow: the pattern's port, or else the default
        one. Without a scheme, http and https match. An address with a user or a password never matches.
        """
        parts = _parts(url)
        if parts is None or parts.username is not None or parts.password is not None:
            return False
        schemes = (self._scheme,) if self._scheme not in ("", "*") else ("http", "https")
        if parts.scheme not in schemes or not self._is_host(parts):
            return False
        port = _port(parts)
        expected = self._port or str(_PORTS.get(parts.scheme))
        return expected in ("*", str(port)) and self._is_path(parts)

    def touches(self, url: str) -> bool:
        """Return whether it matches loosely, for rules that ask or deny: http and https are the same, and any
        port matches a pattern without one.

        An address that cannot be parsed matches every pattern.
        """
        parts = _parts(url)
        if parts is None:
            return True
        if (
            self._scheme not in ("", "*")
            and {self._scheme, parts.scheme} - {"http", "https"}
            and (self._scheme != parts.scheme)
        ):
            return False
        if not self._is_host(parts) or (self._port not in ("", "*") and self._port != str(_port(parts))):
            return False
        return self._is_path(parts)

    def _is_host(self, parts: SplitResult) -> bool:
        return glob(self._host).fullmatch(_host(parts.hostname or "")) is not None

    def _is_path(self, parts: SplitResult) -> bool:
        path = unquote(parts.path or "/")
        closing = "/" if path.endswith("/") else ""
        tidy = normpath(path).replace("//", "/").rstrip("/") + closing
        return glob(self._path).fullmatch(tidy or "/") is not None


def _parts(url: str) -> SplitResult | None:
    # Programs disagree about backslashes and control bytes in addresses, so these are not parsed.
    if re.search(r"[\x00-\x20\x7f\\]", url.strip()):
        return None
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.hostname else None


def _port(parts: SplitResult) -> int | None:
    return parts.port if parts.port is not None else _PORTS.get(parts.scheme)


def _host(name: str) -> str:
    name = name.lower().rstrip(".")
    try:
        return name.encode("idna").decode() if not name.isascii() else name
    except UnicodeError:
        return name


@lru_cache(maxsize=1_024)
def glob(text: str) -> re.Pattern[str]:
    """Compile a glob: `**` matches any text, `*` and `?` match text without a slash."""
    pieces = re.split(r"(/\*\*$|\*\*/|\*+|\?)", text)
    meaning = {"/**": "(?:/.*)?", "**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    expression = "".join(
        meaning.get(piece, ".*" if set(piece) == {"*"} else re.escape(piece)) for piece in pieces if piece
    )
    return re.compile(expression, re.DOTALL)


_SPECIAL = lazy_pattern(r"([*?\[\]\\!#])")
_FOLDS_CASE = sys.platform in ("darwin", "win32")


class PathPattern:
    """One compiled path pattern. Raises `ValueError` with a text that continues a sentence about `text`."""

    def __init__(self, text: str, workspace: Path, home: Path) -> None:
        if not text or text.startswith("!") or "\0" in text:
            raise ValueError("names no path")
        if text == "~" or text.startswith("~/"):
            text = str(home) + text[1:]
        elif text.startswith("~"):
            raise ValueError("names the home folder of somebody else; write the full path")
        own = text.startswith("/")
        if not own and ".." in text.split("/"):
            text, own = str(workspace / text), True
        while text.startswith("./"):
            text = "/" + text[2:].lstrip("/") if text != "./" else "/**"
        self._workspace = workspace
        self._anywhere = not own and (text.startswith("**/") or "/" not in text.strip("/"))
        base = "" if own else _SPECIAL.sub(r"\\\1", str(workspace).rstrip("/")) + "/"
        glob = _tidied(text) if own else text.lstrip("/")
        self._glob = f"**/{glob}" if self._anywhere else base + glob
        inside = base + (f"**/{glob}" if self._anywhere else glob)
        # Links in the path named by the user are resolved when the rule is read.
        self._tight = _spec(_linked(self._glob) if own else inside)
        self._prefix = "" if self._anywhere else _literal_prefix(self._glob)

    def covers(self, path: Path) -> bool:
        """Return whether it matches strictly, for rules that allow. `path` must be absolute and resolved."""
        return self._tight(_text(path), False)

    def may_touch(self, paths: str) -> bool:
        """Return whether the `finder` could match any of the paths contained in the text `paths`."""
        return any(needed in paths for needed, _ in self._specs())

    def finder(self, *, inside: bool = False) -> Callable[[str], Certainty]:
        """Return a function that matches normalised paths loosely, for rules that ask or deny.

        With `inside`, a folder may match if a path below it would. Links in the pattern are resolved once.
        """
        linked = _linked(self._glob)
        specs = self._specs()
        globs = (self._glob, linked) if inside and self._prefix else ()
        prefixes = [f"{_literal_prefix(glob)}/" for glob in globs]

        def find(path: str) -> Certainty:
            for needed, matches in specs:
                if needed in path and matches(path, True):
                    return Certainty.YES
            if not prefixes:
                return Certainty.NO
            above = f"{path.rstrip('/')}/"
            return Certainty.MAYBE if any(each.startswith(above) for each in prefixes) else Certainty.NO

        return find

    def _specs(self) -> list[tuple[str, Matcher]]:
        return [(_needed(glob), _spec(glob)) for glob in dict.fromkeys((self._glob, _linked(self._glob)))]

    def touches(self, path: Path, *, inside: bool = False) -> Certainty:
        """Return the result of the `finder` for a single path."""
        return self.finder(inside=inside)(_text(path))


Matcher = Callable[[str, bool], bool]
"""A test of whether a path is covered; the flag means that it may be a folder with matching content."""


def _text(path: Path) -> str:
    return os.path.normpath(str(path))


@lru_cache(maxsize=1_024)
def _spec(glob: str) -> Matcher:
    import pathspec

    def compiled(text: str) -> GitIgnoreSpec:
        try:
            return pathspec.GitIgnoreSpec.from_lines([text])
        except ValueError:
            raise ValueError("is not a glob") from None

    anchored = "/" + glob.lstrip("/") if not glob.startswith("**/") else glob
    match = compiled(_folded(anchored)).patterns[0].match_file

    def matches(path: str, folder: bool) -> bool:
        name = _folded(path).lstrip("/")
        return bool(name) and (match(name) is not None or (folder and match(name + "/.") is not None))

    return matches


@lru_cache(maxsize=1_024)
def _needed(glob: str) -> str:
    """Return a text that every path matched by the glob contains; empty if none is easily found."""
    if _FOLDS_CASE or "[" in glob or "\\" in glob:
        return ""
    runs = [run for each in re.split(r"[*?!/]+", glob) if (run := each.strip())]
    return runs[-1] if runs and runs[-1] != "." else ""


def _folded(text: str) -> str:
    return text.casefold() if _FOLDS_CASE else text


def _tidied(text: str) -> str:
    """Return an absolute glob without `.`, `..` and doubled slashes before its first wildcard."""
    prefix, rest = _split(text)
    closing = "/" if text.endswith("/") and not rest else ""
    return os.path.normpath(prefix or "/").rstrip("/") + (f"/{rest}" if rest else closing)


@lru_cache(maxsize=1_024)
def _split(glob: str) -> tuple[str, str]:
    """Return the part before the first path component with a wildcard, and the rest."""
    names = glob.split("/")
    at = next((place for place, name in enumerate(names) if re.search(r"(?<!\\)[*?\[]", name)), len(names))
    return "/".join(names[:at]), "/".join(names[at:])


@lru_cache(maxsize=1_024)
def _literal_prefix(glob: str) -> str:
    """Return the folders before the first path component with a wildcard, without escapes."""
    return re.sub(r"\\(.)", r"\1", _split(glob)[0])


def _linked(glob: str) -> str:
    """Return the glob with links resolved in the folders before its first wildcard."""
    prefix, rest = _split(glob)
    if not prefix.startswith("/"):
        return glob
    closing = "/" if glob.endswith("/") and not rest else ""
    real = _SPECIAL.sub(r"\\\1", current().real(_literal_prefix(glob))).rstrip("/")
    return f"{real}/{rest}" if rest else real + closing


NO, MAYBE, YES = Certainty.NO, Certainty.MAYBE, Certainty.YES

_OPERATORS = ("|", "&", ";", "<", ">", "\n", "`", "$(")
_SYSTEM_FOLDERS = tuple(
    f"{folder}/"
    for folder in ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin")
)
"""Folders in which a program called by its full path counts as the program of that name."""


class CommandPattern:
    """One compiled command pattern. Raises `ValueError` with a text to continue a sentence about `text`."""

    def __init__(self, text: str, workspace: Path) -> None:
        words = _words(text)
        self._any = words == ["*"]
        self._program, self._arguments = words[0], words[1:]
        if "/" in self._program and not self._program.startswith(("/", "~", "*")):
            self._program = absolute(joined(str(workspace), self._program))
        operands = [word for word in self._arguments if not _is_option(word)]
        while operands and operands[-1] == "*":
            operands.pop()
        self._operands = operands
        self._needed = [word for word in operands if _LITERAL.fullmatch(word)]
        known = programs().get(self._program)
        spelled = self._arguments if known is None else known.normalize_options(self._arguments)
        self._options = [word for word in spelled if _is_option(word)]
        self._known = known if known is not None and known.same and self._options else None
        self._letters = [option for option in self._options if _SHORT.fullmatch(option)]
        base = self._program.rpartition("/")[2]
        self.program = base if _LITERAL.fullmatch(base) else ""
        """The program's plain name, if only a command of this name can match; otherwise empty."""

    @property
    def is_path(self) -> bool:
        return "/" in self._program

    def is_missing(self, used: Words) -> bool:
        """Return whether a word or option that the pattern requires occurs in none of these arguments."""
        if any(word not in used.words for word in self._needed):
            return True
        return any(not used.letters.issuperset(option[1:]) for option in self._letters)

    def loosely(self, command: Command) -> Certainty:
        """Return whether `command` matches the pattern certainly, possibly or not at all."""
        if self._any:
            return YES
        if not command.name.startswith("git"):
            return self._fits_words(command)
        return max((self._fits_words(each) for each in _spellings(command)), default=NO)

    def exactly(self, command: Command) -> bool:
        """Return whether the whole of `command` certainly matches the pattern."""
        if self._any:
            return True
        if _is_open(command.word) or not self._is_program(command):
            return False
        return _exact(self._arguments, command.arguments)

    def _is_program(self, command: Command) -> bool:
        """Return whether the program matches strictly: a path matches a name only in a system folder."""
        if "/" in self._program:
            paths = {absolute(joined(cwd, command.word)) for cwd in command.cwds}
            return "/" in command.word and all(fnmatchcase(path, self._program) for path in paths)
        if "/" in command.word and not command.word.startswith(_SYSTEM_FOLDERS):
            return False
        return fnmatchcase(command.word.rpartition("/")[2], self._program)

    def _fits_words(self, command: Command) -> Certainty:
        program = self._loose_program(command)
        if program is NO:
            return NO
        # Most commands of a known program differ in one word, which no unknown text can replace.
        missing = any(word not in command.arguments for word in self._needed)
        if missing and "".join(command.arguments).isascii():
            return NO
        found = _begins_with(self._operands, command.arguments)
        if found is NO or not self._options:
            return min(program, found)
        arguments = (
            command.arguments if self._known is None else self._known.normalize_options(command.arguments)
        )
        return min(program, found, *(_has_option(option, arguments) for option in self._options))

    def _loose_program(self, command: Command) -> Certainty:
        if "/" in self._program:
            paths = {absolute(joined(cwd, command.word)) for cwd in command.cwds}
            return max((_same(self._program, path) for path in paths), default=NO)
        base = command.word.rpartition("/")[2]
        return max(_same(self._program, command.name), _same(self._program, base))


def _words(text: str) -> list[str]:
    if any(operator in text for operator in _OPERATORS):
        raise ValueError("names more than one command; write a rule for each of them")
    try:
        words = shlex.split(text)
    except ValueError:
        raise ValueError("holds a quote that is not closed") from None
    if not words or not words[0]:
        raise ValueError("names no program")
    return words


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1


_LITERAL = lazy_pattern(r"[\w.+-]+")
_SHORT = lazy_pattern(r"-\w+")
_is_open = re.compile(f"[{UNKNOWN}{''.join(GLOBS)}]").search
"""A function that returns a match if a marked word stands for unknown text, otherwise None."""


@lru_cache(maxsize=8)
def _by_program(reading: Reading) -> tuple[dict[str, list[int]], list[int]]:
    """Return the indexes of a text's commands by possible program name, and those with unknown names.

    A path counts as its last component. A path that ends in `.`, `..` or a slash has an unknown name.
    """
    named: dict[str, list[int]] = {}
    unnamed: list[int] = []
    known: dict[tuple[str, str], tuple[list[int], ...]] = {}
    for place, command in enumerate(reading.commands):
        called = (command.name, command.word)
        lists = known.get(called)
        if lists is None:
            names = _known_as(*called)
            lists = known[called] = tuple(
                [unnamed if name is None else named.setdefault(name, []) for name in names]
            )
        for places in lists:
            places.append(place)
    return named, unnamed


def _known_as(name: str, word: str) -> list[str | None]:
    """Return the possible names of a command; None stands for an unknown name."""
    found: list[str | None] = []
    base = word.rpartition("/")[2]
    if base in ("", ".", "..") or _is_open(name) or _is_open(word):
        found.append(None)
    elif name.startswith("git-"):
        found.append("git")
    found.append(name)
    if base != name:
        found.append(base)
    return found


class Words(NamedTuple):
    """The known arguments of all commands with one name."""

    words: frozenset[str]
    letters: frozenset[str]
    """The letters of all combined short options."""
    others: tuple[int, ...]
    """Indexes of the commands with unknown arguments, or with arguments that define Git aliases."""


@lru_cache(maxsize=64)
def _words_of(reading: Reading, program: str) -> Words:
    """Return the known arguments of all commands with one name."""
    words: set[str] = set()
    others: list[int] = []
    for place in _by_program(reading)[0].get(program, ()):
        command = reading.commands[place]
        text = " ".join(command.arguments)
        if not text.isascii() or "alias." in text:
            others.append(place)
            continue
        words.update(command.arguments)
        if command.name.startswith("git-"):
            words.add(command.name.removeprefix("git-"))
    known = programs().get(program)
    spelled = words if known is None else {*words, *known.normalize_options(tuple(words))}
    letters = {letter for word in spelled if word.startswith("-") for letter in word}
    return Words(frozenset(words), frozenset(letters), tuple(others))


def candidates(pattern: CommandPattern, reading: Reading) -> Sequence[Command]:
    """Return the parsed commands that a pattern may match; the others certainly do not."""
    if not pattern.program:
        return reading.commands
    named, unnamed = _by_program(reading)
    places: Iterable[int] = named.get(pattern.program, ())
    if places and pattern.is_missing(used := _words_of(reading, pattern.program)):
        places = used.others
    places = sorted({*places, *unnamed}) if pattern.is_path else [*places, *unnamed]
    return [reading.commands[place] for place in places]


def _spellings(command: Command) -> Iterator[Command]:
    """Yield the command, and for Git also its equivalent forms and the aliases that it defines."""
    yield command
    if command.name.startswith("git-"):
        arguments = (command.name.removeprefix("git-"), *command.arguments)
        yield Command("git", arguments, "git", command.cwds)
    if command.name == "git":
        for argument in command.arguments:
            if argument.startswith("alias.") and "=" in argument:
                yield Command("git", tuple(argument.partition("=")[2].split()), "git", command.cwds)


def _same(pattern: str, word: str) -> Certainty:
    """Return whether a marked word matches one word of a pattern certainly, possibly or not at all."""
    if not _is_open(word):
        return YES if _glob(pattern, word) else NO
    if word == UNKNOWN or any(mark in pattern for mark in "*?["):
        return MAYBE
    return MAYBE if tree.pattern(word).fullmatch(pattern) else NO


@lru_cache(maxsize=4_096)
def _glob(pattern: str, word: str) -> bool:
    return fnmatchcase(word, pattern)


def _has_option(option: str, arguments: Sequence[str]) -> Certainty:
    """Return whether an option is among the arguments, in any order and combination."""
    best = NO
    for argument in arguments:
        if argument == "--":
            break
        if argument.startswith("--") or option.startswith("--") or not _is_option(argument):
            best = max(best, _same(option, argument.partition("=")[0]), _same(option, argument))
        elif UNKNOWN in argument or set(option[1:]) <= set(argument[1:]):
            best = max(best, MAYBE if UNKNOWN in argument else YES)
    if best is NO and not option.startswith("--"):
        letters = {letter for each in arguments if _is_option(each) and each[1] != "-" for letter in each[1:]}
        best = YES if set(option[1:]) <= letters else NO
    return best


def _begins_with(operands: Sequence[str], arguments: Sequence[str]) -> Certainty:
    """Return how certainly the arguments begin with these operands, ignoring options and their values."""
    end = len(operands)
    # The certainty that so many operands are matched: after an ordinary word, and directly after an option.
    plain = _closed([YES] + [NO] * end, operands)
    behind = [NO] * (end + 1)
    for argument in arguments:
        if plain[end] is YES:
            break
        following, after = [NO] * (end + 1), [NO] * (end + 1)
        following[end] = max(plain[end], behind[end])
        for at in range(end):
            here = max(plain[at], behind[at])
            if here is NO:
                continue
            following[at + 1] = max(following[at + 1], min(here, _same(operands[at], argument)))
            if operands[at] == "*":
                following[at] = max(following[at], here)
            elif argument == UNKNOWN:  # any number of words
                following[at:] = [max(each, min(here, MAYBE)) for each in following[at:]]
            if _is_option(argument):
                after[at] = max(after[at], here)
            else:
                following[at] = max(following[at], behind[at])
        plain, behind = _closed(following, operands), _closed(after, operands)
        if not any(plain) and not any(behind):
            return NO
    return max(plain[end], behind[end])


def _closed(states: list[Certainty], operands: Sequence[str]) -> list[Certainty]:
    """Extend and return the match states: a `*` that is a word of its own may match no argument."""
    for at, operand in enumerate(operands):
        if operand == "*":
            states[at + 1] = max(states[at + 1], states[at])
    return states


def _exact(pattern: Sequence[str], arguments: Sequence[str]) -> bool:
    """Return whether the arguments match the pattern word by word; a word `*` matches any number."""
    states = {0}
    for argument in arguments:
        states = {
            reached
            for at in _through_stars(states, pattern)
            if at < len(pattern)
            for reached in (
                (at,) if pattern[at] == "*" else (at + 1,) if _exact_word(pattern[at], argument) else ()
            )
        }
        if not states:
            return False
    return len(pattern) in _through_stars(states, pattern)


def _through_stars(states: set[int], pattern: Sequence[str]) -> set[int]:
    reached = set(states)
    for at, word in enumerate(pattern):
        if at in reached and word == "*":
            reached.add(at + 1)
    return reached


def _exact_word(pattern: str, argument: str) -> bool:
    if _is_open(argument):
        return False
    if pattern == argument:
        return True
    # A star must not lead out of the folder named by the pattern, nor turn a word into an option.
    if ".." in argument.split("/") or argument.startswith("-") != pattern.startswith("-"):
        return False
    return _glob(pattern, argument)
