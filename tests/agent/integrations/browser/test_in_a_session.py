"""The browser in a whole session: the model calls, the gate rules, the page answers."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agent.events import ToolFinished
from tests.support.browser_stage import MISSING, Reply, Site
from tests.support.delivery import Recorded
from tests.support.engines import bench
from tests.support.replies import by_step, call, refuse, say

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is one")


async def test_a_page_is_opened_used_and_closed_with_the_session(tmp_path: Path) -> None:
    site = Site(
        {
            "/": "<form action=/bought><input aria-label=What name=w><button>Buy</button></form>",
            "/bought": lambda asked: Reply(f"<h1>Bought {asked.path.partition('=')[2]}</h1>"),
        }
    )
    code = (
        "from hermes_tools import browser_snapshot\n"
        "print('seen by a script:', 'Bought' in browser_snapshot()['page'])"
    )
    script = [
        call("browser_navigate", url=site.url()),
        call("browser_type", ref="e1", text="tea", submit=True),
        call("execute_code", code=code),
        call("browser_navigate", url="http://127.0.0.1:9/"),
        say("Bought."),
    ]
    try:
        async with bench(tmp_path, script) as b:
            b.config("tools: {enabled: [default, browser]}\n")
            (b.home / "permissions.yaml").write_text(f"rules:\n  fetch({site.url('/**')}): allow\n")
            ended = await b.turn("buy tea")
            results = [json.loads(each.result) for each in b.seen(ToolFinished) if each.result]
            left = list((b.home / "browser").glob("session-*"))
    finally:
        site.close()
    assert ended.outcome == "done"
    told = json.dumps(results)
    assert "Bought tea" in told
    assert "seen by a script: True" in told
    assert "never reached" in told
    assert left == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("looks", ["own", "side", "fails"])
async def test_a_model_sees_the_page_as_the_browser_drew_it(tmp_path: Path, looks: str) -> None:
    site = Site({"/": Reply("<body style='margin: 0; background: #c80000'>")})
    script = by_step([call("browser_navigate", url=site.url()), call("browser_vision", question="Colour?")])

    def answer(request: Recorded) -> object:
        if request.body["model"] == "seeing" and looks != "own":
            return refuse(400, "no pictures today") if looks == "fails" else say("It is red.")
        results = [each for each in request.messages if each["role"] == "tool"]
        return script(request) if len(results) < 2 else say("Red.")

    try:
        async with bench(tmp_path, answer) as b:
            models = {"blind": {"images": False}, "seeing": {"images": True}}
            settings = {
                "tools": {"enabled": ["default", "browser"]},
                "providers": {"here": {"base_url": b.server.base_url, "models": models}},
                "vision": {"model": "here/seeing", "ocr": False},
            }
            b.config(json.dumps(settings))
            b.environ["HERMES_MODEL"] = "here/seeing" if looks == "own" else "here/blind"
            (b.home / "permissions.yaml").write_text(f"rules:\n  fetch({site.url('/**')}): allow\n")
            ended = await b.turn("look at the page")
            _, seen = [json.loads(each.result) for each in b.seen(ToolFinished) if each.result]
            shown = [image for request in b.server.requests for image in pictures(request.body["messages"])]
            kept = Path(seen["screenshot"])
            assert ended.outcome == "done" and kept.stat().st_mode & 0o777 == 0o600
            assert shown or looks == "fails"
            for data in (kept.read_bytes(), *shown):
                with Image.open(io.BytesIO(data)) as image:
                    assert image.convert("RGB").getpixel((20, 20)) == (200, 0, 0)
    finally:
        site.close()
    match looks:
        case "own":
            assert seen["by"] == "you"
        case "side":
            assert (seen["by"], seen["analysis"]) == ("here/seeing", "It is red.")
        case _:
            assert seen["note"].startswith("The picture was only kept: The picture could not be shown to")


def pictures(messages: Sequence[dict[str, Any]]) -> Iterator[bytes]:
    """The pictures that a request shows."""
    for message in messages:
        for part in message["content"] if isinstance(message["content"], list) else ():
            if part["type"] == "image_url":
                yield base64.b64decode(part["image_url"]["url"].partition("base64,")[2])
