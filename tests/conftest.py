"""What every test run needs."""

from __future__ import annotations

# First of all: some modules look at the environment when they are read.
import tests.support.surroundings  # noqa: F401

# isort: split
import asyncio
import gc
import importlib
import inspect
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from pytest_textual_snapshot import SVGImageExtension, normalize_svg
from syrupy.assertion import SnapshotAssertion
from syrupy.exceptions import SnapshotDoesNotExist
from textual import _callback
from textual.css import stylesheet
from textual.css.parse import parse
from textual.pilot import Pilot

from tests.support.forks import fork_where_possible
from tests.support.parameter_counts import counted_once
from tests.support.steady import steady_pause, steady_press
from tests.support.stylesheets import parsed_once
from tools.kit import umask

# A run that was started in the background inherits ignored signals of keys, one under `nohup` an ignored
# end of the terminal; the programs under test must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How many examples a property is tried on; one that is dear to try names its own number. The usual run tries
# the same ones each time, so that nothing but a change makes it fail; `make test-thorough` looks for others.
# Neither is held to a time, which depends on what else the machine does.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=50, derandomize=True, **UNTIMED)
settings.register_profile("thorough", max_examples=500, derandomize=False, **UNTIMED)
settings.load_profile("quick")

PATIENCE_FOR_PICTURES = 15.0
"""Seconds within which a screen has to look as it should."""

GARBAGE = (20_000, 20, 20)
"""Thresholds of the collections of garbage: each application of a test would be worth dozens of them."""

setattr(Pilot, "pause", steady_pause(Pilot.pause))  # noqa: B010
setattr(Pilot, "press", steady_press(Pilot.press))  # noqa: B010
setattr(stylesheet, "parse", parsed_once(parse))  # noqa: B010
fork_where_possible()
setattr(_callback, "_count_parameters", counted_once(_callback._count_parameters))  # noqa: B010


def pytest_collection(session: pytest.Session) -> None:
    """Let each worker of a run begin to compile at another file, so that together they compile each once.

    All of them import every file in any case, and in the same order they would all compile the same one.
    A module that cannot be imported is told of where pytest itself imports it.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.getoption("--changed", None) is not None:
        return
    gc.disable()  # Nothing of what is collected is garbage.
    files = sorted(
        path
        for name in session.config.args
        if (folder := Path(name).resolve()).is_dir()
        for path in folder.rglob("test_*.py")
    )
    first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in files[first:] + files[:first]:
        try:
            importlib.import_module(".".join(path.relative_to(session.config.rootpath).with_suffix("").parts))
        except (Exception, pytest.skip.Exception):
            continue


def pytest_collection_finish() -> None:
    """What was collected stays to the end, so no collection of garbage has to look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    gc.enable()


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """The program sets a umask of its own when it starts, and some tests start it in this process."""
    before = os.umask(0o022)
    umask.forget_umask()
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """The program starts its log when it starts; one that stayed would take down all later tests as well."""
    root = logging.getLogger()
    handlers, level, raising = root.handlers[:], root.level, logging.raiseExceptions
    yield
    logging.raiseExceptions = raising
    if root.level != level:
        root.setLevel(level)
    for each in [each for each in root.handlers if each not in handlers]:
        root.removeHandler(each)
        each.close()


@pytest.fixture(scope="module")
def set_aside() -> None:
    """Leave what is there before a file begins out of the collections of garbage that its tests make.

    Most of it is of other tests and lives to the end; a look at it takes longer than the test.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(config: pytest.Config) -> None:
    """Skip syrupy's report in workers: nobody sees it, and it compares every picture with every test."""
    if hasattr(config, "workerinput"):
        getattr(config, "_syrupy").report = SimpleNamespace(lines=())  # noqa: B009


@pytest.fixture
def snap_compare(snap_compare: Callable[..., bool], snapshot: SnapshotAssertion) -> Callable[..., bool]:
    """The picture the screen comes to: a busy machine needs longer until the last part of it is drawn."""
    stored = snapshot.use_extension(SVGImageExtension)

    def compare(app: Any, run_before: Callable[[Pilot[Any]], Any] | None = None, **how: Any) -> bool:
        expected = _stored(stored)

        async def until_drawn(pilot: Pilot[Any]) -> None:
            done = run_before(pilot) if run_before is not None else None
            if inspect.isawaitable(done):
                await done
            await pilot.pause()
            end = monotonic() + PATIENCE_FOR_PICTURES
            while True:
                picture = pilot.app.export_screenshot(title=app.title, simplify=True)
                if normalize_svg(picture) == expected:
                    # This is the one: it need not be drawn once more, nor can anything come in between.
                    setattr(pilot.app, "export_screenshot", lambda picture=picture, **_: picture)  # noqa: B010
                    return
                # Lists that repaint a few times a second do it now.
                for widget in pilot.app.screen.walk_children():
                    widget.refresh()
                await pilot.pause()
                if expected is None or monotonic() > end:
                    return
                await asyncio.sleep(0.1)

        return snap_compare(app, run_before=until_drawn, **how)

    return compare


def _stored(snapshot: SnapshotAssertion) -> str | bytes | None:
    """The picture a test is compared with; None if there is none, or if it is about to be renewed."""
    if snapshot.session.update_snapshots:
        return None
    try:
        return snapshot.extension.read_snapshot(
            test_location=snapshot.test_location, index=snapshot.index, session_id=str(id(snapshot.session))
        )
    except SnapshotDoesNotExist:
        return None
