"""What every test run needs."""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from textual.pilot import Pilot

from tests.support.steady import steady_pause, steady_press

# A run that was started in the background inherits an ignored ctrl+c, one under `nohup` an ignored end of
# the terminal; the programs under test must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How many examples a property is tried on; one that is dear to try names its own number. The usual run tries
# the same ones each time, so that nothing but a change makes it fail; `make test-thorough` looks for others.
# Neither is held to a time, which depends on what else the machine does.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=50, derandomize=True, **UNTIMED)
settings.register_profile("thorough", max_examples=500, derandomize=False, **UNTIMED)
settings.load_profile("quick")

setattr(Pilot, "pause", steady_pause(Pilot.pause))  # noqa: B010
setattr(Pilot, "press", steady_press(Pilot.press))  # noqa: B010


def pytest_collection(session: pytest.Session) -> None:
    """Let each worker of a run begin to compile at another file, so that together they compile each once.

    All of them import every file in any case, and in the same order they would all compile the same one.
    A module that cannot be imported is told of where pytest itself imports it.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
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


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """The program sets a umask of its own when it starts, and some tests start it in this process."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def snap_compare(snap_compare: Callable[..., bool]) -> Callable[..., bool]:
    """The picture of what is true now: lists that repaint a few times a second do it once more before."""

    def compare(app: Any, run_before: Callable[[Pilot[Any]], Any] | None = None, **how: Any) -> bool:
        async def then_repaint(pilot: Pilot[Any]) -> None:
            done = run_before(pilot) if run_before is not None else None
            if inspect.isawaitable(done):
                await done
            for widget in pilot.app.screen.walk_children():
                widget.refresh()
            await pilot.pause()

        return snap_compare(app, run_before=then_repaint, **how)

    return compare
