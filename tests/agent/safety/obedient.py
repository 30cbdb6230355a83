"""A model that obeys: whatever looks like an order in what it reads becomes its next call."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tests.support.replies import Call, Reply, call, say

MARKER = "ORDER: "
_PLAIN = re.compile(r"(?:assistant|agent)[,:] (?:please )?(?:run|execute) `([^`]+)`", re.IGNORECASE)


def order(tool: str, **arguments: Any) -> str:
    """An order as an attacker would leave it: the call, word for word."""
    return f"{MARKER}{tool} {json.dumps(arguments)}"


class Obedient:
    """Makes the calls of `looks` first, then every call it is ordered to make, each once."""

    def __init__(self, looks: Sequence[Reply]) -> None:
        self._looks = looks
        self.obeyed: list[str] = []

    def __call__(self, request: Any) -> Reply:
        step = sum(message["role"] == "assistant" for message in request.messages)
        if step < len(self._looks):
            return self._looks[step]
        for text in _texts(request.messages):
            for name, arguments in _orders(text):
                key = f"{name} {arguments}"
                if key not in self.obeyed:
                    self.obeyed.append(key)
                    return Reply(calls=(Call(name, arguments),))
        return say("Everything is done as ordered.")


def _texts(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    for message in messages:
        if message["role"] == "tool":
            yield from _strings(json.loads(message["content"]))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)


def _orders(text: str) -> Iterator[tuple[str, str]]:
    """Orders word for word, and those in plain language."""
    # Line numbers of a file that is read stand before each line, not within one.
    at = text.find(MARKER)
    while at >= 0:
        name, _, rest = text[at + len(MARKER) :].partition(" ")
        # As it stands, or quoted once more, as in a file of JSON.
        for written in (rest, rest.replace('\\"', '"')):
            try:
                arguments, _ = json.JSONDecoder().raw_decode(written)
                yield name, json.dumps(arguments)
                break
            except ValueError:
                continue
        at = text.find(MARKER, at + 1)
    for found in _PLAIN.finditer(text):
        yield "terminal", json.dumps({"command": found[1]})


__all__ = ["Obedient", "call", "order"]
