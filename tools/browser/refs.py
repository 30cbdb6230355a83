"""References to elements of pages: `e12` stays the same while the element lives, and is never given again."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FORM = re.compile(r"\W*(?:ref=)?e?(\d{1,9})\W*")


@dataclass(frozen=True, slots=True)
class NodeKey:
    """An element: the document it is in, and its node there."""

    frame: str
    loader: str
    """Which load of the frame; another one is another document."""
    node: int
    """Its backend node, as the browser numbers it."""


class RefTable:
    """The references of one tab."""

    def __init__(self) -> None:
        self._numbers: dict[NodeKey, int] = {}
        self._keys: dict[int, NodeKey] = {}
        self._names: dict[str, str] = {}
        self._next = 1

    def ref(self, key: NodeKey) -> str:
        """The reference of an element, given on first use."""
        number = self._numbers.get(key)
        if number is None:
            number = self._next
            self._next += 1
            self._numbers[key] = number
            self._keys[number] = key
        return f"e{number}"

    def key(self, ref: str) -> NodeKey | None:
        """The element a reference stands for; None where none has been given, or its document is gone."""
        found = _FORM.fullmatch(ref.strip())
        return None if found is None else self._keys.get(int(found[1]))

    def was_given(self, ref: str) -> bool:
        """Whether a reference has ever been given in this tab."""
        found = _FORM.fullmatch(ref.strip())
        return found is not None and 0 < int(found[1]) < self._next

    def keep(self, documents: frozenset[tuple[str, str]]) -> None:
        """Forget elements of documents other than these, which are pairs of frame and loader."""
        for key in [key for key in self._numbers if (key.frame, key.loader) not in documents]:
            number = self._numbers.pop(key)
            del self._keys[number]
            self._names.pop(f"e{number}", None)

    def name(self, ref: str, text: str) -> None:
        """Note the line in which a reference was shown last."""
        self._names[ref] = text

    def named(self, ref: str) -> str:
        """That line, or empty."""
        return self._names.get(ref, "")
