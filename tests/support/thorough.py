"""Cases that belong to thorough runs only."""

from __future__ import annotations

from typing import Any

import pytest


def thoroughly(*cases: Any) -> list[Any]:
    """These cases of a parametrized test, left out of the usual run. Their names stay as they are."""
    return [pytest.param(each, marks=pytest.mark.thorough) for each in cases]
