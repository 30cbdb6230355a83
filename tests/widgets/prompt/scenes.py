"""States of the prompt as a person brings them about, for snapshots."""

from __future__ import annotations

from textual import events
from textual.pilot import Pilot

from tests.widgets.prompt.host import Host


async def type_in(pilot: Pilot[None], text: str) -> None:
    for character in text:
        await pilot.press(character if character != " " else "space")


async def paste(pilot: Pilot[None], text: str) -> None:
    app = pilot.app
    assert isinstance(app, Host)
    app.prompt.post_message(events.Paste(text))
    await pilot.pause()


async def settle(pilot: Pilot[None]) -> None:
    """Let rankings that run in threads come in."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def empty(pilot: Pilot[None]) -> None:
    await pilot.pause()


async def long_text(pilot: Pilot[None]) -> None:
    await paste(
        pilot,
        "The invoice totals are off by a cent for JPY. "
        "日本円の請求書の合計が一円ずれています。原因を調べて直してください。 "
        "Find out why and fix it 👨‍👩‍👧.\n\n\tthen run the whole suite",
    )


async def slash_menu(pilot: Pilot[None]) -> None:
    await type_in(pilot, "/")
    await pilot.press("down")


async def form_menu(pilot: Pilot[None]) -> None:
    await type_in(pilot, "look at @")
    await settle(pilot)


async def file_menu(pilot: Pilot[None]) -> None:
    await type_in(pilot, "look at @mon")
    await settle(pilot)


async def paste_token(pilot: Pilot[None]) -> None:
    await type_in(pilot, "why does ")
    await paste(pilot, "Traceback\n" * 340)
    await type_in(pilot, " happen")
    await pilot.press("alt+b", "left")


async def busy_with_queue(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, Host)
    app.prompt.busy = True
    app.prompt.queued = ("run the tests again", "then write\na changelog\nentry", "and commit it", "push")
    await type_in(pilot, "and add a changelog line")


async def reverse_search(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, Host)
    for text in ("fix the rounding in money.py", "run the tests", "why is the rounding off?\nlook at JPY"):
        app.prompt.history.add(text)
    await pilot.press("ctrl+r")
    await type_in(pilot, "rou")


SCENES = {
    scene.__name__: scene
    for scene in (
        empty,
        long_text,
        slash_menu,
        form_menu,
        file_menu,
        paste_token,
        busy_with_queue,
        reverse_search,
    )
}
