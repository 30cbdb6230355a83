"""Reads a Seatbelt profile as macOS does: rules in order, the last one that fits a request decides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

_TOKEN = re.compile(r'\s*(?:(\()|(\))|"((?:[^"\\]|\\.)*)"|([^\s()"]+))')
Form = str | list["Form"]


@dataclass(frozen=True)
class Rule:
    """A verdict for operations, where any of the filters fits; without filters always."""

    allows: bool
    operations: tuple[str, ...]
    filters: tuple[tuple[str, str], ...]

    def fits(self, operation: str, path: str) -> bool:
        wanted = any(
            operation == each or (each.endswith("*") and operation.startswith(each[:-1]))
            for each in self.operations
        )
        return wanted and (not self.filters or any(_fits(kind, said, path) for kind, said in self.filters))


def rules(profile: str) -> list[Rule]:
    """Raises `AssertionError` for text that is not a profile of version 1."""
    forms = list(_forms(profile))
    assert forms[0] == ["version", "1"]
    found = [_rule(form) for form in forms[1:]]
    assert not found[0].allows, "what nothing names has to be denied"
    return found


def allows(found: list[Rule], operation: str, path: str = "") -> bool:
    """What the last rule that fits says of `operation` on `path`."""
    return [rule.allows for rule in found if rule.fits(operation, path)][-1]


def _rule(form: Form) -> Rule:
    assert isinstance(form, list)
    verdict, *rest = form
    assert verdict in ("allow", "deny")
    if rest == ["default"]:
        return Rule(verdict == "allow", ("*",), ())
    operations = tuple(each for each in rest if isinstance(each, str))
    filters = tuple((str(each[0]), str(each[-1])) for each in rest if isinstance(each, list))
    assert operations
    return Rule(verdict == "allow", operations, filters)


def _fits(kind: str, said: str, path: str) -> bool:
    if kind == "literal":
        return path == said
    if kind == "subpath":
        return PurePosixPath(path).is_relative_to(said)
    return said == path


def _forms(text: str) -> Iterator[Form]:
    stack: list[list[Form]] = [[]]
    text, place = text.strip(), 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        assert match, text[place:]
        opened, closed, quoted, word = match.groups()
        place = match.end()
        if opened:
            stack.append([])
        elif closed:
            inner = stack.pop()
            stack[-1].append(inner)
        else:
            stack[-1].append(word if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
    assert len(stack) == 1
    yield from stack[0]
