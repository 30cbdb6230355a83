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
    """Have data classes that are defined from now on compile their methods at the first call of one.

    Up to Python 3.12 each method is compiled by itself, from 3.13 on all of a class are at once.
    """
    if sys.version_info < (3, 13):
        dataclasses._create_fn = _deferring(dataclasses._create_fn)  # type: ignore[attr-defined]
    else:
        builder = dataclasses._FuncBuilder  # type: ignore[attr-defined]
        builder.add_fns_to_class = _adding_later(builder.add_fns_to_class)


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
                _replace(method, compiled, type(given[0]))
            return compiled(*given, **named)

        method.__name__ = name
        return method

    return create_later


def _adding_later(add: Callable[[Any, type], None]) -> Callable[[Any, type], None]:
    """Return a function with the signature of `add` whose methods are compiled when one is called."""

    def add_later(builder: Any, cls: type) -> None:
        if any(name in cls.__dict__ for name in builder.overwrite_errors):
            return add(builder, cls)  # raises the error of the library
        compiled: type | None = None

        def stub(name: str) -> Callable[..., Any]:
            def method(*given: Any, **named: Any) -> Any:
                nonlocal compiled
                if compiled is None:
                    whole = type(cls.__name__, (), {"__qualname__": cls.__qualname__})
                    add(builder, whole)
                    compiled = whole
                function = compiled.__dict__[name]
                _replace(method, function, type(given[0]))
                return function(*given, **named)

            method.__name__ = name
            method.__qualname__ = f"{cls.__qualname__}.{name}"
            return method

        for name in builder.names:
            if name not in cls.__dict__ or builder.unconditional_adds.get(name):
                setattr(cls, name, stub(name))
        return None

    return add_later


def _replace(method: Callable[..., Any], compiled: Callable[..., Any], kind: type) -> None:
    """Put a compiled method where the one that compiles it stands, in a class or those it inherits from."""
    for owner in kind.__mro__:
        if owner.__dict__.get(method.__name__) is method:
            type.__setattr__(owner, method.__name__, compiled)
