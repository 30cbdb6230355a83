"""The model file the tests in this folder run with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.core.home import Home
from agent.errors import ConfigError
from agent.model.local.sources import model_file
from tests.support.surroundings import HERMES_HOME

_HOME = Home(Path(HERMES_HOME))
_GIVEN = os.environ.get("HERMES_TEST_MODEL", "")


@pytest.fixture(scope="session")
def model() -> Path:
    """The file `HERMES_TEST_MODEL` names, else the one `hermes model pull` fetched."""
    try:
        return model_file(_HOME, _GIVEN)
    except ConfigError as error:
        pytest.fail(f"These tests need the weights of a real model. {error}", pytrace=False)
