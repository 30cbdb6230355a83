"""What the expressions of a short Python program may stand for, where that is plain to see.

A path is followed from where it is written out to where it is used: through names, loops, `Path`,
`os.path.join` and what searches of folders find. Read as a syntax tree, never run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from agent.safety.shell.marks import ANY, globbing

MOST = 64
"""Values of one expression that are told apart."""
DEEPEST = 12
"""Expressions inside each other that are followed."""

Texts = tuple[str, ...] | None
"""Texts an expression may stand for, marked where a search finds names; None when they are not known."""


class _Each(NamedTuple):
    """What a loop takes one by one; `place` is the one of several names it is given to."""

    items: ast.expr
    place: int | None


_Source = ast.expr | _Each | None


class Values:
    """The values of names and expressions in one program."""

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        self._bound: dict[str, list[_Source]] = {}
        self._parameters: dict[str, list[str]] = {}
        for node in nodes:
            self._note(node)
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                self._give(node, self._parameters.get(node.func.id, []))

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, value)
            case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                self._bind(target, value)
            case ast.For(target=target, iter=items) | ast.comprehension(target=target, iter=items):
                self._bind_each(target, items)
            case ast.AugAssign(target=target) | ast.withitem(optional_vars=ast.Name() as target):
                self._bind(target, None)
            case ast.FunctionDef(name=name, args=arguments):
                self._parameters[name] = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
                for given in (*arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
                    if given is not None:
                        self._bound.setdefault(given.arg, []).append(None)
                for argument, default in zip(
                    reversed(arguments.args), reversed(arguments.defaults), strict=False
                ):
                    self._bound.setdefault(argument.arg, []).append(default)

    def _bind(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self._bound.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple | ast.List):
            fits = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            values = value.elts if fits and isinstance(value, ast.Tuple | ast.List) else None
            for place, part in enumerate(target.elts):
                self._bind(part, values[place] if values else None)

    def _bind_each(self, target: ast.expr, items: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._bound.setdefault(target.id, []).append(_Each(items, None))
        elif isinstance(target, ast.Tuple | ast.List):
            for place, part in enumerate(target.elts):
                if isinstance(part, ast.Name):
                    self._bound.setdefault(part.id, []).append(_Each(items, place))
                else:
                    self._bind(part, None)

    def _give(self, call: ast.Call, names: Sequence[str]) -> None:
        """Arguments of a call of the program's own function are values of its parameters."""
        starred = any(isinstance(argument, ast.Starred) for argument in call.args)
        for place, name in enumerate(names):
            given: list[_Source] = [keyword.value for keyword in call.keywords if keyword.arg == name]
            if place < len(call.args):
                given.append(call.args[place])
            if starred or any(keyword.arg is None for keyword in call.keywords):
                given.append(None)
            self._bound.setdefault(name, []).extend(given)

    def of(self, expression: ast.expr | None, depth: int = 0) -> Texts:
        """The texts an expression may stand for."""
        if expression is None or depth > DEEPEST:
            return None
        match expression:
            case ast.Constant(value=str(text)):
                return (text,)
            case ast.Name(id=name):
                return _union(self._source(source, depth + 1) for source in self._bound.get(name, [None]))
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self._joined([left, right], "/", depth)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._joined([left, right], "", depth)
            case ast.JoinedStr(values=parts):
                return self._joined(parts, "", depth)
            case ast.FormattedValue(value=value, format_spec=None):
                return self.of(value, depth + 1)
            case ast.IfExp(body=body, orelse=other):
                return _union(self.of(part, depth + 1) for part in (body, other))
            case ast.Call():
                return self._called(expression, depth + 1)
            case _:
                return None

    def _source(self, source: _Source, depth: int) -> Texts:
        if isinstance(source, _Each):
            return self._each(source.items, source.place, depth)
        return self.of(source, depth)

    def _joined(self, parts: Sequence[ast.expr], glue: str, depth: int) -> Texts:
        found = [self.of(part, depth + 1) for part in parts]
        known = [texts for texts in found if texts is not None]
        if len(known) != len(found):
            return None
        count = 1
        for texts in known:
            count *= len(texts)
        if count > MOST:
            return None
        return tuple(dict.fromkeys(_path(pieces) if glue else "".join(pieces) for pieces in product(*known)))

    def _called(self, call: ast.Call, depth: int) -> Texts:
        name, owner = called(call)
        if name in ("Path", "PurePath") or (name == "join" and _is_path_module(owner)):
            return self._joined(call.args, "/", depth) if call.args else (".",)
        if name == "str" and owner is None and len(call.args) == 1:
            return self.of(call.args[0], depth)
        if owner is None:
            return None
        if name == "joinpath":
            return self._joined([owner, *call.args], "/", depth)
        if name == "join" and len(call.args) == 1 and isinstance(call.args[0], ast.List | ast.Tuple):
            return self._glued(self.of(owner, depth), call.args[0].elts, depth)
        if name in ("resolve", "absolute", "strip") and not call.args:
            return self.of(owner, depth)
        if name in ("with_suffix", "with_name", "with_stem"):
            return _map(self.of(owner, depth), lambda path: _path((path.rpartition("/")[0] or ".", ANY)))
        if name == "replace" and len(call.args) == 2:
            return self._replaced(owner, call.args, depth)
        return None

    def _glued(self, glue: Texts, parts: Sequence[ast.expr], depth: int) -> Texts:
        texts = [self.of(part, depth) for part in parts]
        plain = [each[0] for each in texts if each is not None and len(each) == 1]
        return (glue[0].join(plain),) if glue and len(glue) == 1 and len(plain) == len(texts) else None

    def _replaced(self, owner: ast.expr, arguments: Sequence[ast.expr], depth: int) -> Texts:
        old, new = (self.of(argument, depth) for argument in arguments)
        if not (old and new and len(old) == len(new) == 1):
            return None
        return _map(self.of(owner, depth), lambda text: text.replace(old[0], new[0]))

    def _each(self, items: ast.expr | None, place: int | None, depth: int) -> Texts:
        """What a loop over an expression is given, one by one."""
        if depth > DEEPEST:
            return None
        match items:
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return _union(self._part(part, place, depth + 1) for part in parts) if parts else ()
            case ast.Dict(keys=keys):
                return _union(self.of(key, depth + 1) for key in keys) if place is None else None
            case ast.Name(id=name):
                sources = self._bound.get(name, [None])
                return _union(self._each_of(source, place, depth + 1) for source in sources)
            case ast.Call():
                return self._found(items, place, depth + 1)
            case _:
                return None

    def _each_of(self, source: _Source, place: int | None, depth: int) -> Texts:
        if not isinstance(source, _Each):
            return self._each(source, place, depth)
        # The files of `for folder, folders, files in os.walk(…)`.
        walks = isinstance(source.items, ast.Call) and called(source.items)[0] == "walk"
        return (ANY,) if walks and source.place in (1, 2) and place is None else None

    def _part(self, part: ast.expr, place: int | None, depth: int) -> Texts:
        if place is None:
            return self.of(part, depth)
        fits = isinstance(part, ast.Tuple | ast.List) and place < len(part.elts)
        return self.of(part.elts[place], depth) if fits and isinstance(part, ast.Tuple | ast.List) else None

    def _found(self, call: ast.Call, place: int | None, depth: int) -> Texts:
        """What a search finds."""
        name, owner = called(call)
        if name in ("sorted", "list", "tuple", "set", "reversed") and owner is None and call.args:
            return self._each(call.args[0], place, depth)
        if name == "enumerate" and call.args:
            return self._each(call.args[0], None, depth) if place == 1 else None
        if name == "items" and owner is not None and place is not None:
            return self._pairs(owner, place, depth)
        if name in ("glob", "iglob") and _is_module(owner, "glob"):
            return _map(self.of(call.args[0], depth), globbing) if call.args else None
        if name in ("glob", "rglob") and owner is not None and len(call.args) == 1:
            between = "" if name == "glob" else f"{ANY}/"
            folders, kinds = self.of(owner, depth), self.of(call.args[0], depth)
            if folders is None or kinds is None or len(folders) * len(kinds) > MOST:
                return None
            return tuple(f"{folder}/{between}{globbing(kind)}" for folder in folders for kind in kinds)
        if name == "iterdir" and owner is not None:
            return _map(self.of(owner, depth), lambda folder: f"{folder}/{ANY}")
        if name == "listdir":
            return (ANY,)
        if name == "walk" and call.args:
            folders = self.of(call.args[0], depth)
            return _map(folders, lambda folder: f"{folder}/{ANY}") if place == 0 else (ANY,)
        return None

    def _pairs(self, owner: ast.expr, place: int, depth: int) -> Texts:
        sources: Sequence[_Source] = [owner]
        if isinstance(owner, ast.Name):
            sources = self._bound.get(owner.id, [None])
        if not all(isinstance(source, ast.Dict) for source in sources):
            return None
        parts = [
            part
            for source in sources
            if isinstance(source, ast.Dict)
            for part in (source.keys, source.values)[place > 0]
        ]
        return _union(self.of(part, depth) for part in parts)


def called(call: ast.Call) -> tuple[str, ast.expr | None]:
    """The name of what is called, and what it is an attribute of."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr, call.func.value
    return (call.func.id if isinstance(call.func, ast.Name) else ""), None


def _is_module(owner: ast.expr | None, name: str) -> bool:
    return isinstance(owner, ast.Name) and owner.id == name


def _is_path_module(owner: ast.expr | None) -> bool:
    return isinstance(owner, ast.Attribute) and owner.attr == "path" and _is_module(owner.value, "os")


def _path(pieces: Sequence[str]) -> str:
    """Pieces of a path put together, as `Path` and `os.path.join` do."""
    found = ""
    for piece in pieces:
        found = piece if piece.startswith("/") or not found else f"{found.rstrip('/')}/{piece}"
    return found


def _map(texts: Texts, change: Callable[[str], str]) -> Texts:
    return None if texts is None else tuple(map(change, texts))


def _union(found: Iterator[Texts]) -> Texts:
    texts: dict[str, None] = {}
    for each in found:
        if each is None:
            return None
        texts.update(dict.fromkeys(each))
    return tuple(texts) if len(texts) <= MOST else None
