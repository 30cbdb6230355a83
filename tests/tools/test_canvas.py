"""The tool `canvas`: versions, edits, and what follows from the results of calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool_context import FakeContext, deny_all
from tools import canvas_tool
from tools.registry import registry
from tools.services.canvases import canvases_of, changed_canvases

assert canvas_tool is not None
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def context(tmp_path: Path) -> FakeContext:
    (tmp_path / "work").mkdir()
    return FakeContext(tmp_path / "work")


async def show(context: FakeContext, **arguments: Any) -> dict[str, Any]:
    return await registry.dispatch("canvas", {"name": "plot", **arguments}, context)


async def test_versions_follow_from_the_results_of_calls(context: FakeContext) -> None:
    told = [
        await show(context, content="<svg><rect/></svg>", title="Sales", alt="one bar"),
        await show(context, action="edit", old="<rect/>", new="<circle/>"),
        await show(context, name="other", content="<p>x</p>"),
        await show(context, action="edit", old="<circle/>", new="<path/>"),
        await show(context, action="undo"),
    ]
    assert [(each["canvas"], each["version"]) for each in told[:4]] == [
        ("plot", 1),
        ("plot", 2),
        ("other", 1),
        ("plot", 3),
    ]
    assert (told[1]["kind"], told[1]["title"], told[1]["words"]) == ("svg", "Sales", "one bar")
    found = canvases_of(json.dumps(each) for each in told)
    assert found == context.canvases.canvases()
    assert [(each.name, len(each.versions)) for each in found] == [("other", 1), ("plot", 2)]
    assert await context.canvases.read(found[1].versions[-1]) == b"<svg><circle/></svg>"
    # Back to the first call: the second canvas goes, the first one has its first version.
    before = canvases_of([json.dumps(told[0])])
    assert [(each.name, len(each.versions)) for each in changed_canvases(found, before)] == [
        ("other", 0),
        ("plot", 1),
    ]
    assert [len(each.versions) for each in context.shown] == [1, 2, 1, 3, 2]  # type: ignore[attr-defined]


async def test_results_that_are_none_of_ours_make_no_canvas() -> None:
    broken = [
        '{"error": "no"}',
        "[]",
        "nonsense",
        '{"canvas": "a", "version": 1, "kind": "exe"}',
        "[" * 5_000,
    ]
    assert canvases_of(broken) == ()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "Give `content`"),
        ({"content": "x", "path": "a.svg"}, "one of them"),
        ({"name": "../x", "content": "x"}, "1 to 60 letters"),
        ({"name": "a" * 61, "content": "x"}, "1 to 60 letters"),
        ({"action": "edit", "old": "a", "new": "b"}, "show it first"),
        ({"action": "undo"}, "no canvas plot"),
        ({"action": "close"}, "no canvas plot"),
        ({"path": "a.exe"}, "files that end with"),
        ({"path": "gone.svg"}, "not there"),
        ({"content": "x" * 2_000_001}, "at most 2 MB"),
        (
            {"content": "<svg><rect></svg>"},
            "well-formed XML, so no browser draws it: mismatched tag at line 1",
        ),
        ({"content": "<svg width=4></svg>"}, "not well-formed"),
    ],
)
async def test_what_cannot_be_shown_is_said(
    context: FakeContext, arguments: dict[str, Any], words: str
) -> None:
    assert words in (await show(context, **arguments))["error"]
    assert context.canvases.canvases() == ()


async def test_a_piece_to_edit_is_there_exactly_once(context: FakeContext) -> None:
    await show(context, content="<p>a a</p>")
    assert "2 times" in (await show(context, action="edit", old="a", new="b"))["error"]
    assert "is not in it" in (await show(context, action="edit", old="c", new="b"))["error"]
    assert len(context.canvases.canvases()[0].versions) == 1


async def test_a_file_passes_the_gate_first(context: FakeContext) -> None:
    (context.workspace / "plot.png").write_bytes(PNG)
    (context.workspace / "bad.png").write_bytes(b"MZ")
    assert (await show(context, path="plot.png"))["kind"] == "image"
    assert "not a png" in (await show(context, path="bad.png"))["error"]
    assert [type(each).__name__ for each in context.actions] == ["ReadPath", "ReadPath"]
    context.verdict = deny_all
    assert (await show(context, path="plot.png"))["status"] == "blocked"
    assert len(context.canvases.canvases()[0].versions) == 1


async def test_closing_ends_it_and_the_name_begins_anew(context: FakeContext) -> None:
    told = [await show(context, content="<p>1"), await show(context, action="close")]
    assert canvases_of(json.dumps(each) for each in told) == context.canvases.canvases() == ()
    assert (await show(context, content="<p>2"))["version"] == 1
