"""The browser in a whole session: the model calls, the gate rules, the page answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.events import ToolFinished
from tests.support.browser_stage import MISSING, Reply, Site
from tests.support.engines import bench
from tests.support.replies import call, say

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
