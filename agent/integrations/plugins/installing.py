"""Copying a plugin into the home, exchanging it for a newer one, and taking it away."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.core.home import PRIVATE_FILE, PRIVATE_FOLDER, Home, private_folder
from agent.integrations.plugins.enabling import withdraw
from agent.integrations.plugins.files import MOST_BYTES, OutsideError, hashes, inside, walk
from agent.integrations.plugins.package import PluginPackage, read_plugin
from agent.integrations.plugins.problem import PluginError
from agent.integrations.plugins.shelf import ShelvedPlugin, data_folder
from tools.kit.files import NotAFileError, read_bytes, write_new
from tools.text.words import brief

_STAGED = ".new-"


@contextmanager
def staged(home: Home, source: Path) -> Iterator[PluginPackage]:
    """A copy of a plugin beside those of the home, which is gone afterwards unless it was put in place.

    Links within the plugin are followed, those that lead out are left out. Raises `PluginError`.
    """
    plugin = read_plugin(source, home.plugin_data / "none")
    hashes(plugin.root)
    if plugin.root.is_relative_to(home.plugins.resolve()):
        raise PluginError(
            f"{brief(source, 300)} lies among your plugins already; see `hermes plugin enable {plugin.name}`."
        )
    folder = Path(tempfile.mkdtemp(prefix=_STAGED, dir=private_folder(home.plugins)))
    try:
        copy = folder / plugin.name
        _copied(plugin.root, copy)
        yield read_plugin(copy, data_folder(home, plugin.name, copy, "home"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put_in_place(home: Home, plugin: PluginPackage) -> Path:
    """Put a staged plugin where the home has one of its name, if any; its folder. Raises `PluginError`."""
    target = home.plugins.resolve() / plugin.name
    before = plugin.root.with_name(f"{plugin.name}.before")
    try:
        if os.path.lexists(target):
            target.rename(before)
        try:
            plugin.root.rename(target)
        except OSError:
            if os.path.lexists(before):
                before.rename(target)
            raise
    except OSError as error:
        raise PluginError(f"{brief(target, 300)} cannot be written: {error.strerror or error}.") from error
    return target


def uninstall(home: Home, shelved: ShelvedPlugin, *, keep_data: bool = False) -> None:
    """Take a plugin of the home away, with its consent and what it kept. Raises `PluginError`."""
    if shelved.place != "home":
        where = "comes with the project" if shelved.place == "project" else "was installed by pip"
        raise PluginError(
            f"The plugin {shelved.name} {where}; switch it off with `hermes plugin disable {shelved.name}`, "
            "or remove it there."
        )
    withdraw(home, shelved.folder)
    try:
        shutil.rmtree(shelved.folder)
        if not keep_data and shelved.plugin is not None and shelved.data.is_dir():
            shutil.rmtree(shelved.data)
    except OSError as error:
        raise PluginError(
            f"{brief(error.filename, 300)} cannot be removed: {error.strerror or error}."
        ) from error


def _copied(root: Path, target: Path) -> None:
    total = 0
    try:
        target.mkdir(mode=PRIVATE_FOLDER)
        for path in walk(root):
            try:
                real = inside(root, path)
            except OutsideError:
                continue
            if not real.is_file():
                continue
            content, status = read_bytes(real, MOST_BYTES)
            total += len(content)
            if total > MOST_BYTES:
                raise PluginError(f"The plugin has more than {MOST_BYTES // 1_000_000} MB; make it smaller.")
            place = target / path.relative_to(root)
            place.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            mode = PRIVATE_FOLDER if status.st_mode & 0o100 else PRIVATE_FILE
            write_new(place, content, mode)
    except NotAFileError as error:
        raise PluginError(f"{brief(root, 300)} holds what is no plain file: {error}.") from error
    except OSError as error:
        raise PluginError(
            f"{brief(error.filename or target, 300)} cannot be copied: {error.strerror or error}."
        ) from error
