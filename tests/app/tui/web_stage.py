"""A turn on the web, for pictures: a search, a page that was read, and a page that was looked at."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw
from textual.pilot import Pilot

from agent.events import Event, TextAdded, ToolFinished, ToolStarted
from agent.integrations.web.reading.html import read_html
from app.tui.conversation.clipboard_images import picture_loader
from app.tui.screens.browser import BrowserScreen
from tests.support import story
from tests.support.staged import Staged, drawn
from tests.support.waiting import until
from tools import web_extract_tool, web_search_tool
from tools.browser import tool as browser_tool
from tools.registry import registry
from tools.results import Display
from widgets.pictures.shelf import Graphics
from widgets.transcript.parts import Fold

assert web_extract_tool and web_search_tool and browser_tool
DOCS = "https://docs.python.org/3/library/decimal.html"
QUERY = {"query": "python decimal round to currency digits"}
ASKED = "Look up how decimal rounds, then see whether the total of invoice 2041 is right."
FOUND = {
    "served_by": "exa-public",
    "results": [
        {
            "position": 1,
            "title": "decimal — Decimal fixed-point arithmetic",
            "url": DOCS,
            "date": "2026-05-02",
            "description": "quantize() rounds to the exponent of its operand.",
        },
        {
            "position": 2,
            "title": "ISO 4217 currency codes",
            "url": "https://www.iso.org/iso-4217-currency-codes.html",
            "description": "Minor units: 0 for JPY, 3 for KWD.",
        },
    ],
}
PAGE = """<title>decimal</title><article><h1>Rounding modes</h1><p>quantize() takes the mode as its second
argument.</p><pre><code>Decimal("1.005").quantize(Decimal("0.01"), ROUND_HALF_UP)
</code></pre><table><tr><th>Mode</th><th>Rounds</th></tr>
<tr><td>ROUND_HALF_EVEN</td><td>to nearest, ties to even</td></tr>
<tr><td>ROUND_HALF_UP</td><td>to nearest, ties away from zero</td></tr></table></article>"""
TEXT = """Invoice 2041
https://billing.example.org/invoices/2041
banner
 link "Invoices" [ref=e1]
 link "Settings" [ref=e2]
heading "Invoice 2041" [level=1]
row: Stickers | 3 | ¥ 33 | ¥ 99
row: Shipping | 1 | ¥ 400 | ¥ 400
text: Total ¥ 499
button "Send" [ref=e3]
button "Download" [ref=e4]
"""


def page_folder(root: Path) -> Path:
    """What a session keeps of the page that its agent has open: text and picture."""
    (root / "page.txt").write_text(TEXT, "utf-8")
    picture = Image.new("RGB", (1280, 480), "#f7f7fb")
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, 1280, 64), fill="#24346b")
    for left in (60, 240):
        draw.rectangle((left, 24, left + 120, 40), fill="#c9d2f4")
    draw.rectangle((60, 100, 520, 140), fill="#30344a")
    for top in (190, 240):
        draw.rectangle((60, top, 700, top + 28), fill="#dcdfee")
        draw.rectangle((900, top, 1040, top + 28), fill="#b9bed8")
    draw.rectangle((60, 400, 220, 450), fill="#2f9e5f")
    draw.rectangle((260, 400, 460, 450), fill="#ffffff", outline="#24346b", width=8)
    picture.save(root / "page.jpg", quality=92)
    return root


def on_the_web(opened: int) -> Any:
    """A turn with three cards, of which this one is open: 1 the search, 2 the page; 0 none."""

    async def play(app: Staged, pilot: Pilot[Any]) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = page_folder(Path(name))
            pictures = app.session.transcript.pictures
            pictures.graphics, pictures.probe = Graphics.BLOCKS, None
            pictures.load = picture_loader(lambda: folder)
            app.hear([story.opened(title="Check invoice 2041"), *story.asked(ASKED), *_calls()])
            if opened:
                app.session.transcript.document.fold(opened, Fold.OPEN)
            app.session.transcript.flush()
            await drawn(pilot)
            await until(pilot, lambda: pictures.picture_count == 1, "reading the picture")
            await drawn(pilot)

    return play


def _calls() -> Sequence[Event]:
    content = read_html(PAGE).content
    read = {"url": DOCS, "kind": "html", "characters": 48_113, "passages": 2, "content": content}
    events: list[Event] = []
    for number, (tool, arguments, result) in enumerate(
        (
            ("web_search", QUERY, FOUND),
            ("web_extract", {"urls": [DOCS], "query": "rounding mode"}, {"results": [read]}),
            ("browser_vision", {"question": "Is the total rounded?"}, {"screenshot": "page.jpg"}),
        )
    ):
        found = registry.get(tool)
        assert found is not None
        shown = found.describe(arguments, result)
        events.append(
            ToolStarted(
                call=f"w{number}",
                tool=tool,
                arguments=arguments,
                display=Display(shown.verb, shown.subject),
            )
        )
        events.append(
            ToolFinished(
                node=10 + number,
                call=f"w{number}",
                tool=tool,
                result="{}",
                display=shown,
                outcome="done",
                seconds=0.6 + number,
            )
        )
    return [*events, TextAdded(text="The page shows ¥ 499: the total is whole, as it has to be for yen.")]


async def browser(app: Staged, pilot: Pilot[Any]) -> None:
    """The page that the agent has open."""
    with tempfile.TemporaryDirectory() as name:
        screen: Any = BrowserScreen(page_folder(Path(name)))
        app.push_screen(screen)
        await until(pilot, lambda: len(getattr(screen.rows, "entries", ())) > 5, "reading the page")
        await drawn(pilot)
