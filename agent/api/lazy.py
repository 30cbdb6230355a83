"""Names of a module that are read from where they live when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def exports(module: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module that hands on names of others.

    `places` gives for each module the names it has, separated by spaces; a name may also be a
    module of a package. What was read once is kept in the module.
    """
    found = {name: place for place, names in places.items() for name in names.split()}

    def read(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        place = import_module(found[name])
        value = getattr(place, name) if hasattr(place, name) else import_module(f"{found[name]}.{name}")
        setattr(sys.modules[module], name, value)
        return value

    return read
