"""What every test of the application needs."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _colour_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that shows everything, whatever the tests are run in."""
    monkeypatch.setenv("COLORTERM", "truecolor")
    for name in ("NO_COLOR", "HERMES_REDUCED_MOTION"):
        monkeypatch.delenv(name, raising=False)
