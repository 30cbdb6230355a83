"""Expansion of shell words to marked text (see `agent.safety.reader.tree`), as far as values are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from agent.safety.programs.table import Program
from agent.safety.reader import tree
from agent.safety.reader.tree import ANY, GAP, KEEP, UNKNOWN, ParsedText, active, globbing, literal, value
from tools.kit.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_FOLDERS = 4
"""The number of possible current folders of a command; with more, the folder is unknown."""

Value = str | tuple[str, ...]
"""The value of a variable, or of an array."""


class TooMuchError(Exception):
    """Raised if a text is longer or more complex than the limit for reading."""


@dataclass(slots=True)
class State:
    """The state of one shell; a subshell uses a copy."""

    cwds: tuple[str, ...]
    variables: dict[str, Value] = field(default_factory=dict)
    functions: dict[str, tuple[ParsedText, Node]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """The contents of files written by the script, by path as written."""
    positional: tuple[str, ...] | None = None
    """The values of `$1` and so on; None if unknown."""

    def copy(self) -> State:
        """Return a copy of the state for a subshell."""
        return State(
            self.cwds,
            dict(self.variables),
            dict(self.functions),
            dict(self.aliases),
            self.files,
            self.positional,
        )

    def get(self, name: str) -> Value | None:
        """Return the value of a variable set by the script or by every shell; None if it is unknown."""
        if name in self.variables:
            return self.variables[name]
        if name == "PWD" and len(self.cwds) == 1:
            return self.cwds[0]
        return " \t\n" if name == "IFS" else None

    def go(self, folders: tuple[str, ...]) -> None:
        """Change the current folder to one of several possible ones; above `MOST_FOLDERS` it is unknown."""
        self.cwds = folders if len(folders) <= MOST_FOLDERS else (UNKNOWN,)

    @contextmanager
    def perhaps(self) -> Iterator[None]:
        """Treat this block as code that may not run: what it changes is unknown or has both values."""
        before = self.copy()
        yield
        for name in before.variables.keys() | self.variables.keys():
            if before.variables.get(name) != self.variables.get(name):
                self.variables[name] = UNKNOWN
        self.functions = before.functions | self.functions
        self.go(tuple(dict.fromkeys((*before.cwds, *self.cwds))))


class Command(NamedTuple):
    """One program that would be started. All texts are marked (see `agent.safety.reader.tree`)."""

    name: str
    """The program without its folder."""
    arguments: tuple[str, ...]
    word: str
    """The program as called, folder included."""
    cwds: tuple[str, ...]
    """The folders in which it may run."""

    @property
    def text(self) -> str:
        """The command as text for display, without marks."""
        return " ".join(tree.literal(word) for word in (self.name, *self.arguments))


class Touched(NamedTuple):
    """A file that the shell would open, as a marked path, and the possible current folders."""

    path: str
    cwds: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The programs and files found in a shell text. Compared by identity, so that it can be a cache key."""

    commands: tuple[Command, ...] = ()
    writes: tuple[Touched, ...] = ()
    reads: tuple[Touched, ...] = ()
    doubts: tuple[str, ...] = ()
    """Clauses about what was not understood. A program in another language is not a doubt."""
    assigned: frozenset[str] = frozenset()
    """Variables that are set and may change how programs behave."""
    bomb: str = ""
    """The name of a function that would start itself endlessly; empty if there is none."""
    complete: bool = True
    """False if it is too long or too broken to be read to its end."""

    @property
    def is_known(self) -> bool:
        """Return whether everything in the text was understood."""
        return self.complete and not self.doubts


LONGEST = 20_000
"""The limit in characters on one word; a longer word counts as unknown."""

_ESCAPE = lazy_pattern(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(0?[0-7]{1,3})|(.))", re.DOTALL
)
_NAMED = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "v": "\v",
}
_IN_QUOTES = lazy_pattern(r'\\([$`"\\\n])')
_DEFAULTS = frozenset({":-", "-", ":=", "="})
_REQUIRED = frozenset({":?", "?"})
_EXPANSIONS = frozenset({"simple_expansion", "expansion", "command_substitution"})
HIDDEN = lazy_pattern(r"\$\(|`")
"""Characters that start a command if the shell evaluates a text again."""

Substitute = Callable[["Node"], str | None]
"""A function that reads the script in a substitution and returns its output; None if it is unknown."""


def unescaped(text: str) -> str:
    """Return `text` with backslash escapes resolved as in `$'…'` and `printf`."""

    def one(match: re.Match[str]) -> str:
        for digits, base in ((match[1], 16), (match[2], 16), (match[3], 16), (match[4], 8)):
            if digits:
                number = int(digits, base)
                return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xF900 else "\ufffd"
        return _NAMED.get(match[5], match[5] if match[5] in "\\'\"?" else match[0])

    return _ESCAPE.sub(one, text)


class Expansion:
    """The expansion of words of one source in one shell state. `run` reads the commands in substitutions."""

    def __init__(
        self, source: ParsedText, state: State, run: Substitute, doubt: Callable[[str], None]
    ) -> None:
        self._source = source
        self._state = state
        self._run = run
        self._doubt = doubt

    def words(self, nodes: Iterable[Node]) -> list[str]:
        """Return the fields that result from a sequence of nodes; adjacent nodes form one word."""
        found: list[str] = []
        joined, end = "", -1
        for node in nodes:
            start = node.start_byte
            if start != end and end >= 0 and self._source.data[end:start] != b"\\\n":
                found += self._fields(joined)
                joined = ""
            joined += self._one(node)
            end = node.end_byte
        return found + self._fields(joined) if end >= 0 else found

    def text(self, nodes: Iterable[Node]) -> str:
        """Return the value of nodes where words are not split, as after `=`, cut to `LONGEST` characters."""
        found = "".join(self._joined(node) if node.type in _EXPANSIONS else self._one(node) for node in nodes)
        return value(found.replace(GAP, " ").replace(KEEP, ""))[:LONGEST]

    def quoted(self, node: Node) -> str:
        """Return the content of a here-document, or of other text that expands as in double quotes."""
        data, at = self._source.data, node.start_byte
        pieces: list[str] = []
        for child in node.children:
            if child.start_byte > at:
                pieces.append(self._plain(data[at : child.start_byte]))
            at = child.end_byte
            if child.is_named:
                pieces.append(
                    self._plain(data[child.start_byte : at])
                    if child.type in ("string_content", "heredoc_content")
                    else self._joined(child)
                )
        if node.end_byte > at:
            pieces.append(self._plain(data[at : node.end_byte]))
        return "".join(pieces)

    def _fields(self, text: str) -> list[str]:
        if len(text) > LONGEST:
            return [UNKNOWN]
        if text[:1] == "~":
            text = self._home(text)
        return tree.fields(text)

    def _home(self, text: str) -> str:
        user, slash, rest = text.partition("/")
        home = self._state.get("HOME")
        if user == "~" and isinstance(home, str):
            return home + slash + rest
        if user == "~+":
            return (self._state.cwds[0] if len(self._state.cwds) == 1 else UNKNOWN) + slash + rest
        if re.fullmatch(r"~[a-z_][\w-]*", user) and isinstance(home, str):
            folder = "/root" if user == "~root" else f"{home.rpartition('/')[0]}/{user[1:]}"
            return folder + slash + rest
        return text

    def _plain(self, data: bytes) -> str:
        text = data.decode("utf-8", "replace")
        return (
            _IN_QUOTES.sub(lambda match: "" if match[1] == "\n" else match[1], text) if "\\" in text else text
        )

    def _one(self, node: Node) -> str:
        """Return one unquoted node as marked text."""
        kind = node.type
        if kind in ("word", "number", "command_name", "extglob_pattern", "brace_expression", "regex"):
            if node.named_child_count == 1 and kind == "command_name":
                return self._one(node.children[0])
            if kind != "number" or not node.named_child_count:
                return self._unquoted(self._source.text(node))
        match kind:
            case "string" | "translated_string":
                inner = (
                    node if kind == "string" else next((c for c in node.children if c.type == "string"), node)
                )
                return self._string(inner)
            case "raw_string":
                return KEEP + self._source.text(node)[1:-1]
            case "ansi_c_string":
                return unescaped(self._source.text(node)[2:-1]) or KEEP
            case "concatenation" | "command_name":
                return "".join(self._one(child) for child in node.children)
            case "simple_expansion" | "expansion":
                return self._split(self._variable(node))
            case "command_substitution":
                output = self._run(node)
                return UNKNOWN if output is None else self._split(output.rstrip("\n"))
            case "process_substitution":
                output = self._run(node)
                name = f"/dev/fd/{63 + len(self._state.files)}"
                if output is not None:
                    self._state.files[name] = output
                return name
            case "arithmetic_expansion" | "number":
                self._inside(node)
                if any(
                    HIDDEN.search(each) for each in self._state.variables.values() if isinstance(each, str)
                ):
                    self._doubt("it counts with text that may start programs")
                return UNKNOWN
            case "array":
                return GAP.join(self.words(node.named_children))
            case _:
                if node.type == "$":
                    # `$"…"` is a string; the grammar sometimes splits `$IFS/` into a dollar and a word.
                    after = self._source.data[node.end_byte : node.end_byte + 1]
                    return (
                        ""
                        if after in b"\"'" and after
                        else UNKNOWN
                        if after.isalnum() or after == b"_"
                        else "$"
                    )
                if not node.is_named:
                    return self._unquoted(self._source.text(node))
                self._inside(node)
                return UNKNOWN

    def _string(self, node: Node) -> str:
        # "${a[@]}" remains several words.
        inner = node.named_children
        if len(inner) == 1 and node.end_byte - node.start_byte == inner[0].end_byte - inner[0].start_byte + 2:
            several = self._several(inner[0])
            if several is not None:
                return GAP.join(each or KEEP for each in several)
        data = self._source.data
        start, end = node.start_byte + 1, node.end_byte - 1
        at, pieces = start, list[str]()
        for child in node.children:
            if child.type == '"':
                continue
            if child.start_byte > at:
                pieces.append(self._plain(data[at : child.start_byte]))
            at = child.end_byte
            pieces.append(
                self._plain(data[child.start_byte : at])
                if child.type == "string_content"
                else self._joined(child)
            )
        if end > at:
            pieces.append(self._plain(data[at:end]))
        return KEEP + "".join(pieces)

    def _joined(self, node: Node) -> str:
        """Return the text of a node inside double quotes, which is not split and has no wildcards."""
        match node.type:
            case "simple_expansion" | "expansion" | "command_substitution":
                # The grammar includes preceding spaces in the node.
                text = self._source.text(node)
                blanks = text[: len(text) - len(text.lstrip())]
                if node.type == "command_substitution":
                    output = self._run(node)
                    return blanks + (UNKNOWN if output is None else output.rstrip("\n"))
                found = self._variable(node)
                return blanks + (" ".join(found) if isinstance(found, tuple) else found)
            case _ if not node.is_named:
                return self._source.text(node)
            case _:
                self._inside(node)
                return UNKNOWN

    def _inside(self, node: Node) -> None:
        """Read the commands inside a node that is not itself evaluated."""
        for child in node.children:
            if child.type in ("command_substitution", "process_substitution"):
                self._run(child)
            elif child.named_child_count:
                self._inside(child)

    def _unquoted(self, text: str) -> str:
        return active(re.sub(r"[?*+@!]\([^()]*\)", ANY, text) if "(" in text else text)

    def _split(self, found: str | tuple[str, ...]) -> str:
        if isinstance(found, tuple):
            return GAP.join(globbing(each) for each in found)
        separators = self._state.get("IFS")
        if isinstance(separators, str) and separators.strip() and UNKNOWN not in separators:
            found = re.sub(f"[{re.escape(separators)}]", " ", found)
        return globbing(found)

    def _several(self, node: Node) -> Sequence[str] | None:
        """Return the words of `"$@"` or `"${a[@]}"`; None for everything else."""
        text = self._source.text(node)
        if text in ("$@", "${@}"):
            return (UNKNOWN,) if self._state.positional is None else self._state.positional
        if found := re.fullmatch(r"\$\{(\w+)\[@\]\}", text):
            known = self._state.get(found[1])
            return known if isinstance(known, tuple) else (UNKNOWN if known is None else known,)
        return None

    def _variable(self, node: Node) -> str | tuple[str, ...]:
        """Return the value of `$name` or `${…}`; a tuple for an array."""
        self._inside(node)
        children = node.children
        if len(children) == 2:
            return self._value_of(self._source.text(children[1]))
        if len(children) == 3 and children[1].type in ("variable_name", "special_variable_name"):
            return self._value_of(self._source.text(children[1]))
        if len(children) < 3 or not children[1].is_named:
            return UNKNOWN
        if children[1].type == "subscript":
            return self._element(children[1]) if len(children) == 3 else UNKNOWN
        operator = self._source.text(children[2])
        if operator == "@" or any(
            child.type == "word" and HIDDEN.search(self._source.text(child)) for child in children
        ):
            self._doubt("part of it is not understood")
        name = self._source.text(children[1])
        known = self._state.get(name) if not name.isdigit() else self._value_of(name)
        if operator in _REQUIRED:
            return UNKNOWN if known is None else known
        if operator in _DEFAULTS:
            if known is not None and known != "":
                return known
            given = self.text(children[3:-1])
            if operator.endswith("="):
                self._state.variables[name] = given
            return given
        if operator in (":+", "+"):
            return self.text(children[3:-1]) if known else UNKNOWN
        return UNKNOWN

    def _value_of(self, name: str) -> str | tuple[str, ...]:
        positional = self._state.positional
        if name in ("@", "*"):
            return (UNKNOWN,) if positional is None else positional
        if name.isdigit():
            number = int(name)
            if number == 0 or positional is None or UNKNOWN in positional:
                return UNKNOWN
            return positional[number - 1] if number <= len(positional) else ""
        known = self._state.get(name)
        if isinstance(known, tuple):
            return known[0] if known else ""
        return UNKNOWN if known is None else known

    def _element(self, node: Node) -> str | tuple[str, ...]:
        name = node.child_by_field_name("name")
        index = node.child_by_field_name("index")
        known = None if name is None else self._state.get(self._source.text(name))
        place = "" if index is None else self._source.text(index)
        if isinstance(known, tuple):
            if place in ("@", "*"):
                return known
            if place.isdigit() and int(place) < len(known):
                return known[int(place)]
        return UNKNOWN


class ShellReader(Protocol):
    """A reader of one script at its current position. It collects its findings in its attributes."""

    state: State
    commands: dict[Command, None]
    writes: dict[Touched, None]
    doubts: dict[str, None]
    assigned: set[str]

    def run(self, text: str, stdin: str | None = None) -> str | None:
        """Read a script as if it ran at this point; return its output, None if unknown."""
        ...

    def start(self, words: Sequence[str], stdin: str | None = None) -> str | None:
        """Read a command line as if it ran at this point; return its output, None if unknown."""
        ...

    def started(self, program: Program, arguments: Sequence[str], stdin: str | None) -> str | None:
        """Read the commands that a program of the table starts; return their output, None if unknown."""
        ...

    def apart(self, what: str | Sequence[str]) -> None:
        """Read a script or a command line that a program starts in a separate shell."""
        ...

    def call(self, name: str, arguments: Sequence[str], stdin: str | None) -> str | None:
        """Read the body of a function defined earlier; return its output, None if unknown."""
        ...

    def inside(self, folder: str) -> ShellReader:
        """Return a new reader for commands that run in a container, with `folder` as the current folder."""
        ...

    def record(self, name: str, arguments: Sequence[str], word: str = "") -> None:
        """Record that a program would be started."""
        ...

    def doubt(self, clause: str) -> None:
        """Record that a part was not understood; `clause` gives the reason."""
        ...

    def step(self) -> None:
        """Count one unit of work. Raises `TooMuchError` at the limit."""
        ...

    def expansion(self) -> Expansion:
        """Return an object that expands words in the current state."""
        ...

    def text(self, node: Node) -> str:
        """Return the source text of a node."""
        ...

    def read_inside(self, node: Node) -> str | None:
        """Analyse commands in words, such as substitutions; return an empty text, as words print nothing."""
        ...


_NOT_UNDERSTOOD = "part of it is not understood"


def assign(script: ShellReader, node: Node, *, exported: bool) -> str:
    name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name_node is None:
        return ""
    name = script.text(name_node)
    if name_node.type == "subscript":
        script.read_inside(name_node)
        name = name.partition("[")[0]
        script.state.variables[name] = UNKNOWN
        return ""
    if value_node is None:
        given: str | tuple[str, ...] = ""
    elif value_node.type == "array":
        given = tuple(map(value, script.expansion().words(value_node.named_children)))
    else:
        given = script.expansion().text([value_node])
        home = script.state.get("HOME")
        if given.startswith(("~/", "~:")) or given == "~":
            given = f"{home}{given[1:]}" if isinstance(home, str) else given
    if any(child.type == "+=" for child in node.children):
        before = script.state.get(name)
        if isinstance(before, tuple) and isinstance(given, tuple):
            given = (*before, *given)
        else:
            given = f"{before}{given}" if isinstance(before, str) and isinstance(given, str) else UNKNOWN
    script.state.variables[name] = given
    if exported and isinstance(given, str) and HIDDEN.search(given):
        script.doubt(_NOT_UNDERSTOOD)
    if exported or name != name.lower():
        script.assigned.add(f"export {name}" if exported else name)
    return ""


def declare(script: ShellReader, node: Node) -> str:
    exported = node.children[0].type in ("export", "declare", "typeset")
    reference = False
    for child in node.children[1:]:
        if child.type == "variable_assignment":
            assign(script, child, exported=exported)
            if reference and (name := child.child_by_field_name("name")) is not None:
                # A reference to another variable, whose assignments are not followed.
                script.assigned.add(f"export {script.text(child).rpartition('=')[2]}")
                script.state.variables[script.text(name)] = UNKNOWN
        elif child.type == "word" and re.fullmatch(r"-\w*n\w*", script.text(child)):
            reference = node.children[0].type in ("declare", "typeset", "local")
        elif child.is_named:
            said = (
                script.expansion().words([child]) if child.type != "variable_name" else [script.text(child)]
            )
            if exported:
                script.assigned |= {
                    f"export {literal(word).partition('=')[0]}" for word in said if word[:1] != "-"
                }
            if any(HIDDEN.search(word) for word in said):
                script.doubt(_NOT_UNDERSTOOD)
            if node.type == "unset_command":
                script.assigned |= set(said)
                for word in said:
                    script.state.variables[word] = UNKNOWN
                    script.state.functions.pop(word, None)
    return ""
