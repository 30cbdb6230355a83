"""What servers tell of their models: windows, limits, prices, and whether a template knows tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.events import Noticed, ToolFinished, UsageChanged
from agent.model.catalog import UNKNOWN, ModelInfo
from agent.model.providers import UnusableModelError
from agent.model.server_watch import ServerFacts, entry_of, facts_of, facts_of_props, list_without
from tests.support.engines import Bench, bench
from tests.support.messages_form import MessagesForm
from tests.support.model_server import by_step, call, say

VLLM = {"id": "org/tiny", "object": "model", "owned_by": "vllm", "max_model_len": 8192}
LLAMACPP = {
    "id": "tiny.gguf",
    "aliases": ["tiny"],
    "owned_by": "llamacpp",
    "meta": {"n_ctx": 4096, "n_ctx_train": 32768},
}
LITELLM = {"id": "team/m", "owned_by": "openai", "max_input_tokens": 200_000, "max_output_tokens": 64_000}
NO_TOOLS = {"supports_tools": False, "supports_tool_calls": False, "supports_system_role": True}


def listed(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"object": "list", "data": list(entries)}


@pytest.mark.parametrize(
    ("entry", "facts"),
    [
        (VLLM, ServerFacts(context_window=8192)),
        (LLAMACPP, ServerFacts(context_window=4096)),
        (LITELLM, ServerFacts(context_window=200_000, max_output=64_000)),
        ({"id": "m", "loaded_context_length": 6_000, "max_context_length": 131_072}, 6_000),
        ({"id": "m", "context_window": 131_072, "max_completion_tokens": 8_000}, 131_072),
        ({"id": "m", "context_length": 32_768}, 32_768),
        ({"id": "m", "context_length": 262_144, "top_provider": {"context_length": 65_536}}, 65_536),
        ({"id": "m", "meta": {"n_ctx_train": 8192}}, None),
        ({"id": "m", "max_model_len": 0}, None),
        ({"id": "m", "max_model_len": True}, None),
        ({"id": "m", "max_model_len": "8192"}, None),
        ({"id": "m", "meta": None}, None),
    ],
)
def test_the_fields_of_real_servers_are_read(entry: dict[str, Any], facts: Any) -> None:
    read = facts_of(entry)
    assert (read if isinstance(facts, ServerFacts) else read.context_window) == facts


def test_prices_a_token_become_prices_a_million() -> None:
    openrouter = {"pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "3e-7"}}
    facts = facts_of(openrouter)
    assert (facts.input_price, facts.output_price, facts.cached_price) == (3, 15, 0.3)
    litellm = {"model_info": {"input_cost_per_token": 1e-06, "output_cost_per_token": 5e-06}}
    assert (facts_of(litellm).input_price, facts_of(litellm).output_price) == (1, 5)
    nothing = {"model_info": {"input_cost_per_token": 0, "output_cost_per_token": 0}}
    assert facts_of(nothing) == ServerFacts()


def test_props_tell_window_sight_and_tools() -> None:
    props = {
        "default_generation_settings": {"n_ctx": 2048},
        "modalities": {"vision": False, "audio": False},
        "chat_template_caps": NO_TOOLS,
    }
    assert facts_of_props(props) == ServerFacts(context_window=2048, images=False, tools=False)
    assert facts_of_props({"chat_template_caps": {"supports_tools": True}}).tools is True
    for odd in ([], None, {"chat_template_caps": []}, {"modalities": {"vision": "no"}}):
        assert facts_of_props(odd) == ServerFacts()


def test_only_a_server_with_one_model_for_all_names_means_it_by_any_name() -> None:
    assert entry_of(listed(LLAMACPP), "whatever") == LLAMACPP
    assert entry_of(listed(LLAMACPP, VLLM), "tiny") == LLAMACPP
    assert entry_of(listed(VLLM), "whatever") == {}
    for odd in (None, [], {}, {"data": None}, {"data": [None, 3]}, "x"):
        assert entry_of(odd, "m") == {}


@pytest.mark.parametrize(
    ("model", "missing"),
    [
        ("org/tiny", False),
        ("tiny", False),
        ("qwen3", False),
        ("wild/anything", False),
        ("qwen3:4b", True),
        ("org/tine", True),
    ],
)
def test_a_model_counts_as_listed_by_each_name_that_servers_take(model: str, missing: bool) -> None:
    answer = listed(VLLM, {"id": "qwen3:latest"}, {"id": "wild/*"})
    assert list_without(answer, model) == (("org/tiny", "qwen3:latest", "wild/*") if missing else ())


def test_a_server_that_takes_any_name_or_lists_none_lacks_no_model() -> None:
    for answer in (listed(LLAMACPP), listed(), None, {"data": [None, 3]}):
        assert list_without(answer, "m") == ()


async def test_a_maker_that_neither_provider_nor_list_has_is_refused_with_both_ways_on(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, lambda _request: say("Hi.")) as b:
        b.server.documents = {"/v1/models": listed(VLLM, {"id": "plain"})}
        prepared(b, "plain")
        b.environ["HERMES_MODEL"] = "nosuch/tinny"
        with pytest.raises(UnusableModelError) as refused:
            async with b.engine():
                pass
        assert str(refused.value) == (
            "There is no provider 'nosuch', and the list of near does not have nosuch/tinny; "
            "did you mean near/org/tiny? `hermes providers` lists the providers; "
            "write near/nosuch/tinny to ask near for it all the same."
        )


@pytest.mark.parametrize(
    ("model", "mend"),
    [("near/nope", ", only org/tiny, plain."), ("org/tine", "; did you mean near/org/tiny?")],
)
async def test_a_model_that_its_server_does_not_list_is_used_and_said_at_once(
    tmp_path: Path, model: str, mend: str
) -> None:
    async with bench(tmp_path, lambda _request: say("Hi.")) as b:
        b.server.documents = {"/v1/models": listed(VLLM, {"id": "plain"})}
        prepared(b, "plain")
        b.environ["HERMES_MODEL"] = model
        async with b.engine() as engine:
            said = [event.text for event in b.seen(Noticed) if event.kind == "warning"]
            name = model.removeprefix("near/")
            assert said == [
                f"The list of near does not have {name}{mend} Lists can be out of date, so it is asked for "
                "it all the same."
            ]
            assert (await engine.run("hello")).outcome == "done"


async def test_a_model_that_the_settings_describe_needs_no_list(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _request: say("Hi.")) as b:
        b.server.documents = {"/v1/models": listed(VLLM)}
        prepared(b, "hidden", ", models: {hidden: {context_window: 50000}}")
        async with b.engine():
            assert not [event for event in b.seen(Noticed) if event.kind == "warning"]


def test_settings_come_first_and_what_the_server_told_is_marked() -> None:
    known = ModelInfo(context_window=1_000, input_price=2.0)
    chosen = ModelInfo(context_window=1_000)
    info = ServerFacts(context_window=9_000, max_output=500).complete(known, chosen)
    assert (info.context_window, info.max_output, info.input_price) == (1_000, 500, 2.0)
    assert info.told == {"max_output"}
    assert ServerFacts().complete(known, UNKNOWN) == known


def prepared(b: Bench, model: str, more: str = "", format_name: str = "chat") -> None:
    b.config(
        f"model: {{name: near/{model}, retries: 2}}\n"
        f"providers: {{near: {{base_url: '{b.server.base_url}', format: {format_name}{more}}}}}"
    )
    b.environ |= {"HERMES_MODEL": "", "OPENAI_BASE_URL": "", "OPENAI_API_KEY": ""}


def windows(b: Bench) -> list[tuple[int | None, bool]]:
    return [(event.context_window, event.window_told) for event in b.seen(UsageChanged)]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("entry", "model", "window"),
    [(VLLM, "org/tiny", 8192), (LLAMACPP, "tiny.gguf", 4096), (LITELLM, "team/m", 200_000)],
    ids=["vllm", "llamacpp", "litellm"],
)
async def test_the_window_a_server_tells_is_used_marked_and_asked_for_once(
    tmp_path: Path, entry: dict[str, Any], model: str, window: int
) -> None:
    async with bench(tmp_path, lambda _request: say("Hi.")) as b:
        b.server.documents = {"/v1/models": listed(entry, {"id": "other", "max_model_len": 1_000})}
        prepared(b, model)
        async with b.engine() as engine:
            await engine.run("hello")
            await engine.run("again")
            table = await engine.context()
        assert windows(b) == [(window, True)] * 2
        assert (table.window, table.window_told) == (window, True)
        assert b.server.looked_up.count("/v1/models") == 1
        assert b.server.refusals == []


async def test_settings_win_over_what_a_server_tells(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _request: say("Hi.")) as b:
        b.server.documents = {"/v1/models": listed(VLLM)}
        prepared(b, "org/tiny", ", models: {org/tiny: {context_window: 64000}}")
        await b.turn("hello")
        assert windows(b) == [(64_000, False)]


async def test_a_server_that_was_restarted_with_another_window_is_asked_again(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _request: say("Hi.")) as b:
        b.server.documents = {"/v1/models": listed(VLLM)}
        prepared(b, "org/tiny")
        async with b.engine() as engine:
            await engine.run("hello")
            await b.server.stop()
            b.server.documents = {"/v1/models": listed({**VLLM, "max_model_len": 30_000})}
            await b.server.start()
            await engine.run("again")
            await engine.run("and again")
        assert [window for window, _ in windows(b)] == [8192, 30_000, 30_000]
        assert b.server.looked_up.count("/v1/models") == 2


async def test_a_server_that_is_started_late_is_asked_then(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _request: say("Hi.")) as b:
        b.server.documents = {"/v1/models": listed(VLLM)}
        prepared(b, "org/tiny")
        await b.server.stop()
        async with b.engine() as engine:
            await b.server.start()
            await engine.run("hello")
        assert windows(b) == [(8192, True)]


async def test_a_server_that_answers_nothing_sensible_is_left_alone(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _request: say("Hi.")) as b:
        b.server.documents = {"/v1/models": ["what", None]}
        prepared(b, "org/tiny")
        assert (await b.turn("hello")).outcome == "done"
        assert windows(b) == [(None, False)]


@pytest.mark.sample(1)
@pytest.mark.parametrize("chosen", ["", ", tool_mode: native"])
async def test_calls_travel_as_text_where_the_template_knows_no_tools(tmp_path: Path, chosen: str) -> None:
    async with bench(tmp_path, [say("Hi.")]) as b:
        b.server.documents = {
            "/v1/models": listed(LLAMACPP),
            "/props": {"chat_template_caps": NO_TOOLS, "default_generation_settings": {"n_ctx": 4096}},
        }
        prepared(b, "tiny.gguf", chosen)
        await b.turn("hello")
        body = b.server.requests[0].body
        told = [each.text for each in b.seen(Noticed) if "knows no tools" in each.text]
        if chosen:
            assert "tools" in body and not told
        else:
            assert "tools" not in body
            assert "read_file" in body["messages"][0]["content"]
            assert len(told) == 1 and "near/tiny.gguf" in told[0]


async def test_a_count_far_below_what_was_sent_means_that_tools_were_dropped(tmp_path: Path) -> None:
    answers = iter(("I cannot see files.", "In words.", "More."))

    def answer(request: Any) -> Any:
        read = len(json.dumps(request.body["messages"])) // 5
        return say(next(answers), usage={"prompt_tokens": read, "completion_tokens": 5})

    async with bench(tmp_path, answer) as b:
        prepared(b, "small")
        async with b.engine() as engine:
            ended = await engine.run("What is in a.txt?")
            await engine.run("And in b.txt?")
        assert ended.text == "In words."
        assert ["tools" in each.body for each in b.server.requests] == [True, False, False]
        told = [each.text for each in b.seen(Noticed) if "as text" in each.text]
        assert len(told) == 1 and "tokens of" in told[0]
        assert b.server.refusals == []


async def test_a_server_that_is_known_to_count_is_believed_however_few_tokens_it_read(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 40, "completion_tokens": 5}
    async with bench(tmp_path, [say("I cannot see files.", usage=usage), say("In words.", usage=usage)]) as b:
        b.server.documents = {"/v1/models": listed(LLAMACPP)}
        prepared(b, "tiny.gguf")
        assert (await b.turn("What is in a.txt?")).text == "In words."
        assert ["tools" in each.body for each in b.server.requests] == [True, False]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "usage",
    [
        None,
        {"prompt_tokens": 40, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 30}},
        {"prompt_tokens": 0, "completion_tokens": 5},
        {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    ],
)
async def test_no_count_or_one_with_a_cache_or_one_that_is_made_up_means_nothing(
    tmp_path: Path, usage: Any
) -> None:
    async with bench(tmp_path, [say("Hi.", usage=usage)]) as b:
        prepared(b, "small")
        assert (await b.turn("hello")).text == "Hi."
        assert len(b.server.requests) == 1


async def test_a_gateway_names_prices_of_the_model_behind_it(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 20_000, "completion_tokens": 1_000, "total_tokens": 21_000}
    info = {"input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05, "max_input_tokens": 200_000}
    priced = {"model_name": "team/m", "litellm_params": {"model": "anthropic/x"}, "model_info": info}
    async with bench(tmp_path, [say("Hi.", usage=usage)]) as b:
        b.server.documents = {"/v1/models": listed(LITELLM), "/model/info": {"data": [priced]}}
        prepared(b, "team/m")
        await b.turn("hello")
        assert b.seen(UsageChanged)[0].session_cost == pytest.approx(0.06 + 0.015)


async def test_thinking_that_a_small_window_leaves_no_room_for_is_named_once(tmp_path: Path) -> None:
    model = "claude-sonnet-4-5"
    forms = {"/v1/messages": MessagesForm()}
    async with bench(tmp_path, lambda _request: say("Hi."), forms=forms) as b:
        b.server.documents = {"/v1/models": listed({"id": model, "max_model_len": 8_000})}
        prepared(b, f"{model}, thinking: high", format_name="anthropic")
        async with b.engine() as engine:
            await engine.run("hello")
            await engine.run("again")
        assert [event.text for event in b.seen(Noticed) if event.kind == "warning"] == [
            f"{model} answers without thinking: its replies end at 1,500 tokens, which leaves no room. "
            "With model.max_output at 2,048 or more it thinks, where its window has room for that."
        ]
        prepared(b, f"{model}, thinking: high, max_output: 2048", format_name="anthropic")
        async with b.engine() as engine:
            await engine.run("hello")
        assert ["thinking" in request.body for request in b.server.requests] == [
            False,
            False,
            True,
        ]


async def test_a_dialect_of_ones_own_that_cannot_be_used_is_named_in_the_session(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _request: say("Hi.")) as b:
        prepared(b, "scripted")
        folder = b.home / "dialects"
        folder.mkdir()
        (folder / "mine.yaml").write_text("match: {providers: [near]}\nroles: {alternat: true}\n")
        async with b.engine():
            (said,) = [event.text for event in b.seen(Noticed) if event.kind == "warning"]
    file = folder / "mine.yaml"
    assert (
        said
        == f"The dialect in {file} is not used: it has a mistake at 'roles.alternat': there is no such key."
    )


async def test_the_model_of_an_agent_that_no_provider_has_is_refused_to_who_sends_it(tmp_path: Path) -> None:
    script = by_step([call("delegate_task", goal="count", agent="counter"), say("Over.")])
    async with bench(tmp_path, script) as b:
        b.server.documents = {"/v1/models": listed(VLLM, {"id": "plain"})}
        prepared(b, "plain")
        (b.home / "agents").mkdir()
        kind = "---\nname: counter\ndescription: Counts.\nmodel: nosuch/tinny\n---\nCount.\n"
        (b.home / "agents" / "counter.md").write_text(kind)
        await b.turn("go")
        (result,) = [json.loads(each.result) for each in b.seen(ToolFinished)]
    assert result["error"].startswith(
        "There is no provider 'nosuch', and the list of near does not have nosuch/tinny; did you mean "
        "near/org/tiny?"
    )
