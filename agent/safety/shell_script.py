"""Following a shell script without running it: which commands would run, with which arguments.

The tree is walked in the order of execution. Variables, folders, functions and
constant output are tracked as far as they can be known (`shell_state`), inner
shells and wrappers are followed (`shell_commands`), and every command line and
every file that is written to is shown to a `Judge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Protocol

from agent.safety import marks
from agent.safety.backquotes import rewritten
from agent.safety.bombs import is_bomb
from agent.safety.marks import UNKNOWN
from agent.safety.shell_commands import Commands
from agent.safety.shell_output import Output, content, either, remember
from agent.safety.shell_redirects import Redirection, redirection
from agent.safety.shell_state import State, TangledError
from agent.safety.shell_tree import REDIRECTS, Source, parse, rough_commands
from agent.safety.shell_values import Value
from agent.safety.shell_words import expand, expand_quoted, expand_text
from agent.safety.wrappers import ASSIGNMENT

if TYPE_CHECKING:
    from tree_sitter import Node

DEEPEST = 60
"""Structures inside each other that are followed."""
DEEPEST_SCRIPT = 16
"""Scripts inside each other (`bash -c`, `$(…)`, `eval`) that are followed."""
DEEPEST_RECURSION = 2
"""Calls of a function by itself that are followed."""

_EXPRESSIONS = frozenset(
    {
        "test_command",
        "binary_expression",
        "unary_expression",
        "postfix_expression",
        "parenthesized_expression",
        "ternary_expression",
    }
)


class Judge(Protocol):
    """Looks at what would happen. A method raises to stop the walk."""

    def command(self, name: str, arguments: Sequence[str], cwds: Sequence[str]) -> None:
        """A program would be started; all texts are marked."""

    def written(self, path: str, cwds: Sequence[str]) -> None:
        """A file would be opened for writing."""

    def bomb(self, name: str) -> None:
        """A function would start itself without end."""

    def doubt(self, sentence: str) -> None:
        """Something cannot be known."""


class Interpreter:
    """Follows one script; `Commands` looks into single command lines."""

    def __init__(self, judge: Judge, home: str, cwd: str, length: int) -> None:
        self.judge = judge
        self.state = State(home, cwd, budget=60_000 + 6 * length)
        self.commands = Commands(self)
        self._source = Source(b"", None)  # type: ignore[arg-type]
        self._depth = self._scripts = 0
        self._loops = 0
        self._calls: Counter[int] = Counter()

    def run(self, text: str, stdin: Output = None) -> Output:
        """Follow a script; returns what it may print. Raises `TangledError` when it is too involved."""
        self.state.spend(1 + len(text) // 64)
        if self._scripts >= DEEPEST_SCRIPT:
            raise TangledError
        text = rewritten(text)
        outer = self._source
        self._source = parse(text)
        self._scripts += 1
        try:
            output = self._block(self._source.root.children, stdin)
            if not self._source.complete:
                self.judge.doubt("part of the command is not understood")
                self._run_roughly(text)
                output = None
        finally:
            self._source = outer
            self._scripts -= 1
        return output

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            self._depth -= 1
            raise TangledError

    def _run_roughly(self, text: str) -> None:
        """The second reading of text that is no proper shell."""
        for rough in rough_commands(text):
            for operator, target in rough.targets:
                self._write_to(operator, target)
            self._run_words(rough.words, None)

    # Structure

    def _block(self, nodes: Iterable[Node], stdin: Output = None) -> Output:
        """One statement after the other."""
        output: Output = [""]
        for node in nodes:
            if node.is_named:
                output = _joined(output, self._statement(node, stdin))
        return output

    def _statement(self, node: Node, stdin: Output = None) -> Output:
        self.state.spend()
        kind = node.type
        handler = _HANDLERS.get(kind)
        self._deeper()
        try:
            if handler is not None:
                return handler(self, node, stdin)
            if kind in _EXPRESSIONS:
                expand_quoted(self._source.text(node), self)
                return [""]
            if kind in ("comment", "word", "heredoc_body", "heredoc_start", "heredoc_end"):
                return [""]
            return self._block(node.children, stdin)
        finally:
            self._depth -= 1

    def _list(self, node: Node, stdin: Output) -> Output:
        """`a && b || c`: what follows `&&` sees what went before, what follows `||` may not run."""
        spine: list[Node] = []
        left: Node | None = node
        while left is not None and left.type == "list":
            spine.extend(reversed(left.children[1:]))
            left = left.children[0]
        output = self._statement(left, stdin) if left is not None else [""]
        operator = ""
        with self.state.scope(merge=True):
            for part in reversed(spine):
                if not part.is_named:
                    operator = part.type
                elif operator == "||":
                    with self.state.scope(merge=True):
                        self._statement(part, stdin)
                    output = None
                else:
                    output = _joined(output, self._statement(part, stdin))
        return output

    def _pipeline(self, node: Node, stdin: Output) -> Output:
        output = stdin
        for stage in node.children:
            if stage.is_named:
                with self.state.scope(merge=False):
                    output = self._statement(stage, output)
        return output

    def _subshell(self, node: Node, stdin: Output) -> Output:
        with self.state.scope(merge=False):
            return self._block(node.children, stdin)

    def _branches(self, node: Node, stdin: Output) -> Output:
        """`if`, `case` and their parts: the condition runs, the rest may run."""
        straight = True
        for child in node.children:
            if child.type in ("then", "in", ")"):
                straight = False
            elif not child.is_named:
                continue
            elif straight:
                self._statement(child, stdin)
            else:
                with self.state.scope(merge=True):
                    self._statement(child, stdin)
        return None

    def _case_item(self, node: Node, stdin: Output) -> Output:
        patterns = node.children_by_field_name("value")
        with self.state.scope(merge=True):
            self._block([child for child in node.children if child not in patterns], stdin)
        return None

    def _for(self, node: Node, stdin: Output) -> Output:
        values: list[Value] = []
        for word in self._source.words(node.children_by_field_name("value")):
            for reading in expand(word, self):
                values += [marks.value(field) if UNKNOWN in field else field for field in reading]
        name = node.child_by_field_name("variable")
        if name is not None:
            self.state.assign(self._source.text(name), values or [UNKNOWN])
        return self._loop(node.child_by_field_name("body"), stdin)

    def _while(self, node: Node, stdin: Output) -> Output:
        for condition in node.children_by_field_name("condition"):
            if condition.is_named:
                self._statement(condition, stdin)
        return self._loop(node.child_by_field_name("body"), stdin)

    def _loop(self, body: Node | None, stdin: Output) -> Output:
        """A body that may run many times: the second pass sees what the first one set."""
        if body is None:
            return None
        self._loops += 1
        try:
            with self.state.scope(merge=True):
                for _ in range(2 if self._loops == 1 else 1):
                    self._statement(body, stdin)
        finally:
            self._loops -= 1
        return None

    def _function(self, node: Node, stdin: Output) -> Output:
        name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name_node is None or body is None:
            return [""]
        name = self._source.text(name_node)
        if is_bomb(self._source, name, body):
            self.judge.bomb(name)
        self.state.put("function", name, (self._source, body))
        with self.state.scope(merge=False):
            self.state.positional = None
            self._call_body(self._source, body, None)
        return [""]

    def call_function(self, name: str, arguments: Sequence[str], stdin: Output) -> Output:
        """Follow a function that was defined before, with these arguments."""
        source, body = self.state.get("function", name)
        positional = self.state.positional
        self.state.positional = tuple(marks.value(argument) for argument in arguments)
        try:
            return self._call_body(source, body, stdin)
        finally:
            self.state.positional = positional

    def _call_body(self, source: Source, body: Node, stdin: Output) -> Output:
        if self._calls[body.id] > DEEPEST_RECURSION:
            return None
        outer = self._source
        self._source = source
        self._calls[body.id] += 1
        try:
            return self._statement(body, stdin)
        finally:
            self._calls[body.id] -= 1
            self._source = outer

    # Commands and their surroundings

    def _redirected(self, node: Node, stdin: Output) -> Output:
        body = node.child_by_field_name("body")
        around = redirection(self._source, [child for child in node.children if child.type in REDIRECTS])
        stdin = self._input(around, stdin)
        if body is not None and body.type == "command":
            output = self._command(body, stdin, around.words)
        elif body is not None:
            output = self._statement(body, stdin)
        else:
            output = [""]
        return self._finish(around, output)

    def _input(self, around: Redirection, stdin: Output) -> Output:
        """What a command reads."""
        if around.document is not None:
            text, literal = around.document
            return [text] if literal else expand_quoted(text, self)
        if around.here_string is not None:
            return [f"{text}\n" for text in expand_text(around.here_string, self)]
        for operator, target in around.targets:
            if operator == "<":
                return content(self.state, expand_text(target, self, globs=True))
        return stdin

    def _finish(self, around: Redirection, output: Output) -> Output:
        """Where the output of a command goes."""
        for operator, target in around.targets:
            paths = self._write_to(operator, target)
            if paths and around.takes_output:
                remember(self.state, paths, output, appends=">>" in operator)
                output = [""]
        for stage in around.pipeline:
            output = self._statement(stage, output)
        for follower in around.followers:
            with self.state.scope(merge=True):
                self._statement(follower)
        return output

    def _write_to(self, operator: str, target: str) -> list[str]:
        """Show the judge a redirection; the paths it writes to."""
        if operator in ("<", "<&", "<<<") or (operator == ">&" and (target.isdigit() or target == "-")):
            expand_text(target, self)
            return []
        paths = expand_text(target, self, globs=True)
        for path in paths:
            self.judge.written(path, self.state.cwds)
        return paths

    def _command(self, node: Node, stdin: Output, more: Sequence[str] = ()) -> Output:
        inner = [child for child in node.children if child.type in REDIRECTS]
        around = redirection(self._source, inner)
        words = [
            child
            for child in node.children
            if child.type not in REDIRECTS and child.type != "variable_assignment"
        ]
        assignments = [child for child in node.children if child.type == "variable_assignment"]
        stdin = self._input(around, stdin)
        raw = [*self._source.words(words), *around.words, *more]
        output = self._run_words(raw, stdin, assignments)
        return self._finish(around, output)

    def _run_words(self, raw: Sequence[str], stdin: Output, assignments: Sequence[Node] = ()) -> Output:
        """Expand raw words and follow every command line they may form."""
        lines = self._lines(raw)
        if not any(lines):
            for node in assignments:
                self._assignment(node, None)
            return [""]
        with self.state.scope(merge=False) if assignments else _Nothing():
            for node in assignments:
                self._assignment(node, None)
            output: Output = []
            for line in lines:
                output = either(output, self.commands.invoke(line, stdin))
        return output

    def _lines(self, raw: Sequence[str]) -> list[tuple[str, ...]]:
        """All command lines that raw words may stand for."""
        readings = [expand(word, self) for word in raw]
        self.state.spend(sum(len(reading) for options in readings for reading in options))
        open_places = [place for place, options in enumerate(readings) if len(options) > 1]
        if not open_places:
            return [tuple(field for options in readings for field in options[0])]
        if prod(len(readings[place]) for place in open_places) * len(raw) <= 4_096:
            choices = product(*readings)
        else:
            choices = (
                [option if at == place else options[0] for at, options in enumerate(readings)]
                for place in open_places
                for option in readings[place]
            )
        lines: dict[tuple[str, ...], None] = {}
        for choice in choices:
            line = tuple(field for reading in choice for field in reading)
            self.state.spend(len(line))
            lines[line] = None
        return list(lines)

    def _assignment(self, node: Node, stdin: Output) -> Output:
        name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name_node is None:
            return [""]
        name = self._source.text(name_node).partition("[")[0]
        if value_node is None:
            values: list[Value] = [""]
        elif value_node.type == "array":
            elements: list[str] = []
            for word in self._source.words([child for child in value_node.children if child.is_named]):
                for reading in expand(word, self):
                    elements += [marks.value(field) for field in reading]
            values = [tuple(elements)]
        else:
            # What stands right behind the value without a gap belongs to it (`$"…"`).
            values = list(expand_text(self._source.slice(value_node.start_byte, node.end_byte), self))
        if name_node.type == "subscript":
            values = [UNKNOWN, *values]
        elif node.children[1].type == "+=":
            values = self._appended(name, values)
        self.state.assign(name, values)
        return [""]

    def _appended(self, name: str, values: list[Value]) -> list[Value]:
        before = self.state.values(name) or [""]
        found: list[Value] = []
        for old in before[:64]:
            for new in values[:64]:
                if isinstance(old, str) and isinstance(new, str):
                    found.append(old + new)
                else:
                    found.append(
                        (
                            *((old,) if isinstance(old, str) else old),
                            *((new,) if isinstance(new, str) else new),
                        )
                    )
        self.state.spend(sum(len(each) for each in found) // 16)
        return found

    def _declaration(self, node: Node, stdin: Output) -> Output:
        for child in node.children:
            if child.type == "variable_assignment":
                self._assignment(child, None)
            elif child.type not in ("variable_name", "word") and child.is_named:
                for text in expand_text(self._source.text(child), self):
                    if match := ASSIGNMENT.fullmatch(text):
                        self.state.assign(match[1], [match[3]])
        return [""]

    def _unset(self, node: Node, stdin: Output) -> Output:
        for child in node.children:
            if child.type == "variable_name":
                self.state.assign(self._source.text(child), [""])
        return [""]

    # What words refer to (the `Scope` of shell_words)

    def values(self, name: str) -> list[Value] | None:
        return self.state.values(name)

    def set_default(self, name: str, values: list[Value]) -> None:
        self.state.assign(name, values)

    def output(self, script: str) -> list[str]:
        """What `$(script)` may print, without the closing line feeds."""
        with self.state.scope(merge=False):
            found = self.run(script)
        return [UNKNOWN] if found is None else [text.rstrip("\n") for text in found]

    def file_of(self, script: str, writes: bool) -> str:
        """A path that stands for `<(script)` or `>(script)`."""
        with self.state.scope(merge=False):
            found = self.run(script)
        path = f"/dev/fd/{self.state.budget}"
        if not writes and found is not None:
            self.state.put("file", path, found)
        return path

    def home(self, user: str) -> str:
        match user:
            case "":
                known = self.state.values("HOME")
                return known[0] if known and isinstance(known[0], str) else UNKNOWN
            case "+":
                return self.state.cwds[0]
            case "-":
                return UNKNOWN
            case "root":
                return "/root"
            case _:
                return f"/home/{user}"


class _Nothing:
    """A scope that changes nothing."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def _joined(first: Output, second: Output) -> Output:
    """The output of two commands one after the other."""
    if first is None or second is None or len(first) * len(second) > 64:
        return None
    return [one + other for one in first for other in second]


_HANDLERS: dict[str, Callable[[Interpreter, Node, Output], Output]] = {
    "list": Interpreter._list,
    "pipeline": Interpreter._pipeline,
    "subshell": Interpreter._subshell,
    "if_statement": Interpreter._branches,
    "elif_clause": Interpreter._branches,
    "case_statement": Interpreter._branches,
    "case_item": Interpreter._case_item,
    "for_statement": Interpreter._for,
    "while_statement": Interpreter._while,
    "function_definition": Interpreter._function,
    "redirected_statement": Interpreter._redirected,
    "command": Interpreter._command,
    "variable_assignment": Interpreter._assignment,
    "declaration_command": Interpreter._declaration,
    "unset_command": Interpreter._unset,
}
