"""One service, and one page of it, for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.chromium import Browser
from tests.support.model_process import ServerProcess
from tests.support.service import Head, Service

SCRIPT = """
SCRIPTS = {
    "ask": [call("terminal", command="git push origin main"), say("Pushed or not.")],
    "clarify": [
        call("clarify", question="Which?", choices=["red", "blue"], allow_freetext=False),
        say("Thanks."),
    ],
    "work": [call("write_file", path="new.txt", content="one\\\\ntwo\\\\n"), say("Written.")],
    "greet": [say("Hi.")],
}

def script(request):
    import json
    asked = [each for each in request.messages if each.get("role") == "user"]
    last = json.dumps(asked[-1]["content"])
    name = next((word for word in SCRIPTS if word in last), "greet")
    steps = 0
    for each in reversed(request.messages):
        if each.get("role") == "user":
            break
        steps += each.get("role") == "assistant"
    found = SCRIPTS[name][min(steps, len(SCRIPTS[name]) - 1)]
    return found
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service with a scripted model."""
    folder = tmp_path_factory.mktemp("service")
    with ServerProcess(SCRIPT, folder) as model, Service(folder / "home", model.base_url) as running:
        yield running


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to work in."""
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def head(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """A program at a service whose model answers from the `SCRIPT` of the module."""
    folder, script = tmp_path_factory.mktemp("page"), request.module.SCRIPT
    with ServerProcess(script, folder) as model, Service(folder / "home", model.base_url) as running:
        yield running.device("approve", "program")


@pytest.fixture(scope="module")
def browser(head: Head, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The page of that service, paired and without a session, in a real headless Chromium."""
    with Browser(tmp_path_factory.mktemp("chromium")) as running:
        running.open(f"{head.service.url}/#pair={head.service.code('approve')}")
        running.until("document.querySelector('.welcome') && !document.querySelector('#prompt').hidden")
        yield running
