"""Clients of OpenAI's form on sessions: the `openai` package itself, and what it would not send."""

from __future__ import annotations

import base64
import http.client
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.app.service.conftest import SCRIPT
from tests.support.images import png
from tests.support.model_process import ServerProcess
from tests.support.service import Head, Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("openai")
    home = folder / "home"
    home.mkdir()
    (home / "config.yaml").write_text("serve:\n  approval_timeout: 0.5\n")
    with ServerProcess(SCRIPT, folder) as model, Service(home, model.base_url) as running:
        yield running


@pytest.fixture(scope="module")
def head(service: Service) -> Head:
    return service.device("talk", "client")


@pytest.fixture(scope="module")
def client(head: Head) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{head.service.url}/v1", api_key=head.token, max_retries=0) as made:
        yield made


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert "hermes" in [each.id for each in client.models.list()]


def test_a_chat_is_a_session_that_can_be_gone_on_with(client: openai.OpenAI, head: Head) -> None:
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "greet"}]
    answer = client.chat.completions.with_raw_response.create(model="hermes", messages=asked)  # type: ignore[arg-type]
    session = answer.headers["x-hermes-session"]
    assert answer.parse().choices[0].message.content == "Hi."
    again = client.chat.completions.create(
        model="hermes",
        messages=[{"role": "user", "content": "greet"}, {"role": "user", "content": "clarify"}],
        extra_headers={"X-Hermes-Session": session},
    )
    # The question expires: nobody was there to answer.
    assert again.choices[0].message.content == "Thanks." and again.choices[0].finish_reason == "stop"
    history = head.get(f"/api/sessions/{session}/history")[1]["events"]
    assert [each["text"] for each in history if each["type"] == "user_message"][1:] == ["clarify"]


def test_a_chat_is_streamed(client: openai.OpenAI) -> None:
    pieces = list(
        client.chat.completions.create(
            model="hermes", messages=[{"role": "user", "content": "greet"}], stream=True
        )
    )
    assert "".join(each.choices[0].delta.content or "" for each in pieces) == "Hi."
    assert pieces[-1].choices[0].finish_reason == "stop"


@pytest.mark.thorough
def test_responses_follow_each_other(client: openai.OpenAI) -> None:
    first = client.responses.create(model="hermes", input="greet")
    assert first.output_text == "Hi."
    with client.responses.stream(model="hermes", input="greet", previous_response_id=first.id) as stream:
        kinds = [each.type for each in stream]
        assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
    assert first.id.rpartition("_")[0] in stream.get_final_response().id
    with pytest.raises(openai.NotFoundError):
        forged = f"{first.id.rpartition('_')[0]}_{'0' * 12}"
        client.responses.create(model="hermes", input="greet", previous_response_id=forged)


def test_what_needs_a_yes_is_a_no_when_nobody_comes(client: openai.OpenAI, head: Head) -> None:
    told = client.chat.completions.create(model="hermes", messages=[{"role": "user", "content": "ask"}])
    assert told.choices[0].message.content == "Pushed or not."
    sessions = head.get("/api/sessions")[1]["sessions"]
    events = head.events(sessions[0]["id"])
    assert [each["outcome"] for each in events if each["type"] == "request_resolved"] == ["expired"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (
            "chat/completions",
            {"model": "hermes", "messages": [{"role": "user", "content": "x"}], "tools": [{}]},
            400,
        ),
        ("chat/completions", {"model": "no-such", "messages": [{"role": "user", "content": "x"}]}, 404),
        ("chat/completions", {"model": "hermes", "messages": []}, 400),
        ("chat/completions", {"model": "hermes", "messages": [{"role": "tool", "content": "x"}]}, 400),
        ("chat/completions", {"messages": [{"role": "user", "content": "x"}]}, 400),
        ("responses", {"model": "hermes", "input": "x", "previous_response_id": "resp_../x_1"}, 404),
        ("responses", {"model": "hermes", "input": "x", "previous_response_id": "resp_abc"}, 404),
        ("responses", {"model": "hermes", "input": "x", "previous_response_id": "resp_"}, 404),
        ("responses", {"model": "hermes", "input": "x", "previous_response_id": "chatcmpl-1"}, 404),
        ("responses", {"model": "hermes", "input": "x", "previous_response_id": ""}, 404),
        ("responses", {"model": "hermes", "input": "x", "previous_response_id": 7}, 400),
        (
            "chat/completions",
            {"model": "hermes", "messages": [{"role": "user", "content": "x"}], "n": 2},
            400,
        ),
        (
            "chat/completions",
            {
                "model": "hermes",
                "messages": [{"role": "user", "content": "x"}],
                "response_format": {"type": "json_object"},
            },
            400,
        ),
        ("responses", {"model": "hermes", "input": [{"role": "user", "content": [{"image": 1}]}]}, 400),
    ],
)
def test_what_is_not_taken_is_said(path: str, body: dict[str, object], status: int, head: Head) -> None:
    code, told = head.post(f"/v1/{path}", body)
    assert code == status and told["error"]["message"]


def test_an_image_reaches_the_model_and_what_was_used_is_counted(client: openai.OpenAI, head: Head) -> None:
    url = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    parts = [{"type": "text", "text": "greet"}, {"type": "image_url", "image_url": {"url": url}}]
    answer = client.chat.completions.with_raw_response.create(
        model="hermes",
        messages=[{"role": "user", "content": parts}],  # type: ignore[arg-type, list-item]
    )
    usage = answer.parse().usage
    assert usage is not None and usage.total_tokens == usage.prompt_tokens + usage.completion_tokens > 0
    told = head.get(f"/api/sessions/{answer.headers['x-hermes-session']}/history")[1]["events"]
    assert [each["attachments"][0]["name"] for each in told if each["type"] == "user_message"] == [
        "image-1.png"
    ]
    pieces = list(
        client.chat.completions.create(
            model="hermes",
            messages=[{"role": "user", "content": "greet"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert pieces[-1].choices == [] and pieces[-1].usage is not None and pieces[-1].usage.total_tokens > 0
    seen = [{"type": "input_text", "text": "greet"}, {"type": "input_image", "image_url": url}]
    first = client.responses.create(model="hermes", input=[{"role": "user", "content": seen}])  # type: ignore[arg-type, list-item, misc]
    second = client.responses.create(model="hermes", input="greet", previous_response_id=first.id)
    assert first.output_text == "Hi." and second.previous_response_id == first.id
    assert client.models.retrieve("hermes").id == "hermes"


def test_errors_of_the_doors_have_the_form_that_clients_read(client: openai.OpenAI) -> None:
    with pytest.raises(openai.AuthenticationError) as wrong:
        client.with_options(api_key="sk-wrong").models.list()
    assert isinstance(wrong.value.body, dict) and wrong.value.body["type"] == "authentication_error"
    with pytest.raises(openai.NotFoundError) as absent:
        client.embeddings.create(model="hermes", input="x")
    assert isinstance(absent.value.body, dict) and absent.value.body["message"] == "There is nothing here."
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such")


def test_a_refusal_before_the_body_came_says_that_the_connection_ends(head: Head) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", head.service.port)
    connection.putrequest("POST", "/v1/embeddings")
    connection.putheader("Authorization", f"Bearer {head.token}")
    connection.putheader("Content-Length", "2")
    connection.endheaders()
    try:
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("Connection")) == (404, "close")
    finally:
        connection.close()


@pytest.mark.thorough
def test_a_device_that_may_only_look_completes_nothing(service: Service, tmp_path: Path) -> None:
    body = {"model": "hermes", "messages": [{"role": "user", "content": "greet"}]}
    assert service.device("look").post("/v1/chat/completions", body)[0] == 403
