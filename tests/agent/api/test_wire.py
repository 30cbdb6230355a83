"""What crosses the interface comes out as it went in, and nothing else crosses."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import events
from agent.api.remote import (
    CALLS,
    CASTS,
    MODULES,
    VIEW,
    WireError,
    decode,
    decode_error,
    encode,
    encode_error,
)
from agent.core.store.branches import OutlineRow
from agent.core.store.nodes import Node
from agent.errors import HermesError, ModelError
from agent.events import Event
from agent.integrations.mcp.service import McpService
from agent.model.detect import DetectedServer
from agent.model.providers import NoModelError
from agent.session.attempts.parallel_attempts import ParallelAttempts
from agent.session.conversation.stored_sessions import StoredSessions
from agent.session.engine import Engine
from agent.session.history.navigation import HistoryNavigation
from agent.session.pending_requests import Approvals
from agent.session.subagents.agents import Agents
from agent.session.wiring.session_plugins import PluginCommands
from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind


def _said(text: str) -> Node:
    return Node(id=1, session="s", parent=None, kind="user", content=text, data={"step": 3}, created=2.0)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
DATA = st.recursive(
    PLAIN | st.binary() | st.builds(Path, st.just("/a/ü")) | st.sampled_from(PathKind),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(), inner)
        | st.dictionaries(st.integers() | st.tuples(st.text(), st.integers()), inner)
        | st.frozensets(st.integers())
        | st.text().map(_said)
    ),
    max_leaves=12,
)


@pytest.mark.thorough
@given(DATA)
def test_data_comes_out_as_it_went_in(value: Any) -> None:
    assert decode(json.loads(json.dumps(encode(value)))) == value


def test_classes_keep_what_they_are() -> None:
    row = OutlineRow(1, None, "user", 2.0, "x", None, "", "", "", None, 0)
    change = PathChange("a", None, PathEntry(PathKind.FILE, 0o644, 3, 0, "d" * 64))
    there = decode(json.loads(json.dumps(encode((row, change)))))
    assert there == (row, change) and isinstance(there[0], OutlineRow)


@pytest.mark.parametrize(
    "value",
    [
        {"~c": "subprocess:Popen", "~f": {"args": ["true"]}},
        {"~c": "agent.core.store.nodes:title_of", "~f": {}},
        {"~c": "agent.events:asyncio", "~f": {}},
        {"~c": "agent.core.store.nodes:Node", "~f": {"id": 1, "surplus": 2}},
        {"~e": ["agent.workspace.checkpoints.entries:Kind", "NOTHING"]},
        {"~x": 1},
        {"~b": 7},
    ],
)
def test_what_is_no_data_of_ours_is_refused(value: Any) -> None:
    with pytest.raises(WireError):
        decode(value)


def test_what_may_not_cross_is_not_written() -> None:
    for value in (object(), print, HermesError("x"), HermesError):
        with pytest.raises(WireError):
            encode(value)


@pytest.mark.parametrize(
    "error",
    [
        HermesError("no"),
        ModelError("auth", "a key is wanted", status=401),
        NoModelError(("A_KEY",), [DetectedServer("ollama", "http://127.0.0.1:1/v1", ("m",))]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_keeps_class_words_and_facts(error: HermesError) -> None:
    there = decode_error(json.loads(json.dumps(encode_error(error))))
    assert (type(there), str(there), vars(there)) == (type(error), str(error), vars(error))


PORTS: dict[str, type] = {
    "": Engine,
    "history": HistoryNavigation,
    "agents": Agents,
    "attempts": ParallelAttempts,
    "approvals": Approvals,
    "plugins": PluginCommands,
    "stored": StoredSessions,
    "servers": McpService,
}


def _typed_names(module: str) -> dict[str, Any]:
    """What a module imports for its annotations only."""
    source = Path(str(importlib.import_module(module).__file__)).read_text("utf-8")
    return {
        alias.asname or alias.name: getattr(importlib.import_module(node.module), alias.name)
        for block in ast.parse(source).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def _spaces() -> dict[str, Any]:
    """Every name that annotations of the interface may use."""
    found: dict[str, Any] = {**vars(typing)}
    for name in sorted(MODULES):
        found |= vars(importlib.import_module(name))
    for port in PORTS.values():
        found |= _typed_names(port.__module__)
    return found


def _is_data(hint: Any) -> bool:
    known = isinstance(hint, type)
    return known and (dataclasses.is_dataclass(hint) or hasattr(hint, "_fields") or issubclass(hint, Enum))


def _classes(hint: Any) -> Iterator[type[Any]]:
    if _is_data(hint):
        yield hint
    for inner in typing.get_args(hint):
        yield from _classes(inner)


def test_everything_the_interface_names_may_cross() -> None:
    spaces = _spaces()

    def hints(what: Any) -> dict[str, Any]:
        module = importlib.import_module(what.__module__)
        return typing.get_type_hints(what, globalns={**spaces, **vars(module)})

    def told(kind: type[Any]) -> Iterator[Any]:
        fields = (
            {each.name: each for each in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else {}
        )
        for name, hint in hints(kind).items():
            if name not in fields or fields[name].metadata.get("json", True):
                yield hint

    waiting: list[type[Any]] = [
        kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)
    ]
    for port, methods in CALLS.items():
        for name in methods.split():
            method = getattr(PORTS[port], name)
            assert inspect.iscoroutinefunction(method), name
            waiting += [each for hint in hints(method).values() for each in _classes(hint)]
    for name in (*CASTS, *VIEW):
        method = getattr(Engine, name, None)
        function = method.fget if isinstance(method, property) else method
        if function is not None:
            waiting += [each for hint in hints(function).values() for each in _classes(hint)]
    seen: set[type[Any]] = set()
    while waiting:
        kind = waiting.pop()
        if kind not in seen:
            seen.add(kind)
            waiting += [each for hint in told(kind) for each in _classes(hint)]
    assert len(seen) > 60
    assert sorted({kind.__module__ for kind in seen} - MODULES) == []
