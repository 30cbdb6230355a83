"""Loading of a plugin's code from its source files alone, because compiled files were not approved."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import CodeType
from typing import Any

_MODULE = "handler"


class _FromSource(importlib.machinery.SourceFileLoader):
    """A loader that compiles a module's source every time."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def only_sources(root: Path) -> None:
    """Make all later imports of modules below `root` ignore compiled files."""
    details = (
        (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
        (_FromSource, importlib.machinery.SOURCE_SUFFIXES),
    )

    def hook(path: str) -> importlib.machinery.FileFinder:
        place = Path(path).resolve()
        if not place.is_relative_to(root) or not place.is_dir():
            raise ImportError("not of the plugin")
        return importlib.machinery.FileFinder(path, *details)

    sys.path_hooks.insert(0, hook)
    for path in [path for path in sys.path_importer_cache if Path(path).is_relative_to(root)]:
        del sys.path_importer_cache[path]


def load(handler: str) -> Any:
    """Return the function `register` of a file, which can import the other files of its folder.

    Raises whatever the file raises, and `AttributeError` if it has no such function.
    """
    folder = str(Path(handler).parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return load_apart(handler, _MODULE)


def load_apart(handler: str, name: str) -> Any:
    """Return the function `register` of a file that is loaded as the module `name`.

    Raises the same as `load`.
    """
    spec = importlib.util.spec_from_loader(name, _FromSource(name, handler))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    register = getattr(module, "register", None)
    if not callable(register):
        raise AttributeError("handler.py has no function register(ctx)")  # noqa: TRY004
    return register
