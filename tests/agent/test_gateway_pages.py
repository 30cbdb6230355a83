"""What proxies in front of a provider answer, and headers and queries that gateways want."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.integrations.server_events import DialectLearned
from tests.support.engines import bench
from tests.support.model_server import ChatForm, Reply, Rules, refuse, say

BAD_GATEWAY = (
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><hr>nginx</body>\r\n</html>\r\n"
)
CHALLENGE = b'<!DOCTYPE html><html lang="en-US"><head><title>Just a moment...</title></head></html>'


def page(status: int, body: bytes) -> Reply:
    return Reply(status=status, content_type="text/html", body=body)


QUOTED = refuse(500, f"litellm.APIError: OpenAIException - {BAD_GATEWAY.decode()}. Model Group=m", code="500")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "trouble", [page(502, BAD_GATEWAY), page(504, b""), page(403, CHALLENGE), page(200, CHALLENGE), QUOTED]
)
async def test_trouble_on_the_way_is_tried_again_and_blamed_on_nobody_here(
    trouble: Reply, tmp_path: Path
) -> None:
    script = [trouble, say("well"), trouble, trouble]
    async with bench(tmp_path, script) as b:
        b.config("model: {retries: 1}")
        assert (await b.turn("hi")).text == "well"
        ended = await b.turn("again")
        assert ended.outcome == "failed" and len(b.server.requests) == 4
        assert not any(word in ended.error for word in ("<", "key", "named setting", "\n"))
        assert not b.seen(DialectLearned)


async def test_headers_and_query_of_a_gateway_go_with_each_request_and_are_never_shown(
    tmp_path: Path,
) -> None:
    echo = refuse(400, "Route gate-value-77 with shh-hidden-99 is closed.")
    forms = {"/v1/deployments/d/chat/completions": ChatForm(Rules())}
    async with bench(tmp_path, [say("well"), echo], forms=forms) as b:
        b.environ |= {"GATE": "gate-value-77", "SUFFIX": "shh-hidden-99"}
        deployment = b.server.base_url + "/deployments/d?api-version=2024-10-21&k=${SUFFIX}"
        b.config(
            f"providers: {{gw: {{base_url: '{deployment}', headers: {{X-Route: '${{GATE}}'}}}}}}\n"
            "model: {name: gw/test-model, retries: 0}"
        )
        b.environ["HERMES_MODEL"] = ""
        assert (await b.turn("hi")).text == "well"
        failed = await b.turn("again")
        assert (
            "is closed" in failed.error and "gate-value" not in failed.error and "hidden" not in failed.error
        )
        for request in b.server.requests:
            assert request.headers["x-route"] == "gate-value-77"
            assert request.query == "api-version=2024-10-21&k=shh-hidden-99"
