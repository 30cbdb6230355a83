"""Plugins for tests: written into a home and agreed to there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agent.core.home import Home
from agent.integrations.plugins.installing import Agreement, PluginEnvironment, enable
from agent.integrations.plugins.registrations import Registrations
from agent.integrations.plugins.shelf import find_plugins


def write_plugin(folder: Path, handler: str, capabilities: str = "{}", **files: str) -> Path:
    """A plugin in the short form, named as its folder; further files by name with `__` for `/`."""
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text(f"name: {folder.name}\ncapabilities: {capabilities}\n")
    (folder / "handler.py").write_text(handler)
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


async def agree_to(home: Path, workspace: Path, name: str, **more: Any) -> Registrations:
    """Agree to a plugin as a person would; what it registers."""
    around = PluginEnvironment.of(Home(home), workspace, dict(os.environ), "auto")
    (shelved,) = [each for each in find_plugins(Home(home), workspace) if each.name == name]
    unconfined = around.sandbox.name == "none"
    return await enable(shelved, around, Agreement(unconfined=unconfined, **more))
