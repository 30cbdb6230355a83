"""The page under an accessibility checker, axe-core, which is fetched for the test and kept nowhere."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.support.chromium import Browser
from tests.support.model_process import ServerProcess
from tests.support.service import Service

SCRIPT = r"""
MD = "# Head\n\nHello **there** `x` [site](https://example.org/a)\n\n- one\n- two\n\n"
MD += "| a | b |\n|---|---|\n| 1 | 2 |\n"
MD += "\n```py\ncode\n```\n\n> quoted\n"

def script(request):
    asked = str([each for each in request.messages if each.get("role") == "user"][-1]["content"])
    done = request.messages[-1].get("role") == "tool"
    if "push" in asked and not done:
        return call("terminal", command="git push origin main")
    if "draw" in asked and not done:
        drawn = "<svg viewBox='0 0 90 40'><rect width='40' height='30' fill='teal'/></svg>"
        return call("canvas", name="plot", title="Sales", alt="One bar", content=drawn)
    return say(MD)
"""
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.mark.thorough
def test_the_checker_finds_nothing_in_any_skin_on_phone_and_desktop(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no npm to fetch axe-core with: the page was not checked")
    subprocess.run(["npm", "pack", "--silent", "axe-core"], cwd=tmp_path, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tgz"))) as packed:
        member = packed.extractfile("package/axe.min.js")
        assert member is not None
        axe = member.read().decode()
    work = tmp_path / "work"
    work.mkdir()
    found: dict[str, list[str]] = {}

    def check(state: str) -> None:
        browser.run(axe + ";1")
        told = browser.run(
            f"axe.run(document, {{runOnly: {json.dumps(TAGS)}}}).then((r) => r.violations.map("
            "(v) => v.id + ': ' + v.nodes.map((n) => n.target.join(' ')).join(', ')))"
        )
        if told:
            found[state] = told

    with (
        ServerProcess(SCRIPT, tmp_path) as model,
        Service(tmp_path / "home", model.base_url) as service,
        Browser(tmp_path / "chromium") as browser,
    ):
        browser.open(service.url)
        browser.until("document.querySelector('#code')")
        check("pairing")
        head = service.device("approve")
        session = head.session(work)
        for text in ("hello", "draw", "push"):
            head.say(session, text)
            head.until(session, "approval" if text == "push" else "turn_ended")
        browser.open("about:blank")
        browser.open(f"{service.url}/#pair={service.code('approve')}")
        browser.until("document.querySelector('.request') && document.querySelector('#canvas iframe')")
        for width, height, phone in ((1200, 800, False), (360, 740, True)):
            for dark in (True, False):
                browser.size(width, height, dark=dark, phone=phone)
                check(f"{width} {'dark' if dark else 'light'}")
        skins = browser.run("[...document.querySelector('#skin').options].map((each) => each.value)")
        assert len(skins) > 10
        for skin in skins[1:]:
            browser.run(
                f"(() => {{ const skin = document.querySelector('#skin'); skin.value = '{skin}'; "
                "skin.dispatchEvent(new Event('change')); })()"
            )
            check(f"skin {skin}")
        browser.run("document.querySelector('#canvas-close').click()")
        browser.run("document.querySelector('#menu').click()")
        check("sessions of a phone")
    assert found == {}
