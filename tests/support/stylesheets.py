"""Stylesheets parsed once for all applications of a test run, instead of once for each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from textual.css.model import RuleSet
from textual.css.tokenizer import Token

KEPT_TEXTS = 2_048
"""Parsed texts that are kept: about 25 of them make up one application in one skin."""
KEPT_VARIABLES = 16
"""Sets of variables that are known by the object that holds them."""

Parse = Callable[..., Iterable[RuleSet]]
Variables = dict[str, list[Token]]


class _Numbers:
    """The same number for sets of variables that say the same."""

    def __init__(self) -> None:
        self._seen: dict[object, int] = {}
        self._known: OrderedDict[int, tuple[Variables, int]] = OrderedDict()

    def of(self, variables: Variables) -> int:
        if (known := self._known.get(id(variables))) is None:
            said = tuple(
                (name, *((token.name, token.value) for token in variables[name])) for name in variables
            )
            # The set is kept beside its number, so that no other object gets its id meanwhile.
            known = self._known[id(variables)] = variables, self._seen.setdefault(said, len(self._seen))
            if len(self._known) > KEPT_VARIABLES:
                self._known.popitem(last=False)
        return known[1]


def parsed_once(parse: Parse) -> Parse:
    """`textual.css.parse.parse` with a memory, which shares rules as a stylesheet does that is read again."""
    numbers = _Numbers()
    kept: OrderedDict[tuple[object, ...], list[RuleSet]] = OrderedDict()

    def parsed(
        scope: str, css: str, read_from: Any, *, variable_tokens: Variables, **how: Any
    ) -> list[RuleSet]:
        key = (scope, css, read_from, numbers.of(variable_tokens), *sorted(how.items()))
        if (rules := kept.get(key)) is None:
            rules = kept[key] = list(parse(scope, css, read_from, variable_tokens=variable_tokens, **how))
            if len(kept) > KEPT_TEXTS:
                kept.popitem(last=False)
        return rules

    return parsed
