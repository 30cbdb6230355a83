"""Tokens of the browser tools beside playwright-mcp, and the time of an action beside Playwright.

    python benchmarks/browser_peers.py [--pairs 60]

Both peers are installed into `build/peers` if they are missing; Chromium is `/usr/bin/chromium`. A task is
the same steps on the same page for both: what a step acts on is found by its name in the results so far.
Where our tools have not shown it yet, `browser_snapshot(query)` finds it, and that counts. Tokens are
characters / 4.

playwright-mcp 0.0.83 with `--snapshot-mode full` writes the snapshot after an action to a file and returns
a link. So it is counted in three ways: "links" is its results alone, with one `browser_snapshot` when an
element is not known yet; "found" is the same with `browser_find` for exactly the name instead; "files" is the
results of the actions with each linked snapshot read, as by a model that looks at each page.

Times are beyond the same action by Playwright, settling left out. Under load they say more about the load:
`chrt -r 5 python benchmarks/browser_peers.py --only times` gives both a processor at once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.conformance import packages
from tests.support.browser_stage import BrowserStage
from tools.browser.session import BrowserSession
from tools.browser.tab import Tab

PEERS = packages.ROOT / "build" / "peers"
MCP = PEERS / "node_modules" / "@playwright" / "mcp" / "cli.js"
CHROMIUM = "/usr/bin/chromium"

_PLAYWRIGHT = """
const { chromium } = require('playwright-core');
(async () => {
  const args = process.getuid() === 0 ? ['--no-sandbox'] : [];
  const browser = await chromium.launch({ executablePath: process.argv[1], headless: true, args });
  const page = await browser.newPage();
  for await (const line of require('readline').createInterface({ input: process.stdin })) {
    const { act, role, name, text } = JSON.parse(line);
    const begun = performance.now();
    if (act === 'open') await page.goto(text);
    else {
      const found = page.getByRole(role, { name, exact: true });
      if (act === 'click') await found.click(); else await found.fill(text);
    }
    console.log(performance.now() - begun);
  }
  await browser.close();
})();
"""


@dataclass(frozen=True, slots=True)
class Step:
    """Click what has this role and name, or type `text` into it."""

    role: str
    name: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """A page and what is done on it."""

    name: str
    page: str
    steps: tuple[Step, ...]


def catalogue(count: int) -> str:
    """A list of goods, each with a button that counts and says it was taken."""
    rows = "".join(
        f"<tr><td>Lamp {number}</td><td>{number}.50 EUR</td><td><a href='#{number}'>Details {number}</a></td>"
        f"<td><button onclick='take(this)'>Add lamp {number}</button></td></tr>"
        for number in range(1, count + 1)
    )
    return (
        "<title>Lamps</title><h1>Lamps</h1><p id=cart>Cart: 0</p><label>Note <input></label><table>"
        f"{rows}</table><script>let n=0;function take(b){{cart.textContent='Cart: '+(++n);"
        "b.parentNode.previousSibling.lastChild.textContent='In the cart'}</script>"
    )


def settings(count: int) -> str:
    """Fields with a name, a switch and a word of help each."""
    rows = "".join(
        f"<div><h3>Group {number}</h3><label>Value {number} <input></label>"
        f"<label><input type=checkbox>Use {number}</label><p>Help for the value {number}.</p></div>"
        for number in range(1, count + 1)
    )
    return f"<title>Settings</title><h1>Settings</h1><form>{rows}</form>"


def adds(numbers: range) -> tuple[Step, ...]:
    return tuple(Step("button", f"Add lamp {number}") for number in numbers)


def fills(numbers: range) -> tuple[Step, ...]:
    both = ((Step("textbox", f"Value {n}", f"some {n}"), Step("checkbox", f"Use {n}")) for n in numbers)
    return tuple(step for pair in both for step in pair)


TASKS = (
    Task("catalogue, ten at the top", catalogue(150), adds(range(1, 11))),
    Task("catalogue, ten along the page", catalogue(150), adds(range(5, 150, 15))),
    Task("settings, twelve at the top", settings(120), fills(range(1, 4)) * 2),
    Task("settings, ten along the page", settings(120), fills(range(10, 120, 22))),
    Task("small catalogue", catalogue(4), adds(range(1, 5)) * 2),
    Task("small settings", settings(3), fills(range(1, 4))),
    Task("one button", "<title>One</title><button>Go</button>", (Step("button", "Go"),)),
)


def reference(shown: list[str], step: Step) -> str:
    """The reference of what the step acts on, by the newest result that shows it, or empty."""
    line = re.compile(rf'{step.role} "{re.escape(step.name)}".*?\[ref=(\w+)\]')
    for text in reversed(shown):
        if found := line.search(text):
            return found[1]
    return ""


def ours(stage: BrowserStage, task: Task) -> tuple[int, int]:
    """Characters of our results, and accessibility nodes of the page."""
    shown: list[str] = []
    characters = 0

    def call(name: str, **arguments: object) -> None:
        nonlocal characters
        result = stage.call(name, **arguments)
        if "error" in result:
            raise SystemExit(f"{task.name}: {name} {arguments}: {result['error']}")
        characters += len(json.dumps(result, ensure_ascii=False))
        shown.append("\n".join(str(value) for value in result.values()))

    stage.site.pages["/task"] = task.page
    call("navigate", url=stage.site.url("/task"))
    for step in task.steps:
        if not reference(shown, step):
            call("snapshot", query=step.name)
        ref = reference(shown, step)
        call("type", ref=ref, text=step.text) if step.text else call("click", ref=ref)
    return characters, nodes(stage)


def nodes(stage: BrowserStage) -> int:
    """Accessibility nodes of the open page that are not ignored, inline text boxes left out."""
    session = stage.browsers.running()
    assert session is not None
    tab = session.tab()
    tree = stage.run(tab.cdp.call("Accessibility.getFullAXTree", {}, tab.session))["nodes"]
    kinds = (node.get("role", {}).get("value") for node in tree if not node.get("ignored"))
    return sum(kind != "InlineTextBox" for kind in kinds)


@contextlib.contextmanager
def program(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A program of Node that is spoken to by lines."""
    with subprocess.Popen(
        [str(packages.node()), *command],
        cwd=PEERS,
        env={**os.environ, **packages.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)


def say(process: subprocess.Popen[str], message: object) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit("The peer ended.")
    return json.loads(line)


def theirs(url: str, task: Task, *, finds: bool) -> tuple[int, int]:
    """Characters of the results of playwright-mcp: alone, and with each linked snapshot read.

    An element that is not known yet is found by `browser_find`, or by one `browser_snapshot`.
    """
    number = looks = files = 0
    as_root = ["--no-sandbox"] if os.getuid() == 0 else []
    options = ["--headless", "--isolated", *as_root, "--executable-path", CHROMIUM, "--snapshot-mode", "full"]
    with program(str(MCP), *options) as process:

        def ask(method: str, params: object) -> Any:
            nonlocal number
            number += 1
            say(process, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            while (answer := hear(process)).get("id") != number:
                pass
            return answer["result"]

        def call(name: str, **arguments: object) -> str:
            result = ask("tools/call", {"name": f"browser_{name}", "arguments": arguments})
            text = "".join(part.get("text", "") for part in result["content"])
            if result.get("isError"):
                raise SystemExit(f"{task.name}: playwright-mcp {name}: {text[:500]}")
            return text

        client = {"name": "figures", "version": "1"}
        ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        say(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        shown = [call("navigate", url=url)]
        for step in task.steps:
            ref = reference(shown, step)
            if not ref:
                shown.append(call("find", regex=f'"{re.escape(step.name)}"') if finds else call("snapshot"))
                looks += len(shown[-1])
                ref = reference(shown, step)
            done = call("type", target=ref, text=step.text) if step.text else call("click", target=ref)
            shown.append(done)
        call("close")
        for text in shown:
            if link := re.search(r"\[Snapshot\]\((.*?)\)", text):
                files += len((PEERS / link[1]).read_text())
    links = sum(map(len, shown))
    return links, links - looks + files


class Settling:
    """Seconds spent settling since the last look."""

    def __init__(self) -> None:
        self.seconds = 0.0
        for owner, name in ((Tab, "wait_settled"), (BrowserSession, "wait_for_tabs")):
            setattr(owner, name, self._timed(getattr(owner, name)))

    def _timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        async def timed(*given: Any) -> Any:
            begun = time.perf_counter()
            try:
                return await work(*given)
            finally:
                self.seconds += time.perf_counter() - begun

        return timed

    def take(self) -> float:
        taken, self.seconds = self.seconds, 0.0
        return taken


def beyond(stage: BrowserStage, pairs: int) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds of our actions less settling, of Playwright's, and of the difference in each pair."""
    settling = Settling()
    stage.site.pages["/time"] = catalogue(150)
    url = stage.site.url("/time")
    shown = [stage.call("navigate", url=url)["page"]]
    steps = [
        Step("textbox", "Note", f"note {n}") if n % 3 == 0 else adds(range(1, 9))[n % 8] for n in range(pairs)
    ]
    mine: list[float] = []
    other: list[float] = []
    with program("-e", _PLAYWRIGHT, CHROMIUM) as process:

        def act(step: Step) -> float:
            kind = "fill" if step.text else "click"
            say(process, {"act": kind, "role": step.role, "name": step.name, "text": step.text})
            return hear(process)

        say(process, {"act": "open", "text": url})
        hear(process)
        for step in steps:
            other.append(act(step))
            ref = reference(shown, step)
            settling.take()
            begun = time.perf_counter()
            result = (
                stage.call("type", ref=ref, text=step.text) if step.text else stage.call("click", ref=ref)
            )
            mine.append((time.perf_counter() - begun - settling.take()) * 1000)
            if "error" in result:
                raise SystemExit(f"{step}: {result['error']}")
    return mine, other, [one - two for one, two in zip(mine, other, strict=True)]


def install() -> None:
    """Put the peers into `build/peers` if they are not there; nothing of them is run to install them."""
    if MCP.exists():
        return
    PEERS.mkdir(parents=True, exist_ok=True)
    npm = packages.node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    wanted = ["@playwright/mcp@0.0.83", "playwright-core@1.65.1"]
    command = [
        str(packages.node()),
        str(npm),
        "install",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        *wanted,
    ]
    subprocess.run(command, cwd=PEERS, env=packages.environment(), check=True)


def main() -> None:
    """Print tokens of each task and the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=60, help="actions that are timed in both")
    parser.add_argument("--only", choices=["tokens", "times"], help="what is measured")
    chosen = parser.parse_args()
    install()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    stage = BrowserStage(Path(tempfile.mkdtemp(prefix="browser-peers-")))
    try:
        for task in TASKS if chosen.only != "times" else ():
            mine, count = ours(stage, task)
            links, files = theirs(stage.site.url("/task"), task, finds=False)
            found, _ = theirs(stage.site.url("/task"), task, finds=True)
            print(
                f"{task.name:30} {len(task.steps):3} actions {count:5} nodes {mine // 4:6} tokens;",
                f"playwright-mcp links {links // 4:6} (1/{links / mine:.1f}),",
                f"found {found // 4:6} (1/{found / mine:.1f}),",
                f"files {files // 4:6} (1/{files / mine:.1f})",
                flush=True,
            )
        if chosen.only == "tokens":
            return
        mine_ms, other_ms, more = beyond(stage, chosen.pairs)
    finally:
        stage.close()
    for name, times in (("ours less settling", mine_ms), ("Playwright", other_ms), ("beyond", more)):
        cuts = statistics.quantiles(times, n=20)
        print(f"{name:20} p50 {statistics.median(times):6.1f} ms, p95 {cuts[18]:6.1f} ms")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
