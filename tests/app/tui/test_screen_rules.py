"""Rules for what lives on the screen, which Textual does not tell anybody who breaks them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import app
import widgets
from app.tui.commands.keys import resolve
from app.tui.screens.help import HelpScreen
from tests.app.tui.pages import PageHost
from tests.support.waiting import until
from themes.loader import load_skin
from widgets.palette import Palette, textual_theme

HANDLERS = ("on_mount", "on_unmount", "on_resize", "on_prune", "on_screen_resume")
LOOKED_AT = {*HANDLERS, "run_worker"}

MethodCall = tuple[str, ast.Call, ast.Attribute]
"""Its place, the call, and what is called."""


@cache
def method_calls() -> dict[str, list[MethodCall]]:
    """Where methods are called in what draws, by their names."""
    found: dict[str, list[MethodCall]] = {}
    for package in (app, widgets):
        for file in Path(package.__path__[0]).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                match node:
                    case ast.Call(func=ast.Attribute(attr=name) as called) if name in LOOKED_AT:
                        found.setdefault(name, []).append((f"{file}:{node.lineno}", node, called))
                    case _:
                        pass
    return found


def calls(name: str) -> list[MethodCall]:
    """Where a method of this name is called in what draws."""
    assert name in LOOKED_AT
    return method_calls().get(name, [])


def test_work_is_handed_over_as_a_function() -> None:
    """A coroutine that was made for work which is cancelled before its first step is never awaited."""
    for place, call, _ in calls("run_worker"):
        work = call.args[0]
        assert not isinstance(work, ast.Call) or ast.unparse(work.func) == "partial", place


@pytest.mark.parametrize("handler", HANDLERS)
def test_no_handler_calls_the_one_above_it(handler: str) -> None:
    """Textual calls those of all classes, so it would run twice."""
    assert [place for place, _, called in calls(handler) if ast.unparse(called.value) == "super()"] == []


async def test_a_page_is_drawn_once_in_another_skin(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = HelpScreen([], resolve({}))
    host = PageHost(lambda: screen)
    async with host.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: screen.is_mounted)
        worn: list[Palette] = []
        monkeypatch.setattr(screen.rows, "use", worn.append)
        host.register_theme(theme := textual_theme(load_skin("paper").skin))
        host.theme = theme.name
        await until(pilot, lambda: worn)
        await pilot.pause()
        assert len(worn) == 1
