"""What fills the window: every byte belongs to one layer, and nothing unknown becomes a number."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.messages import Message
from agent.knowledge.context.context_table import Break, ContextTable, Sent, build_table, part_records
from agent.knowledge.context.layer import Part, joined
from agent.knowledge.context.message_history import conversation
from agent.model.codecs import codec_for
from agent.model.formats.chat import FORMAT as CHAT
from agent.model.protocol import ToolSpec
from agent.model.wire_format import Wire
from tests.agent.knowledge.context.paths import PathOf
from tests.support.engines import bench
from tests.support.replies import call, say

TOOL = ToolSpec("read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
PARTS = (
    Part("Identity", "I" * 400, "/home/me/SOUL.md"),
    Part("Project", "P" * 1_200, "/home/me/shop/AGENTS.md", truncated=True),
)
SENT = Sent(Wire(CHAT, codec_for("native")), (TOOL,))


def started() -> PathOf:
    return PathOf().add("system", joined(PARTS), parts=part_records(PARTS))


def table(path: PathOf, sent: Sent = SENT, **changes: Any) -> ContextTable:
    given: dict[str, Any] = {"model": "m", "window": 10_000, "ratio": 4.0, "used": {}}
    return build_table(path.nodes, sent, **(given | changes))


def names(made: ContextTable) -> list[str]:
    return [layer.name for layer in made.layers]


def layer(made: ContextTable, name: str) -> Any:
    return next(each for each in made.layers if each.name == name)


def test_layers_come_in_the_order_they_are_sent() -> None:
    path = started().user("Look.").assistant("I look.", ["a"]).tool("a", "x" * 80)
    path.add("notice", "A file changed.", to_model=True)
    assert names(table(path)) == [
        "Identity",
        "Project",
        "Tools on offer",
        "Your messages",
        "Answers and calls",
        "Tool results",
        "Notes",
    ]


def test_a_part_names_its_file_and_what_was_left_out() -> None:
    made = table(started())
    assert layer(made, "Identity").source == "/home/me/SOUL.md"
    assert layer(made, "Identity").notes == ()
    assert layer(made, "Project").notes == ("shortened: its middle is left out",)
    assert layer(made, "Project").tokens == pytest.approx(3 * layer(made, "Identity").tokens, rel=0.02)


def test_a_prompt_stored_without_its_parts_is_one_layer() -> None:
    made = table(PathOf().add("system", "You help.").user("Hi."))
    assert names(made)[0] == "System prompt"


def test_an_empty_path_holds_only_what_is_sent_anyway() -> None:
    assert names(table(PathOf())) == ["Tools on offer"]
    assert names(table(PathOf(), Sent(Wire(CHAT, codec_for("native"))))) == []


@pytest.mark.parametrize("mode", ["native", "schema", "text"])
def test_tools_take_room_however_calls_travel(mode: Any) -> None:
    made = table(started(), Sent(Wire(CHAT, codec_for(mode)), (TOOL,)))
    assert layer(made, "Tools on offer").tokens > 20


def test_worked_examples_are_a_layer() -> None:
    sent = replace(SENT, examples=(Message("user", "How?"), Message("assistant", "So.")))
    assert layer(table(started(), sent), "Worked examples").count == 2


def test_an_unknown_window_stays_unknown() -> None:
    made = table(started(), window=None)
    assert made.window is None and made.free is None and made.used_tokens > 0


def test_a_window_that_is_too_small_has_no_negative_room() -> None:
    assert table(started(), window=10).free == 0


def test_masked_results_and_left_out_turns_are_told() -> None:
    path = started().user("one").assistant("", ["a"]).tool("a", "y" * 4_000).user("two")
    whole = layer(table(path), "Tool results").tokens
    path.add("compaction", "Made room: masked.", stage="mask", nodes=[4])
    masked = layer(table(path), "Tool results")
    assert masked.tokens < whole / 10
    assert masked.notes == ("1 masked to make room",)
    path.add("compaction", "Made room: cut.", stage="elide", **{"from": 5})
    made = table(path)
    assert layer(made, "Notes").notes == ("3 earlier messages left out",)
    assert "Tool results" not in names(made)


def test_breaks_are_told_once_and_in_order() -> None:
    path = started().user("one").add("assistant", "A", model="first", usage={"input": 12})
    path.add("compaction", "Made room.", stage="mask", nodes=[])
    path.add("assistant", "B", model="second", usage={"input": 99})
    path.add("system", "New.")
    made = table(path, breaks=[Break("Made room.", True), Break("a bug", False)])
    assert [each.reason for each in made.breaks] == [
        "Made room.",
        "Another model took over: second.",
        "The prompt or the tools changed.",
        "a bug",
    ]
    assert made.counted == 99


@pytest.mark.parametrize("usage", [None, {}, {"input": None}, {"input": 0}, {"input": "many"}, "odd"])
def test_a_count_the_provider_did_not_give_is_unknown(usage: Any) -> None:
    assert table(started().add("assistant", "A", usage=usage)).counted is None


def test_totals_keep_an_unknown_cost_unknown() -> None:
    made = table(started(), used={"requests": 2, "input": 10, "output": 3, "cached": 4, "cost": None})
    assert (made.totals.requests, made.totals.input, made.totals.cached) == (2, 10, 4)
    assert made.totals.cost is None


STEPS = st.lists(
    st.tuples(st.sampled_from(["user", "assistant", "tool", "notice"]), st.text(max_size=60)), max_size=12
)


@pytest.mark.thorough
@given(STEPS)
def test_every_byte_of_a_request_belongs_to_one_layer(steps: list[tuple[str, str]]) -> None:
    path = started()
    for index, (kind, text) in enumerate(steps):
        match kind:
            case "assistant":
                path.assistant(text, [f"c{index}"])
            case "tool":
                path.tool(f"c{index - 1}", text)
            case "notice":
                path.add("notice", text, to_model=True)
            case _:
                path.user(text)
    wire = SENT.wire
    size = len(wire.system(joined(PARTS), SENT.tools)) + len(wire.tools(SENT.tools))
    framer = wire.framer()
    messages = (turned.message for turned in conversation(path.nodes))
    size += sum(len(frame) for message in messages for frame in framer.frames(message))
    made = table(path, ratio=1.0)
    assert abs(made.used_tokens - size) <= len(PARTS)


@pytest.mark.thorough
async def test_the_engine_gives_the_table_between_and_during_turns(tmp_path: Path) -> None:
    script = [call("terminal", command="sleep 0.4; echo done"), say("Done.")]
    async with bench(tmp_path, script) as made:
        made.config("model:\n  max_output: 64\n")
        (made.workspace / "AGENTS.md").write_text("Be exact. " * 50)
        async with made.engine() as engine:
            before = await engine.context()
            assert layer(before, "Project").source == str(made.workspace / "AGENTS.md")
            assert before.window is None and before.counted is None and before.totals.requests == 0
            engine.submit("go")
            while not any(node.kind == "assistant" for node in engine.session.path):
                await engine.session.wait_for_write()
                await asyncio.sleep(0.01)
            during = await engine.context()
            assert layer(during, "Answers and calls").count == 1
            await engine.idle()
            after = await engine.context()
        assert after.totals.requests == 2
        assert layer(after, "Tool results").count == 1
        assert after.breaks == ()
        wire = made.server.requests[-1]
        assert [message["role"] for message in wire.messages].count("tool") == 1
