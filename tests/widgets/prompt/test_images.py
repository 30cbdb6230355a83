"""Images in the prompt: dropped, chosen, sent, deleted, recalled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from textual import events

from tests.widgets.prompt.host import Host
from widgets.prompt.draft import FoundFile, MentionedFile
from widgets.prompt.messages import Submitted

FILES = {
    "/pics/chart.png": FoundFile("pics/chart.png", "[image: chart.png 120 KB]"),
    "/pics/my shot.png": FoundFile("/pics/my shot.png", "[image: my shot.png 3 KB]"),
    "pics/chart.png": FoundFile("pics/chart.png", "[image: chart.png 120 KB]"),
    "/notes.txt.d/notes.txt": FoundFile("notes.txt"),
    "/pics/huge.png": FoundFile("/pics/huge.png", problem="huge.png has 12 MB; scale it down."),
}


def look(paths: Sequence[Sequence[str]]) -> list[FoundFile] | None:
    return next(
        ([FILES[path] for path in reading] for reading in paths if all(path in FILES for path in reading)),
        None,
    )


async def settled(pilot) -> None:
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def host() -> Host:
    app = Host()
    app.prompt.files.look = look
    return app


def sent(app: Host) -> list[Submitted]:
    return [message for message in app.told if isinstance(message, Submitted)]


def drawn(app: Host) -> str:
    return "\n".join(strip.text for strip in app.prompt._picture.strips)


async def paste(app: Host, pilot, text: str) -> None:
    app.prompt.post_message(events.Paste(text))
    await pilot.pause()
    await settled(pilot)


async def test_a_dropped_image_is_one_token_that_is_sent_as_its_mention() -> None:
    app = Host()
    app.prompt.files.look = look
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*"see ")
        await paste(app, pilot, "'/pics/chart.png' ")
        assert "see [image: chart.png 120 KB]" in drawn(app)
        await pilot.press("enter")
        await pilot.pause()
        assert [(each.text, each.images) for each in sent(app)] == [
            ("see @pics/chart.png", (MentionedFile("@pics/chart.png", "pics/chart.png"),))
        ]
        await pilot.press("up")
        assert app.prompt.text == "see @pics/chart.png"


async def test_the_token_is_deleted_undone_and_opened_as_one() -> None:
    app = host()
    async with app.run_test(size=(80, 24)) as pilot:
        await paste(app, pilot, "/pics/chart.png")
        await pilot.press("backspace")
        assert app.prompt.text == ""
        await pilot.press("ctrl+underscore")
        assert app.prompt.text == "@pics/chart.png" and "[image: chart.png 120 KB]" in drawn(app)
        app.prompt.set_text("")
        await paste(app, pilot, "/pics/chart.png")
        await pilot.press("alt+p")
        assert "@pics/chart.png" in drawn(app)


async def test_several_images_are_a_token_each() -> None:
    app = host()
    async with app.run_test(size=(80, 24)) as pilot:
        await paste(app, pilot, "/pics/chart.png\n/pics/my shot.png\n")
        assert "[image: chart.png 120 KB] [image: my shot.png 3 KB]" in drawn(app)
        assert app.prompt.text == '@pics/chart.png @"/pics/my shot.png"'
        await pilot.press("backspace")
        assert app.prompt.text == "@pics/chart.png "


async def test_another_file_becomes_a_mention_and_no_file_stays_text() -> None:
    app = host()
    async with app.run_test(size=(80, 24)) as pilot:
        await paste(app, pilot, "/notes.txt.d/notes.txt")
        assert app.prompt.text == "@notes.txt"
        app.prompt.set_text("")
        await paste(app, pilot, "/no/such/file.png")
        assert app.prompt.text == "/no/such/file.png"


async def test_an_image_that_is_too_large_stays_a_mention_and_says_why() -> None:
    app = host()
    async with app.run_test(size=(80, 24)) as pilot:
        await paste(app, pilot, "/pics/huge.png")
        assert app.prompt.text == "@/pics/huge.png"
        assert [note.message for note in app._notifications] == ["huge.png has 12 MB; scale it down."]


async def test_enter_waits_until_it_is_known_what_was_dropped() -> None:
    app = Host()
    gate = threading.Event()

    def slow(paths: Sequence[Sequence[str]]) -> list[FoundFile] | None:
        gate.wait(10)
        return look(paths)

    app.prompt.files.look = slow
    async with app.run_test(size=(80, 24)) as pilot:
        app.prompt.post_message(events.Paste("/pics/chart.png"))
        await pilot.pause()
        await pilot.press(*" here", "enter")
        assert sent(app) == [] and "[file: chart.png] here" in drawn(app)
        gate.set()
        await settled(pilot)
        assert [each.text for each in sent(app)] == ["@pics/chart.png here"]
        assert sent(app)[0].images and app.prompt.text == ""


async def test_a_second_enter_does_not_wait() -> None:
    app = Host()
    gate = threading.Event()

    def stuck(paths: Sequence[Sequence[str]]) -> list[FoundFile] | None:
        gate.wait(10)
        return None

    app.prompt.files.look = stuck
    async with app.run_test(size=(80, 24)) as pilot:
        app.prompt.post_message(events.Paste("/net/chart.png"))
        await pilot.pause()
        await pilot.press("enter", "enter")
        await pilot.pause()
        assert [(each.text, each.images) for each in sent(app)] == [("/net/chart.png", ())]
        gate.set()
        await settled(pilot)
        assert app.prompt.text == ""


async def test_what_is_typed_meanwhile_keeps_its_place() -> None:
    app = host()
    gate = threading.Event()

    def slow(paths: Sequence[Sequence[str]]) -> list[FoundFile] | None:
        gate.wait(10)
        return look(paths)

    app.prompt.files.look = slow
    async with app.run_test(size=(80, 24)) as pilot:
        app.prompt.post_message(events.Paste("/notes.txt.d/notes.txt"))
        await pilot.pause()
        await pilot.press(*" ab", "left")
        gate.set()
        await settled(pilot)
        await pilot.press("x")
        assert app.prompt.text == "@notes.txt axb"


async def test_commands_and_shell_lines_take_a_drop_as_text() -> None:
    app = host()
    async with app.run_test(size=(80, 24)) as pilot:
        for start in ("!cat ", "/attach "):
            app.prompt.set_text(start)
            await paste(app, pilot, "/pics/chart.png")
            assert app.prompt.text == start + "/pics/chart.png"


async def test_a_mention_attaches_where_it_can_be_read_but_not_in_a_folded_paste() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        app.prompt.set_text("look at @a.png ")
        app.prompt.post_message(events.Paste("log @hidden.png\n" * 20))
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        assert sent(app)[0].images == (MentionedFile("@a.png", "a.png"),)
        assert "@hidden.png" in sent(app)[0].text


async def test_a_look_that_fails_costs_the_token_never_the_paste() -> None:
    app = host()

    def broken(paths: Sequence[Sequence[str]]) -> list[FoundFile] | None:
        raise RuntimeError("the disk is on fire")

    app.prompt.files.look = broken
    async with app.run_test(size=(80, 24)) as pilot:
        await paste(app, pilot, "/pics/chart.png")
        assert app.prompt.text == "/pics/chart.png"
        assert "the disk is on fire" in str([note.message for note in app._notifications])


async def test_the_label_fits_a_narrow_prompt() -> None:
    app = host()
    async with app.run_test(size=(20, 10)) as pilot:
        await paste(app, pilot, "/pics/chart.png")
        await pilot.press(*" and more")
        await asyncio.sleep(0)
        assert all(strip.cell_length <= 20 for strip in app.prompt._picture.strips)
