"""What takes minutes: kills at many moments, and elements that come and go under the pointer."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import command
from tests.support.browser_stage import MISSING, BrowserStage, Reply, Site
from tests.support.model_process import ROOT, ServerProcess
from tests.support.waiting import PATIENCE

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is one"),
    pytest.mark.thorough,
    pytest.mark.timeout(3600),
]
_CHILD = """
import sys, time
from pathlib import Path
from tests.support.browser_stage import BrowserStage
root = Path(sys.argv[1])
stage = BrowserStage(root)
print("made", flush=True)
stage.open("/", "<button>Press</button><script>setInterval(()=>document.title=Date.now(),5)</script>")
print("open", flush=True)
while True:
    stage.click("Press")
"""
MOMENTS = 50


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserStage]:
    made = BrowserStage(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


def _of_profile(root: Path) -> list[int]:
    """Processes that name a folder below `root`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(root).encode() in line and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def test_no_process_is_left_wherever_hermes_is_killed(tmp_path: Path) -> None:
    chance = random.Random(7)
    for moment in range(MOMENTS):
        root = tmp_path / f"run{moment}"
        root.mkdir()
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(root)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert child.stdout is not None
        child.stdout.readline()
        # From before the browser starts to well into its work.
        time.sleep(chance.uniform(0, 3.0))
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        for _ in range(100):
            if not _of_profile(root):
                break
            time.sleep(0.05)
        assert _of_profile(root) == [], moment


def test_profiles_of_killed_programs_are_removed_by_the_next_one(tmp_path: Path) -> None:
    from agent.integrations.browser.profile import open_profile

    code = (
        "import os, sys; from pathlib import Path; from agent.integrations.browser.profile import "
        "open_profile; "
        "open_profile(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "b")], check=False)
    assert len(list((tmp_path / "b").glob("session-*"))) == 1
    kept = open_profile(tmp_path / "b")
    assert list((tmp_path / "b").glob("session-*")) == [kept.folder]
    kept.close()
    assert not kept.folder.exists()


def test_of_a_thousand_churned_references_none_clicks_anything_else(stage: BrowserStage) -> None:
    churn = """<div id=all></div><script>
    let made = 0;
    window.wrong = []; window.right = 0; window.wanted = '';
    function put() {
      const b = document.createElement('button');
      b.textContent = 'Item ' + (++made);
      b.onclick = () => { if (b.textContent === window.wanted) window.right++;
                          else window.wrong.push(b.textContent + ' for ' + window.wanted); };
      all.insertBefore(b, all.children[Math.floor(Math.random() * all.children.length)] || null);
    }
    for (let i = 0; i < 25; i++) put();
    setInterval(() => { all.children[Math.floor(Math.random() * all.children.length)].remove(); put(); }, 15);
    </script>"""
    page = stage.open("/churn", churn)
    right = refused = 0
    chance = random.Random(3)
    for _ in range(1_000):
        lines = [line for line in page.splitlines() if "[ref=" in line and 'button "' in line]
        line = chance.choice(lines)
        ref, name = line.partition("[ref=")[2].partition("]")[0], line.split('"')[1]
        stage.call("console", expression=f"window.wanted = {json.dumps(name)}; window.before = window.right")
        result = stage.call("click", ref=ref)
        hit = json.loads(stage.call("console", expression="window.right - window.before")["value"])
        if "error" in result:
            refused += 1
            assert hit == 0, (name, result)
        else:
            right += 1
            assert hit == 1, (name, result)
        page = stage.call("snapshot")["page"]
    assert json.loads(stage.call("console", expression="window.wrong")["value"]) == []
    print(f"{right} clicked, {refused} refused")
    assert right


def until(true: Callable[[], object]) -> None:
    """Wait until something is so. Raises `AssertionError` if it never is."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


SCRIPT = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})

def script(request):
    results = [str(each["content"]) for each in request.messages if each["role"] == "tool"]
    if not results or '"error"' in results[-1] or "interrupted" in results[-1]:
        return call("browser_navigate", url=ADDRESS)
    if sum("changed" in each for each in results) >= 4:
        return say("All is pressed.")
    return call("browser_click", ref="e1")
"""
COUNTED = """<button onclick="localStorage.n = Number(localStorage.n || 0) + 1;
this.textContent = 'Pressed ' + localStorage.n; fetch('/pressed?' + localStorage.n)">Press</button>
<script>fetch('/begun?' + (localStorage.n || 0))</script>"""


def test_wherever_hermes_or_its_browser_is_killed_the_session_goes_on_and_the_profile_is_sound(
    tmp_path: Path,
) -> None:
    chance = random.Random(11)
    site = Site({"/": COUNTED, "/begun": Reply("ok"), "/pressed": Reply("ok")})
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (home / "config.yaml").write_text("tools: {enabled: [default, browser]}\nbrowser: {profile: work}\n")
    (home / "permissions.yaml").write_text(f"rules:\n  fetch({site.url('/**')}): allow\n")
    told = [*command.STARTED, "--json", "--approve", "all", "-p", f"Press it: {site.url('/')}"]
    script = SCRIPT.replace("ADDRESS", repr(site.url("/")))
    sure = 0
    with ServerProcess(script, tmp_path) as server:
        env = command.environment(home, server.base_url)
        for moment in range(MOMENTS):
            wants_browser = moment % 2 == 1
            process = subprocess.Popen(
                told, env=env, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            assert process.stdout is not None
            head = process.stdout.readline()
            if wants_browser:
                until(lambda ended=process: _of_profile(home / "browser") or ended.poll() is not None)
            time.sleep(chance.uniform(0, 4.0))
            asked, is_hit = len(site.asked), False
            if wants_browser:
                for pid in _of_profile(home / "browser")[:1]:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        is_hit = True
            else:
                process.kill()
            output, _ = process.communicate(timeout=100)
            if wants_browser:
                assert process.returncode == 0, (moment, output[-2000:])
            for _ in range(100):
                if not _of_profile(home / "browser"):
                    break
                time.sleep(0.05)
            assert _of_profile(home / "browser") == [], moment
            if not wants_browser:
                session = json.loads(head)["session"]
                done = command.run("--resume", session, *told[len(command.STARTED) :], env=env, cwd=project)
                assert done.returncode == 0, (moment, done.stdout[-2000:], done.stderr)
                assert command.events(done.stdout)[-1]["text"] == "All is pressed."
            pressed = [int(each.path[9:]) for each in site.asked if each.path.startswith("/pressed?")]
            begun = [int(each.path[7:]) for each in site.asked if each.path.startswith("/begun?")]
            assert all(number >= sure for number in begun), (moment, sure, begun)
            # A run that came to its end has closed its last browser in order, unless that is the killed one:
            # all it kept counts from here on.
            is_again = any(each.path.startswith("/begun?") for each in site.asked[asked:])
            sure = pressed[-1] if pressed and (is_again or not is_hit) else sure
            site.asked.clear()
    site.close()
    assert sure > MOMENTS
