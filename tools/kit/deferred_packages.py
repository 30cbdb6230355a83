"""Importing what libraries offer when it is first used, and not importing what Hermes never uses.

The `openai` package imports its 350 modules of types to offer their names in `openai.types`. One request uses
none of them, and they are half the time and most of the memory of the import. `httpcore2` imports each of its
connections twice, and HTTP/2, which only servers that use it need.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFERRED = ("openai.lib", "openai.types", "httpcore2", "httpcore2._async", "httpcore2._sync")
"""Packages whose names are imported at their first use, as are those of the packages in `openai.types`."""
LEFT_OUT = "openai._vendor.httpx_aiohttp"
"""A second HTTP client that Hermes does not use; where aiohttp is installed, its import takes 0.2 s."""

PLUGINS = "pydantic.plugin._loader"
"""Reads all installed packages' metadata for plugins of pydantic before its first model is made; Hermes uses
none. With what it imports that takes 25 ms of every start. An environment variable would reach the programs
that Hermes starts, too.
"""


def defer_packages() -> None:
    """Make `DEFERRED` packages import names at first use, give pydantic no plugins, and block `LEFT_OUT`."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == PLUGINS:
            return ModuleSpec(fullname, _NoPlugins())
        if fullname == LEFT_OUT:
            raise ModuleNotFoundError(f"Hermes does not use {fullname}", name=fullname)
        if fullname not in DEFERRED and not fullname.startswith("openai.types."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.submodule_search_locations and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _DeferredLoader(fullname, spec.loader.path)
        return spec


class _NoPlugins(Loader):
    """A loader of `PLUGINS` whose list of plugins is empty."""

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["get_plugins"] = tuple


class _DeferredLoader(SourceFileLoader):
    """A loader of packages whose `__init__` only imports names from modules of the package."""

    def exec_module(self, module: ModuleType) -> None:
        offered: dict[str, tuple[str, str]] = {}

        def offered_value(name: str) -> Any:
            # Special names are looked up on every module, by importlib and inspect: none is imported.
            if name.startswith("__"):
                raise _missing(module, name)
            if not offered:
                offered.update(self._offered_names(module.__name__))
            if name not in offered:
                raise _missing(module, name)
            origin, attribute = offered[name]
            value = getattr(import_module(origin), attribute) if attribute else import_module(origin)
            setattr(module, name, value)
            return value

        module.__dict__["__getattr__"] = offered_value

    def _offered_names(self, package: str) -> dict[str, tuple[str, str]]:
        """Return the names that the body imports, with the module and the name there (empty: the module)."""
        import ast

        return {
            each.asname or each.name: (f"{package}.{line.module}", each.name)
            if line.module
            else (f"{package}.{each.name}", "")
            for part in ast.parse(self.get_source(package) or "").body
            for line in (part.body if isinstance(part, ast.Try) else (part,))
            if isinstance(line, ast.ImportFrom) and line.level == 1
            for each in line.names
        }


def _missing(module: ModuleType, name: str) -> AttributeError:
    return AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)
