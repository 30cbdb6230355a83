"""The structure of a script: the commands it starts, with their order, folder and environment.

Node types that are not named here count as not understood. The commands inside them are still read, for the
hardline and the rules.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from agent.safety.programs.table import Program
from agent.safety.reader import starts, tree
from agent.safety.reader.expansion import (
    Command,
    Expansion,
    Reading,
    State,
    TooMuchError,
    Touched,
    assign,
    declare,
)
from agent.safety.reader.rough import rough_commands
from agent.safety.reader.tree import UNKNOWN, ParsedText, parse, unmarked, value
from agent.safety.rules import is_ruled
from tools.kit.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from tree_sitter import Node


MOST_STEPS = 700
"""The number of statements and commands read in one text, counting repeats in loops and functions."""
MOST_ROUNDS = 16
"""The number of loop values that are evaluated; with more, the value is unknown."""
DEEPEST = 24
"""The nesting limit of scripts and function calls."""
LONGEST = 4_000_000
"""The number of characters of a text that are read. A longer command is never allowed."""
_START = 65_536
"""The number of characters read first of a long text, as they often exceed the limits already."""

_BLOCKS = frozenset({"program", "compound_statement", "do_group", "then", "else_clause", "elif_clause"})
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_TEXTS = frozenset({"word", "string", "raw_string", "extglob_pattern", "regex"})
_NOT_UNDERSTOOD = "part of it is not understood"
_ENDLESS = lazy_pattern(r"(?:while|until)\s+(?:true|:|\[ 1 \]|\(\(1\)\)|\[\[ 1 \]\]|1)\s*[;\n]")
_PAUSES = lazy_pattern(r"\b(?:sleep|wait|read|break|exit|return|inotifywait)\b")
_SETS = lazy_pattern(r"(?<![\w$\{])([A-Za-z_]\w*)\+?=")
_HIDES = lazy_pattern(r"'[^']*(?:\$\(|`)|-(?:v|eq|ne|lt|gt|le|ge)\b[^\]]*\[[^\]]*(?:\$\(|`)")
"""Commands that a test may run although they are quoted."""


class ScriptReader:
    """The reader of one shell text, which collects the programs and files it finds."""

    def __init__(self, home: str, cwd: str, most: int = MOST_STEPS) -> None:
        self.state = State((cwd,), {"HOME": home, "USER": home.rpartition("/")[2]}, positional=())
        self.commands: dict[Command, None] = {}
        self.writes: dict[Touched, None] = {}
        self.reads: dict[Touched, None] = {}
        self.doubts: dict[str, None] = {}
        self.assigned: set[str] = set()
        self.bomb = ""
        self._left = most
        self._depth = 0
        self._source: ParsedText | None = None

    def reading(self, complete: bool) -> Reading:
        """Return the findings; `complete` is true if all of the text was read."""
        return Reading(
            tuple(self.commands),
            tuple(self.writes),
            tuple(self.reads),
            tuple(self.doubts),
            frozenset(self.assigned),
            self.bomb,
            complete,
        )

    # Whole texts

    def run(self, text: str, stdin: str | None = None) -> str | None:
        """Read a script as if it ran at this point; return its output, None if unknown."""
        if UNKNOWN in text:
            self.doubt("it runs text that is not known")
            if not text.strip(UNKNOWN + " \t\n;&|"):
                return None
        self._depth += 1
        if self._depth > DEEPEST or len(text) > LONGEST:
            raise TooMuchError
        if len(text) > 2 * _START:
            self._try_start(text, stdin)
        outer = self._source
        try:
            # The parser gets a letter for each unknown part, which may also contain variables.
            source = parse(text)
            if source is None or not source.complete:
                self.doubt(_NOT_UNDERSTOOD)
                self._roughly(text)
            if source is None:
                return None
            self._source = source
            return self._statement(source.root, stdin)
        finally:
            self._depth -= 1
            self._source = outer

    def _try_start(self, text: str, stdin: str | None) -> None:
        """Raise `TooMuchError` if the start of a long text alone exceeds the limits, so that the rest is not
        parsed.

        Otherwise nothing changes.
        """
        end = text.rfind("\n", 0, _START) + 1
        source = parse(text[:end])
        if source is None or not source.complete:
            return
        trial = copy.copy(self)
        trial.state = replace(self.state.copy(), files=dict(self.state.files))
        trial.commands, trial.writes = dict(self.commands), dict(self.writes)
        trial.reads, trial.doubts = dict(self.reads), dict(self.doubts)
        trial.assigned = set(self.assigned)
        trial._source = source
        try:
            trial._statement(source.root, stdin)
        except TooMuchError:
            self.__dict__.update(trial.__dict__)
            raise

    def doubt(self, clause: str) -> None:
        """Record that a part was not understood; `clause` gives the reason."""
        self.doubts[clause] = None

    def step(self) -> None:
        """Count one unit of work. Raises `TooMuchError` at the limit."""
        self._left -= 1
        if self._left < 0:
            raise TooMuchError

    def inside(self, folder: str) -> ScriptReader:
        """Return a new reader for commands that run in a container, with `folder` as the current folder."""
        return ScriptReader("/root", folder, self._left // 2)

    def record(self, name: str, arguments: Sequence[str], word: str = "") -> None:
        """Record that a program would be started."""
        self.commands[Command(name, tuple(arguments), word or name, self.state.cwds)] = None

    def _roughly(self, text: str) -> None:
        for rough in rough_commands(text):
            self.step()
            for path in rough.writes:
                self.writes[Touched(path, self.state.cwds)] = None
            words = [
                f"{self.state.get('HOME')}{word[1:]}" if word[:1] == "~" else word for word in rough.words
            ]
            if words:
                starts.invoke(self, words, None)

    def start(self, words: Sequence[str], stdin: str | None = None) -> str | None:
        """Read a command line as if it ran at this point; return its output, None if unknown."""
        return starts.invoke(self, words, stdin)

    def started(self, program: Program, arguments: Sequence[str], stdin: str | None) -> str | None:
        """Read the commands that a program of the table starts; return their output, None if unknown."""
        return starts.started(self, program, arguments, stdin)

    def apart(self, what: str | Sequence[str]) -> None:
        """Read a script or a command line that a program starts in a separate shell."""
        outer, self.state = self.state, self.state.copy()
        try:
            if isinstance(what, str):
                self.run(what)
            elif what:
                self.start(what)
        finally:
            self.state = outer

    # Statements

    def _statement(self, node: Node, stdin: str | None) -> str | None:
        self.step()
        match node.type:
            case "command":
                return self._command(node, stdin)
            case kind if kind in _BLOCKS:
                return self._block(node.children, stdin)
            case "list":
                return self._list(node, stdin)
            case "pipeline":
                return self._pipeline(node, stdin)
            case "redirected_statement":
                return self._redirected(node, stdin)
            case "subshell":
                outer, self.state = self.state, self.state.copy()
                try:
                    return self._block(node.children, stdin)
                finally:
                    self.state = outer
            case (
                "if_statement" | "while_statement" | "case_statement" | "case_item" | "c_style_for_statement"
            ):
                return self._branches(node, stdin)
            case "for_statement":
                return self._for(node, stdin)
            case "function_definition":
                return self._function(node)
            case "variable_assignment":
                return assign(self, node, exported=False)
            case "variable_assignments" | "negated_command":
                return self._block(node.children, stdin)
            case "declaration_command" | "unset_command":
                return declare(self, node)
            case "test_command":
                if _HIDES.search(self.text(node)):
                    self.doubt(_NOT_UNDERSTOOD)
                return self.read_inside(node)
            case "comment" | "heredoc_body" | "heredoc_end" | "heredoc_start":
                return ""
            case "ERROR":
                self._block(node.children, None)
                return None
            case _ if not node.is_named:
                return ""
            case _:
                if node.type not in ("postfix_expression", "binary_expression", "unary_expression"):
                    self.doubt(_NOT_UNDERSTOOD)
                return self.read_inside(node)

    def read_inside(self, node: Node) -> str | None:
        """Read the commands inside words, such as substitutions; return an empty text."""
        for child in node.children:
            if child.type in ("command_substitution", "process_substitution"):
                self._substitution(child)
            elif child.type == "command":
                self._statement(child, None)
            elif child.named_child_count:
                self.read_inside(child)
        return ""

    def _block(self, nodes: Sequence[Node], stdin: str | None) -> str | None:
        output: str | None = ""
        for child in nodes:
            if child.is_named:
                said = self._statement(child, stdin)
                output = None if output is None or said is None else output + said
        return output

    def _list(self, node: Node, stdin: str | None) -> str | None:
        """Read `a && b || c`, a tree with the first command deepest; return its output if known."""
        rest: list[tuple[str, Node]] = []
        first = node
        while first.type == "list":
            self.step()
            named = [child for child in first.children if child.is_named]
            operator = next((child.type for child in first.children if child.type in ("&&", "||")), "")
            rest += [(operator, child) for child in reversed(named[1:])]
            first = named[0]
        output = self._statement(first, stdin)
        for operator, each in reversed(rest):
            if operator == "||":
                with self.state.perhaps():
                    self._statement(each, stdin)
                output = None
            else:
                said = self._statement(each, stdin)
                output = None if output is None or said is None else output + said
        return output

    def _pipeline(self, node: Node, stdin: str | None) -> str | None:
        outer = self.state
        flowing = stdin
        for child in node.children:
            if child.is_named:
                self.state = outer.copy()
                flowing = self._statement(child, flowing)
        self.state = outer
        return flowing

    def _branches(self, node: Node, stdin: str | None) -> str | None:
        """Read the branches of a statement: conditions certainly run, bodies may run.

        The condition of a loop may read variables from its input.
        """
        if node.type in ("while_statement", "c_style_for_statement"):
            self._before_loop(node)
        conditions = [] if node.type == "c_style_for_statement" else node.children_by_field_name("condition")
        for child in conditions:
            if child.is_named:
                self._statement(child, stdin)
        done = {child.id for child in conditions}
        for child in node.children:
            if child.id in done or not child.is_named or child.type in _TEXTS:
                continue
            with self.state.perhaps():
                if child.type.endswith("expansion") or child.type in (
                    "concatenation",
                    "command_substitution",
                ):
                    self.expansion().words([child])
                else:
                    self._statement(child, stdin)
        return None

    def _before_loop(self, node: Node) -> None:
        """Forget variables that a loop sets, because later rounds start with other values.

        An endless loop is recorded as a doubt.
        """
        text = self.text(node)
        is_open = node.type == "c_style_for_statement" and node.child_by_field_name("condition") is None
        if is_open or (_ENDLESS.match(text) and not _PAUSES.search(text)):
            self.doubt("it never ends or pauses")
        if "shift" in text:
            self.state.positional = None
        for match in _SETS.finditer(text):
            self.state.variables[match[1]] = UNKNOWN

    def _for(self, node: Node, stdin: str | None) -> str | None:
        values = self.expansion().words(node.children_by_field_name("value"))
        name_node, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if name_node is None or body is None:
            return None
        name = self.text(name_node)
        if not values and not node.children_by_field_name("value"):
            values = list(self.state.positional or (UNKNOWN,))
        if len(values) > MOST_ROUNDS:
            values = [UNKNOWN]
        with self.state.perhaps():
            self.assigned.add(name)
            for each in values:
                # A pattern stands for every matching file name.
                self.state.variables[name] = each
                self._statement(body, stdin)
        return None

    def _function(self, node: Node) -> str:
        name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name_node is None or body is None or self._source is None:
            return ""
        name = self.text(name_node)
        self.state.functions[name] = (self._source, body)
        calls = len(re.findall(rf"(?:^|[\s;|&({{]){re.escape(name)}(?=$|[\s;|&)}}])", self.text(body)))
        loops = re.search(r"\bwhile\s+(?:true|:)", self.text(body)) is not None
        if calls >= 2 - loops and "&" in self.text(body).replace("&&", ""):
            self.bomb = name
        outer, self.state = self.state, self.state.copy()
        self.state.positional = None
        try:
            self._statement(body, None)
            for child in node.children:
                if child.type in _REDIRECTS:
                    self._redirect(child, "")
        finally:
            self.state = outer
        return ""

    def call(self, name: str, arguments: Sequence[str], stdin: str | None) -> str | None:
        """Read the body of a function defined earlier, with these arguments; return its output, None if
        unknown.
        """
        source, body = self.state.functions[name]
        outer, positional = self._source, self.state.positional
        self._depth += 1
        if self._depth > DEEPEST:
            raise TooMuchError
        self._source, self.state.positional = source, tuple(map(value, arguments))
        try:
            return self._statement(body, stdin)
        finally:
            self._depth -= 1
            self._source, self.state.positional = outer, positional

    # Commands and redirections

    def _command(self, node: Node, stdin: str | None, more: Sequence[Node] = ()) -> str | None:
        expansion = self.expansion()
        words_nodes: list[Node] = []
        assignments: list[Node] = []
        output_to: list[Node] = []
        for child in node.children:
            if child.type == "variable_assignment" and not words_nodes:
                assignments.append(child)
            elif child.type == "herestring_redirect":
                stdin = self._redirect(child, None)
            elif child.type in _REDIRECTS:
                output_to.append(child)
            elif child.type == "subshell":
                self._statement(child, stdin)
            elif child.is_named or child.type not in ("(", ")"):
                words_nodes.append(child)
            else:
                self.doubt(_NOT_UNDERSTOOD)
        found = [*expansion.words(words_nodes), *expansion.words(more)]
        if assignments and found:
            outer = dict(self.state.variables)
            for each in assignments:
                assign(self, each, exported=True)
            lent = {name for name, given in self.state.variables.items() if outer.get(name) is not given}
            output = starts.invoke(self, found, stdin)
            for name in lent:
                self.state.variables.pop(name, None)
                if name in outer:
                    self.state.variables[name] = outer[name]
        else:
            for each in assignments:
                assign(self, each, exported=False)
            output = starts.invoke(self, found, stdin) if found else ""
        for each in output_to:
            self._redirect(each, output)
        return output

    def _redirected(self, node: Node, stdin: str | None) -> str | None:
        body = node.child_by_field_name("body")
        redirects = [child for child in node.children if child.type in _REDIRECTS]
        for each in redirects:
            if each.type != "file_redirect" or self._operator(each) in ("<", "<&", "<>"):
                stdin = self._redirect(each, None)
        # The grammar takes words after a redirection for further targets.
        more = [extra for each in redirects for extra in self._targets(each)[1]]
        if body is not None and body.type == "command":
            output = self._command(body, stdin, more)
        else:
            output = stdin if body is None else self._statement(body, stdin)
            if more:
                self.doubt(_NOT_UNDERSTOOD)
        for each in redirects:
            if each.type == "file_redirect" and self._operator(each) not in ("<", "<&", "<>"):
                output = self._redirect(each, output)
        for child in node.children:
            if child.type == "ERROR":
                self.doubt(_NOT_UNDERSTOOD)
        for each in redirects:
            if each.type == "heredoc_redirect":
                output = self._followers(each, output)
        return output

    def _followers(self, node: Node, output: str | None) -> str | None:
        """Read the rest of the line after `<<END`: further commands and redirections; return its output."""
        for child in node.children:
            if child.type == "file_redirect":
                output = self._redirect(child, output)
            elif child.type == "pipeline":
                output = self._statement(child, output)
            elif child.is_named and child.type not in (
                "heredoc_start",
                "heredoc_body",
                "heredoc_end",
                "comment",
            ):
                if child.type == "file_descriptor":
                    continue
                with self.state.perhaps():
                    if child.type in ("word", "string", "raw_string", "concatenation"):
                        self.expansion().words([child])
                        self.doubt(_NOT_UNDERSTOOD)
                    else:
                        self._statement(child, None)
        return output

    def _targets(self, node: Node) -> tuple[list[Node], list[Node]]:
        """Return the nodes of a redirection's file name, and those of words after it."""
        found = node.children_by_field_name("destination") or [
            child for child in node.children if child.is_named and child.type != "file_descriptor"
        ]
        end = next(
            (at for at in range(1, len(found)) if found[at].start_byte != found[at - 1].end_byte), len(found)
        )
        return (found[:end], found[end:]) if node.type == "file_redirect" else (found, [])

    def _operator(self, node: Node) -> str:
        return next((child.type for child in node.children if not child.is_named), "")

    def _redirect(self, node: Node, output: str | None) -> str | None:
        """Record the file that a redirection opens; return the remaining input or output, None if unknown."""
        if node.type == "heredoc_redirect":
            return self._document(node)
        operator = self._operator(node)
        targets = self._targets(node)[0]
        if node.type == "herestring_redirect":
            return self.expansion().text(targets) + "\n"
        paths = self.expansion().words(targets)
        if operator in ("<", "<&", "<>"):
            for path in paths:
                self.reads[Touched(path, self.state.cwds)] = None
            if operator != "<>":
                return self.state.files.get(paths[0].removeprefix("./")) if len(paths) == 1 else None
        if operator in (">&", "<&") and all(path.isdigit() or path == "-" for path in paths):
            return output
        for path in paths:
            self.writes[Touched(path, self.state.cwds)] = None
            known = operator in (">", ">|", "&>") and output is not None
            if known and output is not None:
                self.state.files[path.removeprefix("./")] = output
            else:
                self.state.files.pop(path.removeprefix("./"), None)
        return ""

    def _document(self, node: Node) -> str | None:
        start = next((child for child in node.children if child.type == "heredoc_start"), None)
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        if body is None or start is None:
            return ""
        if self.text(start)[:1] in ("'", '"', "\\"):
            return unmarked(self.text(body))
        return self.expansion().quoted(body)

    # Helpers

    def _substitution(self, node: Node) -> str | None:
        """Read the script of `$(…)`, backquotes or `<(…)` as a subshell; return its output if known."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise TooMuchError
        outer, self.state = self.state, self.state.copy()
        try:
            return self._block(node.children, None)
        finally:
            self._depth -= 1
            self.state = outer

    def expansion(self) -> Expansion:
        """Return an object that expands words in the current state."""
        assert self._source is not None
        return Expansion(self._source, self.state, self._substitution, self.doubt)

    def text(self, node: Node) -> str:
        """Return the source text of a node."""
        assert self._source is not None
        return self._source.text(node)


@lru_cache(maxsize=64)
def read(text: str, cwd: str, home: str) -> Reading:
    """Return the programs and files of a shell text that starts in `cwd`. Never raises; its work is limited.

    Does not read the disk, so the result stays valid. `cwd` and `home` are absolute.
    """
    text = tree.unmarked(text[:LONGEST])
    script = ScriptReader(home, cwd)
    try:
        script.run(text)
    except (TooMuchError, RecursionError):
        script.doubt("it is too long or too involved to be read")
        _add_ruled(script, text, cwd, home)
        return script.reading(complete=False)
    except Exception as error:
        # A bug in Hermes must not let a command count as understood.
        script.doubt(f"it could not be read ({type(error).__name__})")
        return script.reading(complete=False)
    return script.reading(complete=True)


_IN_FRONT = frozenset({"sudo", "env", "nohup", "time", "command", "exec"})


def _add_ruled(script: ScriptReader, text: str, cwd: str, home: str) -> None:
    """Add commands that the hardline may forbid, from a text that is not read to its end."""
    for words, writes in rough_commands(text):
        at = 0
        while at < len(words) and words[at] in _IN_FRONT:
            at += 1
        if at < len(words) and is_ruled(name := words[at].rpartition("/")[2], ()):
            spelled = [f"{home}{word[1:]}" if word[:1] == "~" else word for word in words[at:]]
            script.commands[Command(name, tuple(spelled[1:]), spelled[0], (cwd,))] = None
        for path in writes:
            script.writes[Touched(path, (cwd,))] = None
