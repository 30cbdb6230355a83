"""Leaving the work of `dataclasses` until a class is used.

`dataclasses` reads the fields of a class and compiles up to six functions while the module is imported, up to
a millisecond. At the first request nine hundred such classes are loaded, and few have been instantiated: a
third of the time from the start to that request would go into classes that are never used.

So a class with slots initially gets only its slots and a general `__init__`, which serves the first
objects. `dataclasses` processes it when there are many, when another of its methods is called or its fields
are asked for; an error in its definition is raised then, too. The methods of all data classes are compiled
when they are called.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from abc import ABCMeta
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field
from typing import Any, NamedTuple

Maker = Callable[..., Callable[..., Any]]

_OPTIONS = frozenset({"frozen", "slots", "kw_only", "eq"})
"""The options with which a class may be processed later."""
_ATTRIBUTES = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
_IF_FROZEN = ("__setattr__", "__delattr__", "__getstate__", "__setstate__")
_GENERAL = 50
"""The number of objects of a class made with the general `__init__` before a faster one is compiled."""
_processing = threading.RLock()


def defer_methods() -> None:
    """Have data classes that are defined from now on processed, and their methods compiled, at first use.

    Up to Python 3.12 each method is compiled by itself, from 3.13 on all of a class are at once.
    """
    if sys.version_info < (3, 13):
        dataclasses._create_fn = _deferring(dataclasses._create_fn)  # type: ignore[attr-defined]
    else:
        builder = dataclasses._FuncBuilder  # type: ignore[attr-defined]
        builder.add_fns_to_class = _adding_later(builder.add_fns_to_class)
    dataclasses.dataclass = _processing_later(dataclasses.dataclass)


def _processing_later(process: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decorator with the signature of `process` that leaves it for the first use of a class."""

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        names = _field_names(cls) if options.get("slots") and _OPTIONS.issuperset(options) else None
        return process(cls, **options) if names is None else _process_later(cls, names, process, options)

    return dataclass


def _field_names(cls: type) -> tuple[str, ...] | None:
    """Return the fields that a data class defines; None if it must be processed to know them or its slots."""
    for base in cls.__mro__[1:-1]:
        if "__slots__" not in base.__dict__ and "__dataclass_fields__" in base.__dict__:
            return None
    try:
        annotations = cls.__annotations__
    except NameError:  # from Python 3.14 on they are evaluated now
        return None
    names = []
    for name, annotation in annotations.items():
        if str(annotation).startswith(("ClassVar[", "typing.ClassVar[")):
            continue
        if any(word in str(annotation) for word in ("ClassVar", "InitVar", "KW_ONLY")):
            return None
        names.append(name)
    return tuple(names) if type(cls) in (type, ABCMeta) else None


def _process_later(
    cls: type, names: tuple[str, ...], process: Callable[..., Any], options: Mapping[str, Any]
) -> type:
    """Return a class like `cls` with these fields; what `process` adds is added when it is used."""
    body = {
        name: each for name, each in cls.__dict__.items() if name not in (*names, "__dict__", "__weakref__")
    }
    inherited: set[str] = set()
    for base in cls.__mro__[1:-1]:
        slots = base.__dict__.get("__slots__", ())
        inherited.update((slots,) if isinstance(slots, str) else slots)
    slots = tuple(name for name in names if name not in inherited)
    is_compared, is_frozen = options.get("eq", True), options.get("frozen", False)
    later = ["__init__", "__repr__", *_ATTRIBUTES, *(_IF_FROZEN if is_frozen else ())]
    if is_compared:
        later.append("__eq__")
        # Python gives a class that defines `__eq__` a `__hash__` of None.
        if body.get("__hash__") is None and ("__eq__" in body or "__hash__" not in body):
            body.pop("__hash__", None)
            if is_frozen:
                later.append("__hash__")
            else:
                body["__hash__"] = None
    later = [name for name in later if name not in body]
    is_processed = False

    def complete() -> type:
        nonlocal is_processed
        with _processing:
            if not is_processed:
                added = process(cls, **options).__dict__
                for name in later:
                    type.__setattr__(final, name, added[name])
                is_processed = True
        return final

    for name in later:
        body[name] = _Attribute(name, complete) if name in _ATTRIBUTES else _method(name, complete)
    final = type(cls)(cls.__name__, cls.__bases__, {**body, "__slots__": slots})
    final.__qualname__ = cls.__qualname__
    arguments = _arguments(cls, final, names, is_keyword=options.get("kw_only", False))
    if "__init__" in later and arguments is not None:
        type.__setattr__(final, "__init__", _general_init(final, arguments, complete))
    return final


class _Argument(NamedTuple):
    """An argument of the `__init__` of a data class."""

    put: Callable[[Any, Any], None]
    """Sets the field of an object, also of a frozen one."""
    is_keyword: bool
    default: Any
    """The value if it is left out, `MISSING` without one."""
    make: Any
    """Makes that value, or `MISSING`."""

    @property
    def is_required(self) -> bool:
        return self.default is MISSING and self.make is MISSING


def _arguments(
    cls: type, final: type, names: Sequence[str], *, is_keyword: bool
) -> dict[str, _Argument] | None:
    """Return the arguments of `__init__` by name; None if only `dataclasses` can determine them.

    `cls` is the class as it was written, `final` the one with slots.
    """
    found: dict[str, _Argument] = {}
    for base in reversed(cls.__mro__[1:-1]):
        if "__dataclass_fields__" in base.__dict__:
            arguments = getattr(base.__dict__["__init__"], "arguments", None)
            if arguments is None:
                return None
            found |= arguments
    for name in names:
        default = cls.__dict__.get(name, MISSING)
        put = getattr(getattr(final, name, None), "__set__", None)
        given = default if isinstance(default, Field) else dataclasses.field(default=default)
        value = given.default
        if put is None or not given.init or hasattr(value, "__get__"):
            return None
        if type(value).__hash__ is None:
            return None  # `dataclasses` refuses what all objects would share
        keyword = is_keyword if given.kw_only is MISSING else given.kw_only
        found[name] = _Argument(put, keyword, value, given.default_factory)
    required = [each.is_required for each in found.values() if not each.is_keyword]
    # It also refuses an argument without a default behind one with.
    return found if required == sorted(required, reverse=True) else None


def _general_init(
    cls: type, arguments: dict[str, _Argument], complete: Callable[[], type]
) -> Callable[..., None]:
    """Return an `__init__` for the first objects of a class, which needs no compilation."""
    positional = [name for name, each in arguments.items() if not each.is_keyword]
    is_continued = hasattr(cls, "__post_init__")
    made = 0

    def init(self: Any, *given: Any, **named: Any) -> None:
        nonlocal made
        made += 1
        values = dict(zip(positional, given, strict=False)) | named
        # What it cannot do is done, or refused, by the one of `dataclasses`.
        is_general = len(values) == len(given) + len(named) and values.keys() <= arguments.keys()
        if not is_general or made > _GENERAL:
            return complete().__dict__["__init__"](self, *given, **named)
        for name, each in arguments.items():
            if name in values:
                each.put(self, values[name])
            elif each.is_required:
                return complete().__dict__["__init__"](self, *given, **named)
            else:
                each.put(self, each.default if each.make is MISSING else each.make())
        if is_continued:
            self.__post_init__()
        return None

    init.__name__, init.__qualname__ = "__init__", f"{cls.__qualname__}.__init__"
    init.__dict__["arguments"] = arguments
    return init


def _method(name: str, complete: Callable[[], type]) -> Callable[..., Any]:
    """Return the method `name` of a class that is processed when it is called."""

    def method(self: Any, *given: Any, **named: Any) -> Any:
        return complete().__dict__[name](self, *given, **named)

    return method


class _Attribute:
    """An attribute of a class that is processed when it is read."""

    def __init__(self, name: str, complete: Callable[[], type]) -> None:
        self._name, self._complete = name, complete

    def __get__(self, _instance: object, _owner: type) -> Any:
        return self._complete().__dict__[self._name]


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
                owners = _owners(method, type(given[0]))
                if compiled is None:
                    whole = type(cls.__name__, (), {"__qualname__": cls.__qualname__})
                    if owners and "__class__" in builder.locals:
                        # From Python 3.14 on it is the class with slots, which was made after this one.
                        builder.locals["__class__"] = owners[0]
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
    """Replace a method that compiles itself with the compiled one, in a class or those it inherits from."""
    for owner in _owners(method, kind):
        type.__setattr__(owner, method.__name__, compiled)


def _owners(method: Callable[..., Any], kind: type) -> list[type]:
    """Return the classes that have this method themselves, of `kind` and those it inherits from."""
    return [owner for owner in kind.__mro__ if owner.__dict__.get(method.__name__) is method]
