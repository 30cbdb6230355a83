"""Following a shell script without running it: which commands would run, with which arguments.

The tree is walked in the order of execution. Variables, folders, functions and
constant output are tracked as far as they can be known (`state`), inner
shells and wrappers are followed (`commands`), and every command line and
every file that is written to is shown to a `Judge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from agent.safety.shell import marks
from agent.safety.shell.assignments import assigned_names, assignment, declaration, unset
from agent.safety.shell.backquotes import rewritten
from agent.safety.shell.bombs import is_bomb, is_endless
from agent.safety.shell.choices import command_lines
from agent.safety.shell.commands import Commands
from agent.safety.shell.judge import Judge
from agent.safety.shell.lines import command_line, redirections
from agent.safety.shell.marks import UNKNOWN
from agent.safety.shell.memory import Memory
from agent.safety.shell.output import after, content, either, remember
from agent.safety.shell.parts import NO_REDIRECTION, Redirection
from agent.safety.shell.reading import each_line
from agent.safety.shell.references import References
from agent.safety.shell.state import State, TangledError
from agent.safety.shell.tree import Source, is_several, parse, plain_words, rough_commands
from agent.safety.shell.values import Output, Value
from agent.safety.shell.words import expand, expand_quoted, expand_text

if TYPE_CHECKING:
    from tree_sitter import Node

STEPS = 150_000
"""Steps that any text may cost; longer ones may cost more."""
MORE_STEPS = 300_000
"""Steps more that the longest texts may cost: a few seconds, not minutes."""
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


_NOTHING = [""]
"""What is printed by what prints nothing."""


class Interpreter(References):
    """Follows one script; `Commands` looks into single command lines."""

    def __init__(self, judge: Judge, home: str, cwd: str, length: int) -> None:
        budget = STEPS + min(6 * length, MORE_STEPS)
        super().__init__(judge, State(home, cwd, budget, observe=judge.assigned))
        self.commands = Commands(self)
        self.source = Source(b"", None)  # type: ignore[arg-type]
        self._depth = self._scripts = 0
        self._loops = 0
        self._written: list[tuple[str, tuple[str, ...]]] = []
        """Files that were opened for writing, with the folders they were seen from."""
        self._calls: Counter[int] = Counter()
        self._memory = Memory(self.state, self._calls)

    def close(self) -> None:
        """Let go of what holds this in turn, so that nothing of it waits for a collection of garbage."""
        del self.commands

    def run(self, text: str, stdin: Output = None) -> Output:
        """Follow a script; returns what it may print. Raises `TangledError` when it is too involved."""
        self.state.spend(1 + len(text) // 64)
        if self._scripts >= DEEPEST_SCRIPT:
            raise TangledError
        text = text.replace("\0", "")
        if (words := plain_words(text)) is not None:
            return self._plainly(words, stdin)
        if self._memory.is_new(text):
            return self._parsed(text, stdin)
        return self._again(text, stdin, lambda: self._parsed(text, stdin))

    def _again(self, what: Hashable, stdin: Output, work: Callable[[], Output]) -> Output:
        """Follow something that has come before; see `Memory`."""
        given = None if stdin is None else tuple(stdin)
        depths = (self._depth, self._scripts, self.commands.depth)
        return self._memory.follow((what, given, self.judge, self._loops > 0), depths, work)

    def _parsed(self, text: str, stdin: Output) -> Output:
        """Follow a script by its tree."""
        text = rewritten(text)
        outer = self.source
        self.source = parse(text)
        self._scripts += 1
        try:
            output = self._block(self.source.root.children, stdin)
            if not self.source.complete:
                self.judge.doubt("part of the command is not understood")
                self._run_roughly(text)
                output = None
        finally:
            self.source = outer
            self._scripts -= 1
        return output

    def _plainly(self, words: Sequence[str], stdin: Output) -> Output:
        """Follow a script that is a single command; what `_statement` would do without a tree."""
        self.state.spend()
        self._depth += 1
        self._scripts += 1
        try:
            if self._depth > DEEPEST:
                raise TangledError
            return after([""], self._run_words(words, stdin))
        finally:
            self._depth -= 1
            self._scripts -= 1

    def _run_roughly(self, text: str) -> None:
        """The second reading of text that is no proper shell."""
        for rough in rough_commands(text):
            for operator, target in rough.targets:
                self._write_to(operator, target)
            self._run_words(rough.words, None)

    # Structure

    @contextmanager
    def _perhaps(self) -> Iterator[None]:
        """What may run or not: what it changes is one possibility, what was before is another."""
        mark = len(self._written)
        with self.state.scope(merge=True):
            yield
        self._unsettle(mark)

    def _unsettle(self, mark: int) -> None:
        for path, cwds in dict.fromkeys(self._written[mark:]):
            self.judge.unsettled(path, cwds)

    def _block(self, nodes: Iterable[Node], stdin: Output = None) -> Output:
        """One statement after the other."""
        output: Output = [""]
        for node in nodes:
            if node.is_named:
                made = self._statement(node, stdin)
                output = (
                    made if output == _NOTHING and (made is None or len(made) == 1) else after(output, made)
                )
        return output

    def _statement(self, node: Node, stdin: Output = None) -> Output:
        self.state.spend()
        kind = node.type
        handler = _HANDLERS.get(kind)
        self._depth += 1
        try:
            if self._depth > DEEPEST:
                raise TangledError
            if handler is not None:
                return handler(self, node, stdin)
            if kind in _EXPRESSIONS:
                expand_quoted(self.source.text(node), self)
                return [""]
            if kind in ("comment", "word", "heredoc_body", "heredoc_start", "heredoc_end"):
                return [""]
            return self._block(node.children, stdin)
        finally:
            self._depth -= 1

    def _list(self, node: Node, stdin: Output, around: Redirection | None = None) -> Output:
        """`a && b || c`: what follows `&&` sees what went before, what follows `||` may not run.

        `around` belongs to the last command: the grammar puts it around all of them.
        """
        spine: list[Node] = []
        left: Node | None = node
        while left is not None and left.type == "list":
            spine.extend(reversed(left.children[1:]))
            left = left.children[0]
        output = self._statement(left, stdin) if left is not None else [""]
        operator = ""
        with self._perhaps():
            for part in reversed(spine):
                if not part.is_named:
                    operator = part.type
                    continue
                with self._perhaps() if operator == "||" else nullcontext():
                    last = around if part is spine[0] else None
                    made = self._surrounded(part, last, stdin) if last else self._statement(part, stdin)
                output = None if operator == "||" else after(output, made)
        return output

    def _pipeline(self, node: Node, stdin: Output) -> Output:
        output = stdin
        stages = self.state.scope(merge=False)  # each of them is a shell of its own
        for stage in node.children:
            if stage.is_named:
                with stages:
                    output = self._statement(stage, output)
        return output

    def _subshell(self, node: Node, stdin: Output) -> Output:
        with self.state.scope(merge=False):
            return self._block(node.children, stdin)

    def _branches(self, node: Node, stdin: Output) -> Output:
        """`if`, `case` and their parts: the condition runs, the rest may run."""
        straight = True
        mark = len(self._written)
        for child in node.children:
            if child.type in ("then", "in", ")"):
                straight, mark = False, len(self._written)
            elif not child.is_named:
                continue
            elif straight:
                self._statement(child, stdin)
            else:
                with self.state.scope(merge=True):
                    self._statement(child, stdin)
        self._unsettle(mark)
        return None

    def _case_item(self, node: Node, stdin: Output) -> Output:
        patterns = node.children_by_field_name("value")
        with self._perhaps():
            self._block([child for child in node.children if child not in patterns], stdin)
        return None

    def _for(self, node: Node, stdin: Output) -> Output:
        values: list[Value] = []
        for word in self.source.words(node.children_by_field_name("value")):
            for reading in expand(word, self):
                values += [marks.value(field) if UNKNOWN in field else field for field in reading]
        name = node.child_by_field_name("variable")
        if name is not None:
            self.state.assign(self.source.text(name), values or [UNKNOWN])
        return self._loop(self.source.body(node), stdin)

    def _while(self, node: Node, stdin: Output) -> Output:
        if is_endless(self.source, node):
            self.judge.doubt("starts programs without end")
        conditions = [part for part in node.children_by_field_name("condition") if part.is_named]
        body = self.source.body(node)
        each_line(
            self.state,
            lambda: self._block(conditions, stdin),
            lambda: self._loop(body, stdin),
        )
        return None

    def _loop(self, body: Node | None, stdin: Output) -> Output:
        """A body that may run many times: the second pass sees what the first one set."""
        if body is None:
            return None
        self._loops += 1
        try:
            with self._perhaps():
                if self._loops == 1:
                    self.state.repeat(lambda: self._statement(body, stdin))
                else:
                    self._statement(body, stdin)
        finally:
            self._loops -= 1
        return None

    def _function(self, node: Node, stdin: Output) -> Output:
        name_node, body = node.child_by_field_name("name"), self.source.body(node)
        if name_node is None or body is None:
            return [""]
        name = self.source.text(name_node)
        if is_bomb(self.source, name, body):
            self.judge.bomb(name)
        self.state.put("function", name, (self.source, body))
        mark = len(self._written)
        with self.state.scope(merge=False):
            self.state.positional = None
            self._call_body(self.source, body, None)
            # Redirections of a definition count each time the function runs.
            self._finish(redirections(self.source, node), None)
        self._unsettle(mark)
        return [""]

    def call_function(self, name: str, arguments: Sequence[str], stdin: Output) -> Output:
        """Follow a function that was defined before, with these arguments."""
        source, body = self.state.get("function", name)
        positional = self.state.positional
        self.state.positional = tuple([marks.value(argument) for argument in arguments])
        try:
            if self._memory.is_new((body.id, self.state.positional)):
                return self._call_body(source, body, stdin)
            return self._again((source, body.id), stdin, lambda: self._call_body(source, body, stdin))
        finally:
            self.state.positional = positional

    def _call_body(self, source: Source, body: Node, stdin: Output) -> Output:
        self._memory.asks(body.id)
        if self._calls[body.id] > DEEPEST_RECURSION:
            return None
        outer = self.source
        self.source = source
        self._calls[body.id] += 1
        try:
            return self._statement(body, stdin)
        finally:
            self._calls[body.id] -= 1
            self.source = outer

    # Commands and their surroundings

    def _redirected(self, node: Node, stdin: Output) -> Output:
        body = self.source.body(node)
        around = redirections(self.source, node)
        if body is not None and body.type == "list":
            return self._list(body, stdin, around)
        return self._surrounded(body, around, stdin)

    def _surrounded(self, body: Node | None, around: Redirection, stdin: Output) -> Output:
        stdin = self._input(around, stdin)
        if body is not None and body.type == "command":
            output = self._command(body, stdin, around.words)
        elif body is not None:
            output = self._statement(body, stdin)
        else:
            # A substitution of nothing but `< file` prints the file.
            reads = any(operator == "<" for operator, _ in around.targets) and not around.takes_output
            output = stdin if reads else [""]
        if around.empties_input and output != [""]:
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
                paths = expand_text(target, self, globs=True)
                for path in paths:
                    self.judge.read(path, self.state.cwds)
                return content(self.state, paths)
        return stdin

    def _finish(self, around: Redirection, output: Output) -> Output:
        """Where the output of a command goes."""
        for operator, target in around.targets:
            held = output if operator in (">", ">|") and around.takes_output else None
            paths = self._write_to(operator, target, held)
            if output == [""] and operator in (">", ">|") and around.takes_output:
                for path in paths:
                    self.judge.command("truncate", ("-s0", path), self.state.cwds)
            if paths and around.takes_output:
                remember(self.state, paths, output, appends=">>" in operator)
                output = [""]
        for stage in around.pipeline:
            output = self._statement(stage, output)
        for follower in around.followers:
            with self._perhaps():
                self._statement(follower)
        return output

    def _write_to(self, operator: str, target: str, texts: Output = None) -> list[str]:
        """Show the judge a redirection, and what the file may hold then; the paths it writes to."""
        if operator in ("<", "<&", "<<<") or (operator == ">&" and (target.isdigit() or target == "-")):
            expand_text(target, self)
            return []
        paths = expand_text(target, self, globs=True)
        for path in paths:
            self.judge.written(path, self.state.cwds, texts)
            self._written.append((path, self.state.cwds))
        return paths

    def _command(self, node: Node, stdin: Output, more: Sequence[str] = ()) -> Output:
        line = command_line(self.source, node)
        if line.script:
            self.run(line.script, stdin)
            return None
        if line.plain and not more:
            self.state.spend(len(line.words))
            return self.commands.invoke(line.words, stdin)
        around = line.around
        alone = around is NO_REDIRECTION
        if not alone:
            stdin = self._input(around, stdin)
        raw = (*line.words, *more) if more else line.words
        output = self._run_words(raw, stdin, line.assignments)
        if line.several or any(map(is_several, more)):
            self.judge.doubt("part of the command is not understood")
            self._run_roughly(" ".join(raw))
            output = None
        for child in line.inside:
            output = self._statement(child, stdin)
        return output if alone else self._finish(around, output)

    def _run_words(self, raw: Sequence[str], stdin: Output, assignments: Sequence[Node] = ()) -> Output:
        """Expand raw words and follow every command line they may form."""
        lines = command_lines(raw, self)
        if not assignments and len(lines) == 1:
            return self.commands.invoke(lines[0], stdin) if lines[0] else [""]
        if not any(lines):
            for node in assignments:
                assignment(self, node, None)
            return [""]
        # What a builtin of the shell changes stays; only the assignments before it do not.
        with self.state.lent(assigned_names(self.source, assignments)) if assignments else nullcontext():
            for node in assignments:
                assignment(self, node, None)
            output: Output = []
            for line in lines:
                output = either(output, self.commands.invoke(line, stdin))
        return output


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
    "variable_assignment": assignment,
    "declaration_command": declaration,
    "unset_command": unset,
}
