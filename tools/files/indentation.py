"""Carrying lines from the indentation a model used to the one the file uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_DEFAULT_UNIT = 4


@dataclass(frozen=True, slots=True)
class Indentation:
    """What is known from lines that stand in both: `known` leads from the model's to the file's."""

    known: Mapping[str, str] = field(default_factory=dict)
    model_unit: int = _DEFAULT_UNIT
    """Columns of one level where the model indents with spaces."""
    file_unit: int = _DEFAULT_UNIT

    @classmethod
    def learn(cls, pairs: Iterable[tuple[str, str]], further: Sequence[str] = ()) -> Indentation:
        """Learn from `(model's line, file's line)` pairs; `further` are more lines of the model."""
        known: dict[str, str] = {}
        file_indents: list[str] = []
        for model_line, file_line in pairs:
            if model_line.strip() and file_line.strip():
                known.setdefault(indent_of(model_line), indent_of(file_line))
                file_indents.append(indent_of(file_line))
        model_indents = list(known) + [indent_of(line) for line in further if line.strip()]
        model_unit = _unit(model_indents)
        file_unit = _unit(file_indents)
        if not _has_tabs(model_indents) and not _has_tabs(file_indents) and len(set(known)) < 2:
            # One pair shows a shift, not a scale.
            file_unit = model_unit
        return cls(known, model_unit, file_unit)

    @property
    def is_same(self) -> bool:
        """Whether model and file indent alike as far as known."""
        return all(model == file for model, file in self.known.items())

    def carry(self, line: str) -> str:
        """`line` of the model with the indentation it has in the file."""
        body = line.lstrip(" \t")
        if not body or self.is_same:
            return line
        return self._carry_indent(line[: len(line) - len(body)]) + body

    def _carry_indent(self, indent: str) -> str:
        if indent in self.known:
            return self.known[indent]
        above = [known for known in self.known if indent.startswith(known)]
        if above:
            base = max(above, key=len)
            return self.known[base] + self._convert(indent[len(base) :])
        below = [known for known in self.known if known.startswith(indent)]
        if below:
            base = min(below, key=len)
            return _without(self.known[base], self._convert(base[len(indent) :]))
        return indent

    def _convert(self, extra: str) -> str:
        """A deeper part of an indentation in the file's kind of blanks."""
        file_tabs = _has_tabs(self.known.values())
        model_tabs = "\t" in extra
        if file_tabs and not model_tabs:
            return "\t" * max(1, round(len(extra) / self.model_unit))
        if not file_tabs and model_tabs and any(self.known.values()):
            return " " * (self.file_unit * extra.count("\t"))
        if not file_tabs and not model_tabs and len(extra) % self.model_unit == 0:
            return " " * (len(extra) // self.model_unit * self.file_unit)
        return extra


def indent_of(line: str) -> str:
    """The blanks `line` starts with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def _without(indent: str, cut: str) -> str:
    if indent.endswith(cut):
        return indent[: len(indent) - len(cut)]
    return "" if len(cut) >= len(indent) else indent


def _has_tabs(indents: Iterable[str]) -> bool:
    return any("\t" in indent for indent in indents)


def _unit(indents: Iterable[str]) -> int:
    """The smallest step between different depths in columns of spaces; 4 if there is none."""
    depths = sorted({len(indent) for indent in indents if "\t" not in indent})
    steps = [deeper - depth for depth, deeper in pairwise(depths)]
    if steps:
        return min(steps)
    return depths[0] if depths and depths[0] else _DEFAULT_UNIT
