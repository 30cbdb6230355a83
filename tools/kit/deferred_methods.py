"""Writing the methods of data classes when they are first called.

`dataclasses` compiles up to six functions a class while its module is imported, half a millisecond. At the
first request nine hundred such classes are loaded, and few have been instantiated: a third of the time from
the start to that request would go into methods that nobody calls.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Maker = Callable[..., Callable[..., Any]]


def defer_methods() -> None:
    """Have data classes that are defined from now on compile each method at its first call.

    From Python 3.13 on, `dataclasses` compiles all methods of a class at once, and nothing is changed.
    """
    if sys.version_info < (3, 13):
        dataclasses._create_fn = _deferring(dataclasses._create_fn)  # type: ignore[attr-defined]


def _deferring(create: Maker) -> Maker:
    """Return a function with the signature of `create` whose methods are compiled when they are called."""

    def create_later(
        name: str, args: Sequence[str], body: Sequence[str], **context: Mapping[str, Any]
    ) -> Callable[..., Any]:
        compiled: Callable[..., Any] | None = None

        def method(*given: Any, **named: Any) -> Any:
            nonlocal compiled
            if compiled is None:
                compiled = create(name, args, body, **context)
                compiled.__qualname__ = method.__qualname__
                for owner in type(given[0]).__mro__:
                    if owner.__dict__.get(name) is method:
                        type.__setattr__(owner, name, compiled)
            return compiled(*given, **named)

        method.__name__ = name
        return method

    return create_later
