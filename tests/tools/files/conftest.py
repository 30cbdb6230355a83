"""What the tests of the file tools share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import tools.files.patch_tool
import tools.files.read_file_tool
import tools.files.search_tool
import tools.files.write_file_tool  # noqa: F401
from tests.support.tool_context import FakeContext
from tools.registry import registry

Call = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder of the user."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The folder the session works in."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder.resolve()


@pytest.fixture
def context(work: Path) -> FakeContext:
    return FakeContext(work)


@pytest.fixture
def call(context: FakeContext) -> Call:
    """Call a tool as the engine does: `await call("read_file", path="a.txt")`."""

    async def run(tool: str, **arguments: Any) -> dict[str, Any]:
        return await registry.dispatch(tool, arguments, context)

    return run


def names(folder: Path) -> list[str]:
    """Everything below `folder`, to see that nothing was left behind."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
