"""MiniWoB tasks by a scripted solver that sees and acts through the browser tools only.

    pip download --no-deps miniwob==1.1.0 -d build && unzip -o build/miniwob-1.1.0-*.whl -d build/miniwob
    python benchmarks/miniwob.py build/miniwob/miniwob/html [--seeds 25] [--task NAME …]

Prints a line for each task: episodes with the full reward, of how many, and the tokens of all results.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.browser_stage import BrowserStage, Reply

_LINE = re.compile(r'\s*(\+?\s*)([\w -]+?)(?: "((?:[^"]|"(?! \[|$|:))*)")? \[ref=(e\d+)\](.*)')
KINDS = {".css": "text/css", ".js": "text/javascript", ".png": "image/png", ".gif": "image/gif"}


class Episode:
    """One episode: the task, and the page as the tools show it."""

    def __init__(self, stage: BrowserStage, task: str, seed: int) -> None:
        self.stage = stage
        self.characters = 0
        self.faults: list[str] = []
        self.stage.call("navigate", url=stage.site.url(f"/miniwob/{task}.html"))
        self.script(f"core.EPISODE_MAX_TIME = 1e8; Math.seedrandom('seed {seed}'); core.startEpisodeReal()")
        for _ in range(50):
            if self.script("WOB_TASK_READY") == "true":
                break
            time.sleep(0.05)
        self.task = json.loads(self.script("String(core.getUtterance().utterance || core.getUtterance())"))
        self.page = ""
        self.look()

    def script(self, text: str) -> str:
        return str(self.stage.call("console", expression=text).get("value", ""))

    def look(self) -> str:
        self.page = self.call("snapshot", full=True)["page"]
        return self.page

    def call(self, name: str, **arguments: object) -> dict[str, Any]:
        result = self.stage.call(name, **arguments)
        self.characters += len(json.dumps(result))
        if "error" in result:
            self.faults.append(f"{name} {arguments}: {result['error']}")
        return result

    def lines(self) -> list[tuple[str, str, str, str]]:
        found = []
        for line in self.page.splitlines():
            if match := _LINE.match(line):
                found.append((match[2].strip(), match[3] or "", match[4], match[5]))
        return found

    def ref(self, name: str = "", role: str = "", place: int = 0, part: bool = False) -> str:
        hits = [
            ref
            for kind, called, ref, _ in self.lines()
            if (not role or kind in role.split("|"))
            and (
                not name
                or (
                    name.lower() in called.lower() if part else called.strip().lower() == name.strip().lower()
                )
            )
        ]
        return hits[place] if len(hits) > place >= -len(hits) else ""

    def click(self, name: str = "", role: str = "", place: int = 0, part: bool = False) -> bool:
        ref = self.ref(name, role, place, part)
        if not ref:
            return False
        ok = "error" not in self.call("click", ref=ref)
        self.look()
        return ok

    def type(self, text: str, name: str = "", role: str = "textbox", place: int = 0) -> None:
        ref = self.ref(name, role, place)
        if ref:
            self.call("type", ref=ref, text=text)

    def quoted(self) -> list[str]:
        return re.findall(r'"([^"]*)"', self.task)

    def reward(self) -> float:
        for _ in range(10):
            if self.script("WOB_DONE_GLOBAL") == "true":
                break
            time.sleep(0.05)
        return float(self.script("WOB_RAW_REWARD_GLOBAL") or 0)


def submit(e: Episode) -> None:
    e.look()
    e.click("Submit", "button") or e.click("submit", part=True)


def click_named(e: Episode) -> None:
    e.click(e.quoted()[0])


def enter_text(e: Episode) -> None:
    e.type(e.quoted()[0])
    submit(e)


def click_checkboxes(e: Episode) -> None:
    wanted = e.task.removeprefix("Select ").partition(" and click Submit")[0]
    if wanted != "nothing":
        for name in [each.strip() for each in wanted.split(",")]:
            e.click(name, "checkbox")
    submit(e)


def click_option(e: Episode) -> None:
    e.click(e.task.removeprefix("Select ").partition(" and click")[0], "radio")
    submit(e)


def choose_list(e: Episode) -> None:
    name = e.task.removeprefix("Select ").partition(" from the list")[0]
    e.call("select", ref=e.ref(role="combobox|listbox"), values=[name])
    submit(e)


def click_scroll_list(e: Episode) -> None:
    names = e.task.removeprefix("Select ").partition(" from the scroll list")[0]
    e.call("select", ref=e.ref(role="listbox"), values=[each.strip() for each in names.split(",")])
    submit(e)


def login(e: Episode) -> None:
    user, password = e.quoted()[:2]
    e.type(user, place=0)
    e.type(password, place=1)
    e.look()
    e.click("Login", "button")


def password(e: Episode) -> None:
    for place in (0, 1):
        e.type(e.quoted()[0], place=place)
    submit(e)


def enter_date(e: Episode) -> None:
    month, day, year = re.findall(r"(\d+)/(\d+)/(\d+)", e.task)[0]
    e.type(f"{year}-{int(month):02}-{int(day):02}", role="date field|textbox")
    submit(e)


def enter_time(e: Episode) -> None:
    hour, minute, half = re.findall(r"(\d+):(\d+) ?([AP]M)", e.task)[0]
    hours = int(hour) % 12 + (12 if half == "PM" else 0)
    e.type(f"{hours:02}:{minute}", role="time field|textbox")
    submit(e)


def focus(e: Episode) -> None:
    words = {"1st": 0, "2nd": 1, "3rd": 2, "4th": 3}
    place = next((number for word, number in words.items() if word in e.task), 0)
    e.click(role="textbox", place=place)


def dialog(e: Episode) -> None:
    name = e.quoted()[0]
    e.click("Close" if name == "x" else name, "button")


def close_dialog(e: Episode) -> None:
    e.click("Close", "button", part=True) or e.click(role="button", place=-1)


def tabs_link(e: Episode) -> None:
    wanted = re.findall(r'link "(.*)"', e.task)[0]
    count = sum(1 for kind, *_ in e.lines() if kind == "tab")
    for place in range(count):
        if e.click(wanted, "clickable|link", part=False) or e.click(f"{wanted},", "clickable|link"):
            return
        e.click(role="tab", place=place)
        if e.click(wanted, "clickable|link") or e.click(f"{wanted},", "clickable|link"):
            return


def click_tab(e: Episode) -> None:
    number = re.findall(r"#(\d+)", e.task)[0]
    e.click(f"Tab #{number}", "tab|link", part=True)


def collapsible(e: Episode) -> None:
    e.click(role="tab|button|heading", place=0)
    time.sleep(0.4)
    submit(e)


def collapsible_2(e: Episode) -> None:
    wanted = e.quoted()[0]
    for place in range(8):
        if e.click(wanted, "clickable|link") or e.click(f"{wanted},", "clickable|link"):
            return
        if not e.click(role="tab", place=place):
            return
        time.sleep(0.4)
        e.look()


def sequence(e: Episode) -> None:
    e.click("ONE", "button")
    e.click("TWO", "button")


def widget(e: Episode) -> None:
    kind = re.findall(r'"([^"]+)" widget', e.task)[0]
    role = "textbox" if kind in ("text", "textarea") else kind
    wanted = next(
        ref
        for found, _, ref, states in e.lines()
        if found == role and ("[multiline]" in states) is (kind == "textarea")
    )
    e.call("click", ref=wanted)


def autocomplete(e: Episode) -> None:
    begin, *end = e.quoted()
    e.type(begin)
    time.sleep(0.4)
    e.look()
    options = [name for kind, name, _, _ in e.lines() if name.startswith(begin) and kind != "textbox"]
    wanted = [name for name in options if not end or name.endswith(end[0])]
    if wanted:
        e.click(wanted[0])
    submit(e)


def read_table(e: Episode) -> None:
    wanted = re.findall(r"(?:value of|Enter the value of) ([\w ]+?) into", e.task)
    rows = [line.strip() for line in e.page.splitlines()]
    for name in wanted[:1]:
        for row in rows:
            if (match := re.search(rf"{re.escape(name)} ?\|? (.+)", row)) and "Enter" not in row:
                e.type(match[1].strip().split("  ")[0])
                break
    submit(e)


def find_word(e: Episode) -> None:
    number = int(re.findall(r"(\d+)", e.task)[0])
    text = e.page.splitlines()[0].partition('press "Submit".')[2]
    words = re.sub(r"[.,]", "", text).split()
    e.type(words[number - 1])
    submit(e)


def arithmetic(e: Episode) -> None:
    found = re.search(r"(\d+)\s*([x+−-])\s*(\d+)\s*=", " ".join(e.page.split()).replace("text: ", ""))
    if found:
        one, sign, two = int(found[1]), found[2], int(found[3])
        e.type(str(one + two if sign == "+" else one * two if sign == "x" else one - two))
    submit(e)


def spinner(e: Episode) -> None:
    number = int(re.findall(r"(-?\d+)", e.task)[0])
    ref = e.ref(role="spinbutton|textbox")
    e.call("type", ref=ref, text=str(number))
    submit(e)


def upper_lower(e: Episode) -> None:
    text = e.quoted()[0]
    e.type(text.upper() if "upper case" in e.task else text.lower())
    submit(e)


def search_engine(e: Episode) -> None:
    text, place = e.quoted()[0], int(re.findall(r"(\d+)(?:st|nd|rd|th)", e.task)[0])
    e.type(text)
    e.look()
    e.click("Search", "button")
    page, on = divmod(place - 1, 3)
    if page:
        e.click(str(page + 1), "link")
    links = [ref for kind, _, ref, _ in e.lines() if kind == "link"]
    if len(links) > on:
        e.call("click", ref=links[on])


TASKS: dict[str, Callable[[Episode], object]] = {
    "click-test": lambda e: e.click("Click Me!", "button"),
    "click-test-2": lambda e: e.click("ONE", "button"),
    "click-test-transfer": lambda e: e.click("ONE", "button"),
    "click-button": click_named,
    "click-link": click_named,
    "click-button-sequence": sequence,
    "click-checkboxes": click_checkboxes,
    "click-checkboxes-large": click_checkboxes,
    "click-checkboxes-transfer": click_checkboxes,
    "click-collapsible": collapsible,
    "click-collapsible-nodelay": collapsible,
    "click-collapsible-2": collapsible_2,
    "click-collapsible-2-nodelay": collapsible_2,
    "click-dialog": close_dialog,
    "click-dialog-2": dialog,
    "click-option": click_option,
    "click-tab": click_tab,
    "click-tab-2": tabs_link,
    "click-tab-2-easy": tabs_link,
    "click-tab-2-medium": tabs_link,
    "click-tab-2-hard": tabs_link,
    "click-widget": widget,
    "choose-list": choose_list,
    "click-scroll-list": click_scroll_list,
    "enter-date": enter_date,
    "enter-password": password,
    "enter-text": enter_text,
    "enter-text-2": upper_lower,
    "enter-text-dynamic": enter_text,
    "enter-time": enter_time,
    "find-word": find_word,
    "focus-text": focus,
    "focus-text-2": focus,
    "login-user": login,
    "read-table": read_table,
    "search-engine": search_engine,
    "simple-arithmetic": arithmetic,
    "use-autocomplete": autocomplete,
    "use-autocomplete-nodelay": autocomplete,
    "use-spinner": spinner,
}


def main() -> None:
    """Run the tasks and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("html", type=Path)
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--task", action="append", default=[])
    parser.add_argument("--verbose", action="store_true")
    chosen = parser.parse_args()
    stage = BrowserStage(Path(tempfile.mkdtemp(prefix="miniwob-")))
    for path in chosen.html.rglob("*"):
        if path.is_file():
            kind = KINDS.get(path.suffix, "text/html; charset=utf-8")
            stage.site.pages[f"/{path.relative_to(chosen.html)}"] = Reply(path.read_bytes(), kind=kind)
    right = count = 0
    try:
        for name, solve in TASKS.items():
            if chosen.task and name not in chosen.task:
                continue
            full, characters = 0, 0
            for seed in range(chosen.seeds):
                episode = Episode(stage, name, seed)
                solve(episode)
                reward = episode.reward()
                full += reward >= 1
                characters += episode.characters
                if reward < 1 and chosen.verbose:
                    print(
                        f"--- {name} seed {seed}: {reward} {episode.task}\n{episode.faults}\n{episode.look()}"
                    )
            right, count = right + full, count + chosen.seeds
            print(
                f"{name:28} {full}/{chosen.seeds}  {characters // 4 // max(chosen.seeds, 1):5} tokens",
                flush=True,
            )
    finally:
        stage.close()
    print(f"{'all':28} {right}/{count} = {100 * right / max(count, 1):.1f} %")


if __name__ == "__main__":
    main()
