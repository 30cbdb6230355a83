"""Shell words: quoting removed, expansions carried out as far as they can be known.

A word is read into all the texts it can stand for, as marked text (see `marks`).
What depends on the world is `UNKNOWN`. Nothing is run.
"""

from __future__ import annotations

import re
from typing import Protocol

from agent.safety.shell import marks
from agent.safety.shell.marks import GAP, KEEP, UNKNOWN, combine
from agent.safety.shell.simple_words import USUAL_SEPARATORS, Variables, several, simply
from agent.safety.shell.values import (
    SLICE,
    Value,
    ansi_decoded,
    cut_out,
    indexed,
    recased,
    replaced,
    split,
    stripped,
)

_PLAIN = re.compile(r"[\w./:=@%+,\-]*", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!_-]", re.ASCII)
_COMMAND = re.compile(r"\$\((?!\()|`")
_TILDE = re.compile(r"~([\w.+-]*)(?=/|$)")
_SPECIAL = re.compile(r"[\\'\"$`<>]")
_SPECIAL_IN_QUOTES = re.compile(r"[\\\"$`]")
_INNER = re.compile(r"[\\'\"`(){}]")
_IN_DOUBLE_QUOTES = re.compile(r"[\\\"]|\$[({]")
_IN_BACKQUOTES = re.compile(r"[\\`]")
_BRACED = re.compile(
    r"(?P<prefix>[!#]?)(?P<name>[A-Za-z_]\w*|[0-9]+|[@*#?$!-])(?P<index>\[[^]]*\])?(?P<operation>.*)",
    re.ASCII | re.DOTALL,
)


class Scope(Variables, Protocol):
    """What words refer to."""

    def output(self, script: str) -> list[str]:
        """What a substituted command may print, closing line feeds removed."""
        ...

    def file_of(self, script: str, writes: bool) -> str:
        """A path that stands for the process substitution of `script`."""
        ...

    def home(self, user: str) -> str: ...

    def set_default(self, name: str, values: list[Value]) -> None:
        """Carry out the assignment of `${name:=value}`."""

    def branch(self, fields: int) -> None:
        """Count fields that braces make of one. Raises when there were too many of them."""


def is_plain(word: str) -> bool:
    """Whether a raw word stands for itself wherever it is."""
    return bool(word) and _PLAIN.fullmatch(word) is not None


def expand(word: str, scope: Scope) -> list[list[str]]:
    """All readings of a word of a command line; each is the list of its fields."""
    if (text := simply(word, scope)) is not None:
        return [[text]] if text or word[:1] in ("'", '"') else [[]]
    return expand_involved(word, scope)


def expand_involved(word: str, scope: Scope) -> list[list[str]]:
    """What `expand` says of a word of which `simply` says nothing."""
    if (found := several(word, scope)) is not None:
        quoted = word[:1] == '"'
        return [[text] if text or quoted else [] for text in dict.fromkeys(found)]
    readings: dict[tuple[str, ...], None] = {}
    texts = _Reader(word, scope).read()
    if len(texts) == 1 and texts[0].isascii():
        return [texts] if texts[0] else [[]]
    for text in texts:
        readings[tuple([field for piece in _braced(text, scope) for field in marks.fields(piece)])] = None
    return [list(reading) for reading in readings]


def _braced(text: str, scope: Scope) -> list[str]:
    """The pieces that braces make of a text: all of them, not one or the other."""
    pieces = marks.braces(text)
    if len(pieces) > 1:
        scope.branch(len(pieces))
    return pieces


def expand_text(word: str, scope: Scope, *, globs: bool = False) -> list[str]:
    """All readings of a word that stays one text: the value of an assignment, the target of `>`."""
    if (text := simply(word, scope)) is not None:
        return [text]
    if (texts := several(word, scope)) is not None:
        return texts
    found = [text.replace(KEEP, "").replace(GAP, " ") for text in _Reader(word, scope, assigns=True).read()]
    if globs:
        return [piece for text in found for piece in _braced(text, scope)]
    return [marks.value(text) for text in found]


def expand_quoted(text: str, scope: Scope) -> list[str]:
    """All readings of text that is expanded as if in double quotes: the body of a here-document."""
    return [marks.value(reading) for reading in _Reader(text, scope).read_quoted()]


class _Reader:
    """Reads one word from left to right into segments, each a list of options."""

    def __init__(self, source: str, scope: Scope, assigns: bool = False) -> None:
        self._source = source
        self._scope = scope
        self._assigns = assigns
        self._segments: list[list[str]] = []

    def read(self) -> list[str]:
        source = self._source
        at = self._tilde(0)
        while at < len(source):
            special = _SPECIAL.search(source, at)
            end = special.start() if special else len(source)
            if end > at:
                self._unquoted(source[at:end])
            if special is None:
                break
            at = self._special(source, end)
        return combine(self._segments)

    def read_quoted(self) -> list[str]:
        self._double_quoted(self._source, 0, closes=False)
        return combine(self._segments)

    def _add(self, *options: str) -> None:
        if len(options) == 1:
            self._segments.append([options[0]])
        else:
            self._segments.append(list(dict.fromkeys(options)) or [UNKNOWN])

    def _unquoted(self, text: str) -> None:
        if not self._assigns:
            self._add(marks.active(text))
            return
        if "~" not in text:
            self._add(marks.active(text))
            return
        first, *rest = re.split(r"(?<=[:=])~(?=[/:]|$)", text)
        self._add(marks.active(self._scope.home("").join([first, *rest])))

    def _tilde(self, at: int) -> int:
        if not self._source.startswith("~", at):
            return at
        match = _TILDE.match(self._source, at)
        if match is None:
            return at
        self._add(self._scope.home(match[1]))
        return match.end()

    def _special(self, source: str, at: int) -> int:
        """Read what starts at a special character outside quotes; the place after it."""
        character = source[at]
        following = source[at + 1 : at + 2]
        if character == "\\":
            self._add("" if following == "\n" else following + KEEP)
            return at + 2
        if character == "'":
            end = source.find("'", at + 1)
            end = len(source) if end < 0 else end
            self._add(source[at + 1 : end] + KEEP)
            return end + 1
        if character == '"':
            return self._double_quoted(source, at + 1)
        if character == "`":
            return self._backticks(source, at, quoted=False)
        if character in "<>":
            if following != "(":
                self._add(character)
                return at + 1
            end = closing(source, at + 2, ")")
            self._add(self._scope.file_of(source[at + 2 : end], character == ">"))
            return end + 1
        if following == "'":
            return self._ansi(source, at + 2)
        if following == '"':
            return self._double_quoted(source, at + 2)
        return self._dollar(source, at, quoted=False)

    def _double_quoted(self, source: str, at: int, closes: bool = True) -> int:
        self._add(KEEP)
        while at < len(source):
            special = _SPECIAL_IN_QUOTES.search(source, at)
            end = special.start() if special else len(source)
            if end > at:
                self._add(source[at:end])
            if special is None:
                return end
            character = source[end]
            following = source[end + 1 : end + 2]
            if character == "\\":
                escaped = following and following in '$`"\\\n'
                self._add(("" if following == "\n" else following) if escaped else "\\" + following)
                at = end + 2
            elif character == '"':
                if closes:
                    return end + 1
                self._add('"')
                at = end + 1
            elif character == "`":
                at = self._backticks(source, end, quoted=True)
            else:
                at = self._dollar(source, end, quoted=True)
        return at

    def _ansi(self, source: str, at: int) -> int:
        end = at
        while end < len(source) and source[end] != "'":
            end += 2 if source[end] == "\\" else 1
        self._add(ansi_decoded(source[at:end]) + KEEP)
        return end + 1

    def _backticks(self, source: str, at: int, quoted: bool) -> int:
        end = at + 1
        while end < len(source) and source[end] != "`":
            end += 2 if source[end] == "\\" else 1
        script = re.sub(r"\\([`\\$])", r"\1", source[at + 1 : end])
        self._insert(list(self._scope.output(script)), quoted)
        return end + 1

    def _dollar(self, source: str, at: int, quoted: bool) -> int:
        if source.startswith("$((", at):
            end = closing(source, at + 3, ")")
            if source.startswith("))", end):
                self._arithmetic(source[at + 3 : end])
                return end + 2
        if source.startswith("$(", at):
            end = closing(source, at + 2, ")")
            self._insert(list(self._scope.output(source[at + 2 : end])), quoted)
            return end + 1
        if source.startswith("${", at):
            end = closing(source, at + 2, "}")
            self._insert(self._braced(source[at + 2 : end], quoted), quoted)
            return end + 1
        name = _NAME.match(source, at + 1)
        if name is None:
            self._add("$")
            return at + 1
        self._insert(self._scope.values(name[0]) or [UNKNOWN], quoted, joined=name[0] != "@")
        return name.end()

    def _arithmetic(self, expression: str) -> None:
        """A number nobody needs to know; commands inside it still run."""
        self._run_inside(expression)
        self._add(expression.strip() if expression.strip().isdigit() else UNKNOWN)

    def _run_inside(self, text: str) -> None:
        """Follow the commands in text that is not read otherwise, such as arithmetic."""
        at = 0
        while (match := _COMMAND.search(text, at)) is not None:
            if match[0] == "`":
                at = after_quote(text, match.end(), "`")
            else:
                at = closing(text, match.end(), ")") + 1
            _Reader(text[match.start() : at], self._scope).read()

    def _insert(self, values: list[Value], quoted: bool, joined: bool = True) -> None:
        """Put the values of an expansion into the word, as the quoting asks."""
        if len(values) == 1 and isinstance(only := values[0], str):
            self._scope.spend(len(only) // 16)
            self._segments.append([only if quoted else split(only, self._separators())])
            return
        # An element of an array costs as much as several characters of a text.
        self._scope.spend(sum([len(each) // (16 if isinstance(each, str) else 2) for each in values]))
        separators = "" if quoted else self._separators()
        options: list[str] = []
        for value in values:
            if isinstance(value, str):
                options.append(value if quoted else split(value, separators))
            elif quoted and joined:
                options.append(" ".join(value))
            elif quoted:
                options.append(GAP.join(element + KEEP for element in value))
            else:
                options.append(GAP.join(split(element, separators) for element in value))
        self._add(*options)

    def _separators(self) -> str:
        if self._assigns:
            return ""  # what is assigned is not split
        known = self._scope.values("IFS")
        if known == USUAL_SEPARATORS:
            return " \t\n"
        texts = [value for value in known or () if isinstance(value, str)]
        return "".join(texts) if known is not None else " \t\n"

    def _braced(self, body: str, quoted: bool) -> list[Value]:
        """The values of `${body}`."""
        match = _BRACED.fullmatch(body)
        if match is None:
            self._run_inside(body)
            return [UNKNOWN]
        name, operation = match["name"], match["operation"]
        if match["prefix"] == "#":
            return [UNKNOWN]
        values = self._scope.values(name)
        if match["index"]:
            self._run_inside(match["index"])
        if match["prefix"] == "!":
            values = self._indirect(values)
        if values is not None and match["index"]:
            values = [found for value in values for found in indexed(value, match["index"][1:-1])]
        if operation:
            if values is not None and not match["index"] and name not in ("@", "*"):
                # An array without an index is its first element.
                values = list[Value](
                    [each if isinstance(each, str) else "".join(each[:1]) for each in values]
                )
            values = self._operated(name, values, operation)
        if values is None:
            return [UNKNOWN]
        if quoted and (match["index"] == "[@]" or name == "@"):
            return [
                GAP.join(e + KEEP for e in value) if isinstance(value, tuple) else value for value in values
            ]
        return values

    def _indirect(self, names: list[Value] | None) -> list[Value] | None:
        if names is None:
            return None
        found: list[Value] = []
        for name in names:
            values = self._scope.values(name) if isinstance(name, str) else None
            if values is None:
                return None
            found += values
        return found

    def _operated(self, name: str, values: list[Value] | None, operation: str) -> list[Value]:
        """`${name operation}`: defaults, slices, removal and replacement of text."""
        default = re.match(r":?([-=+?])", operation)
        if default is not None:
            return self._defaulted(name, values, default[1], operation[default.end() :])
        if cut := SLICE.fullmatch(operation):
            # The first of the arguments of a script has the number one.
            start = max(int(cut[1]) - 1, 0) if name in ("@", "*") else int(cut[1])
            return [cut_out(each, start, int(cut[2]) if cut[2] else None) for each in values or [UNKNOWN]]
        if any(isinstance(value, tuple) for value in values or ()):
            return self._each_operated(name, values or [], operation)
        texts = [value for value in values or [UNKNOWN] if isinstance(value, str)]
        if removal := re.match(r"##?|%%?", operation):
            patterns = _Reader(operation[removal.end() :], self._scope).read()
            return [stripped(text, removal[0], each) for text in texts for each in patterns]
        if operation.startswith("/"):
            return self._replaced(texts, operation)
        if operation == "@P":
            for text in texts:  # expanded once more, as a prompt is
                _Reader(text, self._scope).read_quoted()
                if UNKNOWN in text:
                    self._scope.output(text)
        self._run_inside(operation)
        return recased(texts, operation)

    def _each_operated(self, name: str, values: list[Value], operation: str) -> list[Value]:
        """What an operation makes of arrays: it is carried out on each element."""
        found: list[Value] = []
        for value in values:
            if isinstance(value, str):
                found += self._operated(name, [value], operation)
                continue
            self._scope.spend(4 * len(value))
            made = [self._operated(name, [element], operation) for element in value]
            found.append(tuple([str(options[0]) for options in made]))
            if any(len(options) > 1 for options in made):
                found.append(UNKNOWN)
        return found

    def _defaulted(self, name: str, values: list[Value] | None, kind: str, word: str) -> list[Value]:
        if kind == "?":
            return values or [UNKNOWN]
        others: list[Value] = list(expand_text(word, self._scope))
        if kind == "+":
            return ["", *others]
        if values is None:
            if kind == "=":
                self._scope.set_default(name, [*others, UNKNOWN])
            return [*others, UNKNOWN]
        if any(value in ("", ()) or value == UNKNOWN for value in values):
            values = [*values, *others]
        return values

    def _replaced(self, texts: list[str], operation: str) -> list[Value]:
        match = re.fullmatch(r"(//|/[#%]?)((?:\\.|[^/\\])*)(?:/(.*))?", operation, re.DOTALL)
        if match is None:
            return [UNKNOWN]
        return [
            replaced(text, match[1], old, new)
            for old in _Reader(match[2], self._scope).read()
            for new in expand_text(match[3] or "", self._scope)
            for text in texts
        ]


def closing(source: str, at: int, bracket: str) -> int:
    """The place of the bracket that closes what was opened before `at`; the end when there is none."""
    opener = "(" if bracket == ")" else "{"
    depth = 0
    while (match := _INNER.search(source, at)) is not None:
        at = match.end()
        character = match[0]
        if character == "\\":
            at += 1
        elif character == "'":
            end = source.find("'", at)
            at = len(source) if end < 0 else end + 1
        elif character in '"`':
            at = after_quote(source, at, character)
        elif character == opener:
            depth += 1
        elif character == bracket:
            if depth == 0:
                return match.start()
            depth -= 1
    return len(source)


def after_quote(source: str, at: int, quote: str) -> int:
    """The place after the closing quote; substitutions inside double quotes have quotes of their own."""
    search = _IN_DOUBLE_QUOTES.search if quote == '"' else _IN_BACKQUOTES.search
    while (match := search(source, at)) is not None:
        found, at = match[0], match.end()
        if found == quote:
            return at
        if found == "\\":
            at += 1
        else:
            at = closing(source, at, ")" if found == "$(" else "}") + 1
    return max(at, len(source))
