"""What every test run needs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A run that was started in the background inherits an ignored ctrl+c, one under `nohup` an ignored end of
# the terminal; the programs under test must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How many examples a property is tried on. `make test-thorough` chooses the other one; a property that is
# dear to try names its own number.
settings.register_profile("quick", max_examples=50, deadline=None)
settings.register_profile("thorough", max_examples=500, deadline=None)
settings.load_profile("quick")


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """The program sets a umask of its own when it starts, and some tests start it in this process."""
    before = os.umask(0o022)
    yield
    os.umask(before)
