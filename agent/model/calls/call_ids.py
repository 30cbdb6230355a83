"""Call ids in the form that a model accepts. An id stays the same in all requests of a conversation."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache

from agent.core.messages import ToolCall
from tools.kit.lazy_pattern import lazy_pattern

LONGEST = 64
FORMS = {
    "plain": r"[a-zA-Z0-9_-]{1,64}",
    "nine-alphanumeric": r"[a-zA-Z0-9]{9}",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
}
"""Forms with a name; any other form is a simple pattern of characters, classes and their counts."""
USUAL = 24
"""The length of a part of a pattern whose length is open, in characters."""

_PART = lazy_pattern(r"(\[(?:[^\]\\]|\\.)+\]|\\.|[^\\])(?:\{(\d+)(?:,(\d*))?\}|([+*?]))?")


class CallIds:
    """Gives each call of a conversation a unique id in one form, at most `longest` characters long.

    This is necessary because some models use ids that another provider refuses, or the same ids in every
    turn. A new id depends only on the calls before it.
    """

    def __init__(self, longest: int = LONGEST, form: str = "plain") -> None:
        self._longest = longest
        self._form = FORMS.get(form, form)
        self._taken: set[str] = set()
        self._newest: dict[str, str] = {}

    def add(self, calls: Sequence[ToolCall]) -> list[str]:
        """Return the ids for the calls of the next message, in order."""
        made = [self._unique(call.id) for call in calls]
        self._newest = {call.id: given for call, given in zip(calls, made, strict=True)}
        return made

    def result_id(self, call_id: str) -> str | None:
        """Return the new id of a call in the newest message, for its result; None if it has no such call."""
        return self._newest.get(call_id)

    def _unique(self, call_id: str) -> str:
        fits = re.fullmatch(self._form, call_id) is not None and len(call_id) <= self._longest
        wanted = call_id if fits else self._other(call_id)
        made, number = wanted, 1
        while made in self._taken and number < 1_000:
            number += 1
            if self._form == FORMS["plain"]:
                ending = f"_{number}"
                made = wanted[: self._longest - len(ending)] + ending
            else:
                made = id_in_form(self._form, f"{call_id}#{number}")
        self._taken.add(made)
        return made

    def _other(self, call_id: str) -> str:
        if self._form == FORMS["plain"]:
            return f"call_{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
        return id_in_form(self._form, call_id)


def id_in_form(form: str, seed: str) -> str:
    """Return an id that matches the pattern `form`, derived from `seed`."""
    numbers = _numbers(seed)
    made: list[str] = []
    for what, least, most, sign in _PART.findall(form):
        characters = _characters(what)
        least, most = int(least or (sign in ("", "+"))), most or least
        count = least if sign != "+" and not (least and most) else max(least, min(int(most or USUAL), USUAL))
        count = USUAL if sign in ("+", "*") else count
        made += [characters[next(numbers) % len(characters)] for _ in range(count)]
    return "".join(made)


def is_form(form: str) -> bool:
    """Return whether ids can be generated in a form, given as a name or a pattern."""
    try:
        return re.fullmatch(FORMS.get(form, form), id_in_form(FORMS.get(form, form), "call_1")) is not None
    except (re.error, ValueError, IndexError, ZeroDivisionError):
        return False


def _numbers(seed: str) -> Iterator[int]:
    block = seed.encode("utf-8", "surrogatepass")
    while True:
        block = hashlib.sha256(block).digest()
        yield from block


@cache
def _characters(what: str) -> str:
    """Return the visible ASCII characters that a class, or a single character, of a pattern matches."""
    letters = "".join(map(chr, range(33, 127)))
    if what.startswith("[") or what[0] == "\\":
        return "".join(char for char in letters if re.fullmatch(what, char))
    return what if what != "." else "".join(filter(str.isalnum, letters))
