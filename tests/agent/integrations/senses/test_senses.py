"""The tools of the senses, in whole sessions, against strict services on loopback."""

from __future__ import annotations

import io
import json
import wave
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

from agent.core.config.schema import Settings
from agent.integrations.senses.service import readiness
from tests.support.engines import Bench, bench
from tests.support.images import png
from tests.support.replies import by_step, call, calls, refuse, say
from tests.support.services import KEYS, Services

ENVIRON = {"IMAGE_KEY": KEYS["openai"], "FAL": KEYS["fal"], "ELEVEN": KEYS["eleven"], "HASS": KEYS["home"]}


def config(services: Services, **other: Any) -> str:
    url, key = services.url, "IMAGE_KEY"
    settings: dict[str, Any] = {
        "image": {"base_url": f"{url}/v1", "api_key_env": key, "price": 0.04},
        "speech": {"base_url": f"{url}/v1", "api_key_env": key, "price": 0.015},
        "transcribe": {"base_url": f"{url}/v1", "api_key_env": key},
        "homeassistant": {"url": url, "token_env": "HASS"},
        "messages": {
            "targets": {
                "phone": {"kind": "ntfy", "url": f"{url}/alerts"},
                "team": {"kind": "webhook", "url_env": "TEAM_HOOK_TOKEN"},
            }
        },
    }
    for name, section in other.items():
        settings[name] = {**settings.get(name, {}), **section}
    return json.dumps(settings)


def results(b: Bench, request: int = -1) -> list[dict[str, Any]]:
    messages = b.server.requests[request].body["messages"]
    return [json.loads(each["content"]) for each in messages if each["role"] == "tool"]


async def ran(
    tmp_path: Path,
    services: Services,
    *made: tuple[str, dict[str, Any]],
    outcome: str = "done",
    model: str = "",
    **other: Any,
) -> tuple[Bench, list[dict[str, Any]]]:
    """The results of calls that a model makes in one step each."""
    replies = by_step([*(call(tool, **arguments) for tool, arguments in made), say("done")])
    tmp_path.mkdir(exist_ok=True)
    async with bench(tmp_path, replies) as b:
        priced = {"input_price": 0.01, "output_price": 0.01, "cached_price": 0.01, "max_output": 1_000}
        here = {"here": {"base_url": b.server.base_url, "models": {"priced": priced}}}
        b.config(config(services, providers=here, **other))
        b.environ.update({"HERMES_MODEL": model} if model else {})
        b.environ.update(ENVIRON, TEAM_HOOK_TOKEN=f"{services.url}/hook")
        (b.workspace / "in.png").write_bytes(png(30, 20))
        (b.workspace / "in.wav").write_bytes(b"RIFF\0\0\0\0WAVE")
        ended = await b.turn("go", approve="all" if outcome == "done" else "normal")
        assert ended.outcome == outcome and b.server.refusals == []
        return b, results(b) if outcome == "done" else []


@pytest.mark.thorough
async def test_pictures_are_drawn_and_changed_and_paid_for(tmp_path: Path) -> None:
    with Services() as services:
        b, found = await ran(
            tmp_path,
            services,
            ("image_generate", {"prompt": "A red bicycle", "aspect_ratio": "landscape"}),
            ("image_generate", {"prompt": "make it blue", "images": ["in.png"], "path": "out/blue.png"}),
            ("image_generate", {"prompt": "refuse me"}),
            ("image_generate", {"prompt": "x", "path": "in.png"}),
        )
    drawn, changed, refused, taken = found
    assert drawn["image"] == "images/a-red-bicycle.png" and drawn["cost_usd"] == 0.04
    assert (b.workspace / drawn["image"]).read_bytes() == png(8, 8)
    assert (b.workspace / changed["image"]).read_bytes() == png(9, 9)
    assert services.asked[0].json["size"] == "1536x1024"
    assert services.asked[1].form["image[]"][0][0] == "1.png"
    assert "rejected by the safety system" in refused["error"] and "is there already" in taken["error"]
    assert KEYS["openai"] not in str(found)


@pytest.mark.thorough
async def test_a_ceiling_of_money_stops_a_picture_before_it_is_asked_for(tmp_path: Path) -> None:
    with Services() as services:
        _, (first, second) = await ran(
            tmp_path,
            services,
            ("image_generate", {"prompt": "one"}),
            ("image_generate", {"prompt": "two"}),
            image={"price": 0.6},
            budget={"session": {"money": 1.0}},
            model="here/priced",
        )
    assert "image" in first and "not paid for" in second["error"]
    assert len(services.asked) == 1


async def test_fal_draws_with_its_key_and_a_seed(tmp_path: Path) -> None:
    with Services() as services:
        _, (drawn,) = await ran(
            tmp_path,
            services,
            ("image_generate", {"prompt": "a boat", "seed": 11}),
            image={
                "backend": "fal",
                "fal_url": services.url,
                "fal_key_env": "FAL",
                "model": "fal-ai/flux/dev",
            },
        )
    assert drawn["seed"] == 11 and drawn["by"] == "fal/fal-ai/flux/dev"
    assert services.asked[0].path == "/fal-ai/flux/dev" and services.asked[0].json["sync_mode"] is True


@pytest.mark.thorough
async def test_the_local_floor_says_what_it_is(tmp_path: Path) -> None:
    with Services() as services:
        b, (one, two) = await ran(
            tmp_path,
            services,
            ("image_generate", {"prompt": "a boat"}),
            ("image_generate", {"prompt": "a boat"}),
            image={"backend": "local"},
        )
    assert "not a picture of what they say" in one["note"] and services.asked == []
    first, second = ((b.workspace / each["image"]).read_bytes() for each in (one, two))
    assert first == second and Image.open(io.BytesIO(first)).size == (768, 768)


@pytest.mark.thorough
async def test_text_is_read_aloud_by_services_and_recordings_are_written_down(tmp_path: Path) -> None:
    with Services() as services:
        b, (spoken, heard, wrong) = await ran(
            tmp_path,
            services,
            ("text_to_speech", {"text": "**Hello** `there`\n```\ncode\n```", "voice": "nova"}),
            ("transcribe", {"path": "in.wav", "language": "en"}),
            ("transcribe", {"path": "in.png"}),
        )
        said = services.asked[0].json
        assert said["input"] == "Hello there" and said["voice"] == "nova"
        assert services.asked[1].form["language"] == [("", b"en")]
        _, (again,) = await ran(
            tmp_path / "eleven",
            services,
            ("text_to_speech", {"text": "Hi"}),
            speech={"backend": "elevenlabs", "elevenlabs_url": services.url, "elevenlabs_key_env": "ELEVEN"},
        )
    assert (b.workspace / spoken["audio"]).read_bytes().startswith(b"ID3") and spoken["audio"].endswith(
        ".mp3"
    )
    assert heard["text"] == "Hello there." and "not a recording" in wrong["error"]
    assert again["by"].startswith("elevenlabs/") and "output_format" in services.asked[-1].path


@pytest.mark.thorough
async def test_the_home_is_looked_at_and_changed_only_after_a_yes(tmp_path: Path) -> None:
    acts = [
        ("homeassistant", {"action": "list", "domain": "light"}),
        ("homeassistant", {"action": "state", "entity": "sensor.out"}),
        ("homeassistant", {"action": "services"}),
        ("homeassistant", {"action": "state", "entity": "../config"}),
        ("homeassistant", {"action": "call", "service": "light.turn_on", "entity": "light.kitchen"}),
        ("homeassistant", {"action": "state", "entity": "light.cellar"}),
    ]
    with Services() as services:
        _, found = await ran(tmp_path, services, *acts)
        assert found[0]["entities"] == [{"entity": "light.kitchen", "state": "off", "name": "Kitchen"}]
        assert found[1]["state"] == "7.5" and found[2]["services"] == {"light": ["turn_off", "turn_on"]}
        assert "is not an entity" in found[3]["error"] and "Entity not found" in found[5]["error"]
        assert found[4]["changed"][0]["state"] == "on"
        assert services.asked[-2].json == {"entity_id": "light.kitchen"}
        count = len(services.asked)
        await ran(tmp_path / "asked", services, acts[4], outcome="denied")
        assert len(services.asked) == count


@pytest.mark.thorough
async def test_messages_go_to_targets_of_the_settings_and_ask(tmp_path: Path) -> None:
    acts = [
        ("send_message", {"target": "phone", "text": "Build is green", "title": "CI"}),
        ("send_message", {"target": "team", "text": "Hello"}),
        ("send_message", {"target": "http://evil.example/", "text": "x"}),
    ]
    with Services() as services:
        _, found = await ran(tmp_path, services, *acts)
        assert services.asked[0].json == {"topic": "alerts", "message": "Build is green", "title": "CI"}
        assert services.asked[1].path == "/hook" and services.asked[1].json["text"] == "Hello"
        assert found[0]["id"] == "m1" and "There is no target" in found[2]["error"]
        await ran(tmp_path / "asked", services, acts[0], outcome="denied")
        assert len(services.asked) == 2


@pytest.mark.thorough
async def test_what_services_answer_wrongly_becomes_a_sentence(tmp_path: Path) -> None:
    with Services() as services:
        services.broken = {
            "/v1/images/generations": (200, b"<html>"),
            "/v1/audio/speech": (200, b"<html>no sound</html>"),
            "/v1/audio/transcriptions": (500, b'{"error":{"message":"overloaded \x1b[31m"}}'),
            "/api/states": (302, b""),
        }
        _, found = await ran(
            tmp_path,
            services,
            ("image_generate", {"prompt": "x"}),
            ("text_to_speech", {"text": "x"}),
            ("transcribe", {"path": "in.wav"}),
            ("homeassistant", {"action": "list"}),
        )
    assert ["else than JSON" in found[0]["error"], "not a sound" in found[1]["error"]] == [True, True]
    assert "500" in found[2]["error"] and "302" in found[3]["error"] and "\x1b" not in str(found)


@pytest.mark.thorough
async def test_a_model_that_sees_is_shown_the_picture_itself(tmp_path: Path) -> None:
    replies = by_step([call("vision_analyze", image="in.png", question="What is it?"), say("A square.")])
    async with bench(tmp_path, replies) as b:
        (b.workspace / "in.png").write_bytes(png(30, 20))
        async with b.engine() as engine:
            assert (await engine.run("look")).outcome == "done"
            session = engine.session.id
        parts = b.server.requests[-1].body["messages"][-1]["content"]
        assert "What is it?" in parts[0]["text"]
        assert parts[1]["image_url"]["url"].startswith("data:image/png;base64,")
        # Resumed, the same bytes are sent again.
        async with b.engine(resume=session) as engine:
            await engine.run("and now?")
        again = b.server.requests[-1].body["messages"]
        assert parts in [each["content"] for each in again]


@pytest.mark.thorough
async def test_a_model_that_refused_a_picture_is_promised_no_other(tmp_path: Path) -> None:
    steps = by_step(
        [call("vision_analyze", image="in.png"), call("vision_analyze", image="in.png"), say("no")]
    )

    def answer(request: Any) -> Any:
        sent = "image_url" in json.dumps(request.body["messages"])
        return refuse(400, "This model does not support image input.") if sent else steps(request)

    async with bench(tmp_path, answer) as b:
        b.config(json.dumps({"vision": {"ocr": False}}))
        (b.workspace / "in.png").write_bytes(png(30, 20))
        assert (await b.turn("look")).outcome == "done"
        first, second = results(b)
        assert first["by"] == "you" and "does not see pictures" in second["error"]


@pytest.mark.thorough
async def test_a_side_model_looks_for_one_that_sees_nothing(tmp_path: Path) -> None:
    replies = by_step([call("vision_analyze", image="in.png"), say("done")])
    async with bench(tmp_path, replies) as b:
        settings = {
            "providers": {
                "here": {
                    "base_url": b.server.base_url,
                    "models": {"blind": {"images": False}, "seeing": {"images": True}},
                }
            },
            "vision": {"model": "here/seeing"},
        }
        b.config(json.dumps(settings))
        b.environ["HERMES_MODEL"] = "here/blind"
        (b.workspace / "in.png").write_bytes(png(30, 20))
        await b.turn("look")
        side = [each for each in b.server.requests if each.body["model"] == "seeing"]
        assert len(side) == 1 and "image_url" in str(side[0].body["messages"][-1]["content"])
        (result,) = results(b)
        assert result["by"] == "here/seeing" and result["analysis"]


@pytest.mark.thorough
async def test_addresses_and_files_that_must_not_be_read_are_not(tmp_path: Path) -> None:
    with Services() as services:
        _, found = await ran(
            tmp_path,
            services,
            ("vision_analyze", {"image": f"{services.url}/picture.png"}),
            ("vision_analyze", {"image": "http://169.254.169.254/latest.png"}),
            ("vision_analyze", {"image": "data:image/png;base64,%%%"}),
            ("vision_analyze", {"image": "nowhere.png"}),
            ("vision_analyze", {"image": "in.wav"}),
        )
    assert all("error" in each for each in found) and services.asked == []


@pytest.fixture
def written() -> bytes:
    image = Image.new("RGB", (420, 90), "white")
    ImageDraw.Draw(image).text((20, 25), "Invoice 4711", fill="black", font=ImageFont.load_default(36))
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


@pytest.mark.thorough
async def test_text_is_read_from_a_picture_and_aloud_without_any_service(
    tmp_path: Path, written: bytes
) -> None:
    both = calls(("vision_analyze", {"image": "bill.png"}), ("text_to_speech", {"text": "It works. Good."}))
    async with bench(tmp_path, by_step([both, say("done")])) as b:
        b.config("speech: {backend: hibari}\nproviders: {here: {base_url: '" + b.server.base_url + "', "
                 "models: {blind: {images: false}}}}")  # fmt: skip
        b.environ["HERMES_MODEL"] = "here/blind"
        (b.workspace / "bill.png").write_bytes(written)
        await b.turn("look")
        seen, said = results(b)
        assert "Invoice  @" in seen["text"] and "4711  @" in seen["text"]
        with wave.open(str(b.workspace / said["audio"])) as sound:
            assert sound.getframerate() == 24_000 and sound.getnframes() > 12_000


def test_each_is_ready_only_when_it_can_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.integrations.senses.service.is_installed", lambda: False)
    monkeypatch.setattr("agent.integrations.senses.service.hibari_is_installed", lambda: False)
    monkeypatch.setattr("agent.integrations.senses.service.whisper_is_installed", lambda: False)
    bare = readiness(Settings(), {"PATH": ""}, sees=False)
    assert [each.works for each in bare] == [False] * 6
    assert all(each.missing and each.mend for each in bare)
    wanted = {
        "vision": {"model": "a/b"},
        "image": {"base_url": "http://x"},
        "speech": {"base_url": "http://x"},
        "transcribe": {"base_url": "http://x"},
        "homeassistant": {"url": "http://x"},
        "messages": {"targets": {"a": {"kind": "ntfy", "url": "http://x/y"}}},
    }
    ready = readiness(Settings.model_validate(wanted), {"PATH": "", "HASS_TOKEN": "t"}, sees=False)
    assert [each.works for each in ready] == [True] * 6
