"""Pictures of a chat as its platform shows it, for the documentation.

    python docs/make_chat_pictures.py [NAME]

A service with a scripted model talks to strict servers of Telegram and Slack on loopback. What they received,
text with its marks and buttons, is drawn by a headless Chromium.
"""

# ruff: noqa: E402
from __future__ import annotations

import html
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from tests.support.chat_platform import ShownMessage, until
from tests.support.chat_stage import ChatStage
from tests.support.chromium import Browser
from tests.support.loop_platforms import SlackPlatform
from tests.support.telegram_server import TelegramServer

WIDTH, HEIGHT = 500, 600
LONG = 120
"""Seconds after which what should come is given up."""
SCRIPT = r'''
ANSWER = """The tests of **`store`** take longest. Three of them sleep:

```python
def test_a_lock_is_waited_for():
    with held(lock):
        time.sleep(2)  # a condition would do
```

1. `test_a_lock_is_waited_for`: 2.1 s
2. `test_two_writers`: 1.6 s
3. `test_recovery`: 1.2 s

Shall I make them wait for a *condition* instead? See <https://docs.python.org/3/library/threading.html>."""

def script(request):
    asked = [str(each["content"]) for each in request.messages if each.get("role") == "user"]
    if "push" in [each for each in asked if "The person changed files" not in each][-1]:
        return call("terminal", command="git push origin main")
    return say(ANSWER)
'''
COMMON = """
* { box-sizing: border-box }
body { margin: 0; font: 15px/1.38 system-ui, 'DejaVu Sans', sans-serif }
pre, code { font-family: 'DejaVu Sans Mono', monospace; font-size: 13px }
pre { margin: 6px 0; padding: 8px; border-radius: 4px; white-space: pre-wrap; overflow-wrap: anywhere }
header { padding: 12px 16px; font-weight: 600 }
header small { display: block; font-weight: 400; opacity: .7 }
.text { white-space: pre-wrap; overflow-wrap: anywhere }
.buttons { display: flex; flex-wrap: wrap; gap: 6px; margin-top: 6px }
.buttons span { font-weight: 600 }
"""
TELEGRAM = """
body { background: #c6d8b8 }
header { background: #fff; color: #111 }
main { padding: 12px; display: flex; flex-direction: column; gap: 8px }
.message { max-width: 92%; align-self: flex-start }
.bubble { background: #fff; border-radius: 12px; padding: 8px 12px }
.person { align-self: flex-end }
.person .bubble { background: #e5ffd0 }
.who { display: none }
pre { background: #f0f3f7; border-left: 3px solid #3a8ee6 }
code { color: #b0305c }
pre code { color: inherit }
a { color: #2481cc }
.buttons span { flex: 1 1 45%; padding: 8px; text-align: center; background: #7a9a66; color: #fff }
.buttons span { border-radius: 8px }
"""
SLACK = """
body { background: #fff; color: #1d1c1d }
header { border-bottom: 1px solid #ddd }
main { padding: 12px 16px }
.message { padding: 6px 0 6px 46px; position: relative }
.message:before {
  content: 'H'; position: absolute; left: 0; top: 8px; width: 36px; height: 36px; border-radius: 8px;
  background: #4a154b; color: #fff; display: grid; place-items: center; font-weight: 700;
}
.person:before { content: 'A'; background: #1264a3 }
.who { font-weight: 700 }
pre, code { background: #f8f8f8; border: 1px solid #ddd }
code { border-radius: 3px; padding: 0 3px; color: #c01343 }
pre code { border: 0; color: inherit }
a { color: #1264a3 }
.buttons span { border: 1px solid #bbb; border-radius: 4px; padding: 6px 12px }
"""


class Line(NamedTuple):
    """A message of the chat: who wrote it, its text as HTML, its buttons."""

    of_person: bool
    text: str
    buttons: tuple[str, ...] = ()


class Look(NamedTuple):
    """How a platform draws a chat."""

    title: str
    read: Callable[[ShownMessage], str]
    style: str


def telegram_html(message: ShownMessage) -> str:
    """The text as it was sent: HTML of Telegram's own tags."""
    # Behind a block a new line begins by itself.
    return str(message.form.get("text", message.text)).replace("</pre>\n", "</pre>")


def slack_html(message: ShownMessage) -> str:
    """Slack's mrkdwn as HTML."""
    parts = re.split(r"```\n?(.*?)```\n?", str(message.form["text"]), flags=re.DOTALL)
    return "".join(f"<pre>{part}</pre>" if number % 2 else _marked(part) for number, part in enumerate(parts))


def _marked(text: str) -> str:
    text = re.sub(r"<(https?://[^|>]+)(?:\|([^>]*))?>", lambda m: f'<a href="#">{m[2] or m[1]}</a>', text)
    text = re.sub(r"`([^`\n]+)`", r"<code>\1</code>", text)
    text = re.sub(r"(?<![\w*])\*([^*\n]+)\*(?!\w)", r"<b>\1</b>", text)
    return re.sub(r"(?<![\w_])_([^_\n]+)_(?!\w)", r"<i>\1</i>", text)


LOOKS = {
    "telegram": Look("Hermes", telegram_html, TELEGRAM),
    "slack": Look("Hermes (app)", slack_html, SLACK),
}


def page(look: Look, lines: list[Line]) -> str:
    """The chat as a page."""
    return (
        f'<!doctype html><meta charset="utf-8"><style>{COMMON}{look.style}</style>'
        f"<header>{look.title}<small>bot</small></header><main>{''.join(map(drawn, lines))}</main>"
    )


def drawn(line: Line) -> str:
    """A message as HTML."""
    kind, who = ("message person", "Ana") if line.of_person else ("message", "Hermes")
    labels = "".join(f"<span>{html.escape(each)}</span>" for each in line.buttons)
    buttons = f'<div class="buttons">{labels}</div>' if labels else ""
    return (
        f'<div class="{kind}"><div class="bubble"><div class="who">{who}</div>'
        f'<div class="text">{line.text}</div></div>{buttons}</div>'
    )


def talk(platform: Any, look: Look) -> list[Line]:
    """What is said: a question with its answer, and a task that needs a yes."""
    lines: list[Line] = []

    def asked(text: str) -> ShownMessage:
        lines.append(Line(True, html.escape(text)))
        before = len(platform.shown)
        platform.write(text)
        return until(
            lambda: platform.shown[before] if len(platform.shown) > before else None, "an answer", LONG
        )

    answer = asked("Which tests are slowest?")
    until(lambda: answer.text.endswith((".html.", ".html>.")), "all of it", LONG)
    lines.append(Line(False, look.read(answer)))
    question = asked("Then push what is there")
    until(lambda: question.buttons, "buttons", LONG)
    lines.append(Line(False, look.read(question), tuple(label for label, _ in question.buttons)))
    return lines


def main(names: list[str]) -> None:
    """Make the pictures of these platforms."""
    for name, kind in {"telegram": TelegramServer, "slack": SlackPlatform}.items():
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            with ChatStage(folder / "stage", kind(), script=SCRIPT) as stage:
                chat = page(LOOKS[name], talk(stage.platforms[name], LOOKS[name]))
            (folder / "chat.html").write_text(chat, "utf-8")
            with Browser(folder / "browser", WIDTH, HEIGHT) as browser:
                browser.open(f"file://{folder}/chat.html")
                browser.until("document.querySelector('.buttons')")
                browser.size(WIDTH, browser.run("document.documentElement.scrollHeight"), dark=False)
                browser.picture(DOCS / "images" / f"chat-{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
