"""Self-declaring parts: modules found by the folder and name of their file.

Each kind of part has a folder among the packages of the program, and one of its name in each folder of the
search path. Only file names are read to find parts; a part is imported when it is requested.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tools.kit.lazy_pattern import lazy_pattern

log = logging.getLogger(__name__)

ROOT = Path(__file__).parents[1]
"""The folder of the program's packages."""

_PART = lazy_pattern(r"[a-z][a-z0-9_]*")
_search_path: list[Path] = []


class PartFile(NamedTuple):
    """The file that declares a part."""

    name: str
    """The name of its file without `.py`, or of its package."""
    module: str
    path: Path | None
    """Its file outside of the packages; None for a part of the program."""


class Problem(NamedTuple):
    """A module that could not be loaded, with the reason on one line."""

    module: str
    reason: str


class PartKind(NamedTuple):
    """One kind of part: where its files are, and how they are named."""

    name: str
    """The name of its folder in the search path."""
    package: str
    """The dotted name of the program's package."""
    ending: str = ""
    """The ending of the program's file names; empty: every file of the package is a part."""

    def files(self) -> tuple[PartFile, ...]:
        """Return the files of the program, then those of the search path. Only reads file names."""
        return (*_own(self.package, self.ending), *self._outside())

    def load(self, part: PartFile) -> ModuleType:
        """Return the module of a part, which is imported only once.

        Errors of its code are raised unchanged.
        """
        if part.path is None:
            return importlib.import_module(part.module)
        if part.module in sys.modules:
            return sys.modules[part.module]
        # Named tuples and a late import: all of this is read before the first picture.
        from importlib.util import module_from_spec, spec_from_file_location

        spec = spec_from_file_location(part.module, part.path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{part.path} is not a Python file")
        module = module_from_spec(spec)
        sys.modules[part.module] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[part.module]
            raise
        return module

    def load_all(self) -> tuple[list[ModuleType], tuple[Problem, ...]]:
        """Load all parts; return their modules and the failures, which are also logged. A failure affects no
        other part.
        """
        modules: list[ModuleType] = []
        problems: list[Problem] = []
        for part in self.files():
            try:
                modules.append(self.load(part))
            except (Exception, SystemExit) as error:
                log.warning("%s could not be loaded", part.module, exc_info=True)
                reason = " ".join(str(error).split()) or "no reason given"
                where = part.module if part.path is None else str(part.path)
                problems.append(Problem(where, f"{type(error).__name__}: {reason}"))
        return modules, tuple(problems)

    def declarations(self, name: str) -> Iterator[Any]:
        """Load all parts; yield what each declares as `name`, or all that it lists as `name` with an `S`."""
        for module in self.load_all()[0]:
            yield from getattr(module, f"{name}S", None) or (getattr(module, name),)

    def _outside(self) -> Iterator[PartFile]:
        for number, folder in enumerate(_search_path):
            for name, path in _entries(folder / self.name):
                yield PartFile(name, f"hermes_parts_{number}_{self.name}_{name}", path)


@cache
def _own(package: str, ending: str) -> tuple[PartFile, ...]:
    """Return the parts of the program in `package`; they are cached, because the files do not change."""
    folder = ROOT.joinpath(*package.split("."))
    if not ending:
        return tuple(PartFile(name, f"{package}.{name}", None) for name, _ in _entries(folder))
    whole = ending.lstrip("_")
    found = [
        path
        for path in sorted(folder.rglob(f"*{whole}.py"))
        if path.stem == whole or path.stem.endswith(ending)
    ]
    return tuple(
        PartFile(path.stem, ".".join(path.relative_to(ROOT).with_suffix("").parts), None) for path in found
    )


def search_path() -> Sequence[Path]:
    """Return the folders searched for parts besides the packages."""
    return tuple(_search_path)


@contextmanager
def searching(folder: Path) -> Iterator[None]:
    """Add `folder` to the search path inside this block; forget afterwards what was loaded from it."""
    _search_path.append(folder)
    try:
        yield
    finally:
        _search_path.remove(folder)
        for name in [name for name in sys.modules if name.startswith("hermes_parts_")]:
            del sys.modules[name]


def _entries(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield names and files of the modules in a folder, in order; none for a missing folder."""
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return
    for path in found:
        if path.suffix == ".py" and _PART.fullmatch(path.stem):
            yield path.stem, path
        elif _PART.fullmatch(path.name) and (path / "__init__.py").is_file():
            yield path.name, path / "__init__.py"
