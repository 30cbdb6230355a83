"""Keys of every list of the program, collected from the classes that bind them."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

from textual.binding import Binding
from textual.screen import Screen

import app.tui.commands
import app.tui.screens
import widgets
from app.tui.commands.keys import LETTERS
from widgets.key_names import shown_key
from widgets.rows.reader import Reader
from widgets.rows.row_list import RowList


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def lists() -> list[type]:
    """Every screen of rows, every list and every pane of the program."""
    found = {
        each
        for package in (app.tui.commands, app.tui.screens, widgets)
        for module in modules(package)
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, (Screen, RowList))
        and not issubclass(each, Reader)
        and "BINDINGS" in vars(each)
        and each.__module__.startswith(("app.", "widgets."))
    }
    return sorted(found, key=lambda each: each.__name__)


def keys_of(owner: type) -> Iterator[tuple[str, str]]:
    """Each key of a list with its action, without its arguments."""
    for binding in Binding.make_bindings(owner.__dict__["BINDINGS"]):
        name = re.sub(r"^(app|screen)\.", "", binding.action)
        name, _, rest = name.partition("(")
        if name in ("ask", "order"):
            name = re.sub(r"[^a-z_.]", "", rest).rpartition(".")[2]
        yield shown_key(binding.key), name


def table_of_letters() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The letters with their meaning, and what each does in which list."""
    rows: dict[str, list[str]] = {key: [] for key in LETTERS}
    for owner in lists():
        name = (
            re.sub(
                r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"(Screen|Rows|Pane|List)$", "", owner.__name__)
            ).lower()
            or "panes"
        )
        for binding in Binding.make_bindings(owner.__dict__["BINDINGS"]):
            key = shown_key(binding.key)
            if key in rows and len(key) <= 5 and key not in ("⏎", "/", "?", "esc", "y"):
                rows[key].append(f"{name}: {binding.description.lower()}")
    return ("Key", "Meaning", "Where"), [
        (f"`{key}`", meaning, "; ".join(rows[key]) or "everywhere") for key, meaning in LETTERS.items()
    ]
