"""Hostile names of files in the menu of the prompt, and hostile text in its history, to the byte."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from textual import events

from app.tui.conversation.mentions import files_of
from tests.support.hostile import KINDS, Kind, some_or_all
from tests.support.watched import Watch, watched
from tools.text.safe_text import clean, steers
from widgets.prompt.history import History

SIZE = (110, 40)
LONGEST = 255
"""Bytes of the name of a file."""
NUMBERED = [kind.numbered(number) for number, kind in enumerate(KINDS)]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HERMES_REDUCED_MOTION", "1")


def of(step: int) -> list[Kind]:
    """All kinds for the thorough tests, a few of all sorts else."""
    return NUMBERED[:: 1 if step == 1 else 5 * step]


def name_of(kind: Kind) -> bytes:
    """The text as far as it can be the name of a file; half characters become bytes that are not text."""
    whole = kind.text.encode("utf-8", "surrogatepass").replace(b"\0", b"").replace(b"/", b"-")
    return whole[:LONGEST]


def laid_out(folder: Path, kinds: list[Kind]) -> dict[str, str | None]:
    """Files of these names. For the word of each its name, None where the menu is not to offer it."""
    folder.mkdir()
    names: dict[str, str | None] = {}
    for kind in kinds:
        name = name_of(kind)
        (folder / os.fsdecode(name)).write_text("x")
        text = os.fsdecode(name)
        can_be_shown = text.isprintable() and clean(text) == text and '"' not in text
        names[kind.shows[0]] = text if can_be_shown else None
    return names


async def offered(watch: Watch, word: str) -> list[str]:
    """What the menu offers of that word for `@` and the word."""
    prompt = watch.app.session.prompt
    prompt.clear()
    await watch.pilot.press("@")
    prompt.post_message(events.Paste(word))
    await watch.settle()
    while any(worker.group == "files" and not worker.is_finished for worker in watch.app.workers):
        await watch.pilot.pause(0.01)
    await watch.settle()
    return [choice.label for choice in prompt.menu.choices if word in choice.label]


@pytest.mark.thorough
@some_or_all
async def test_the_menu_offers_files_by_names_that_can_be_shown_and_no_others(
    tmp_path: Path, step: int
) -> None:
    names = laid_out(tmp_path / "files", of(step))
    assert None in names.values() and any(names.values())
    async with watched(SIZE, files=files_of(tmp_path / "files")) as watch:
        for word, name in names.items():
            labels = await offered(watch, word)
            assert labels == ([name] if name else []), word
            assert watch.faults == [], word
            if name:
                assert word in watch.seen() or len(name) > SIZE[0] - 10, word
        assert watch.app.is_running and not watch.app.has_crashed


@some_or_all
async def test_a_hostile_name_that_is_taken_stands_in_the_draft_as_it_is(tmp_path: Path, step: int) -> None:
    names = {word: name for word, name in laid_out(tmp_path / "files", of(step)).items() if name}
    async with watched(SIZE, files=files_of(tmp_path / "files")) as watch:
        for word, name in names.items():
            assert (await offered(watch, word))[:1] == [name]
            await watch.pilot.press("tab")
            await watch.settle()
            text = watch.app.session.prompt.text
            assert text in (f"@{name} ", f'@"{name}" ') and not steers(text), word
            assert watch.faults == [], word
        assert watch.app.is_running


async def test_all_names_of_a_folder_can_be_walked_through(tmp_path: Path) -> None:
    laid_out(tmp_path / "files", NUMBERED[::4])
    async with watched((80, 24), files=files_of(tmp_path / "files")) as watch:
        await watch.pilot.press("@")
        menu = watch.app.session.prompt.menu
        while not menu.choices:
            await watch.pilot.pause(0.01)
        for _ in range(len(menu.choices)):
            await watch.pilot.press("down")
        await watch.settle()
        assert watch.faults == [] and watch.app.is_running


@pytest.mark.thorough
@some_or_all
async def test_what_was_sent_before_is_found_again_and_steers_nothing(tmp_path: Path, step: int) -> None:
    kinds = [kind for kind in of(step) if not kind.huge]
    file = tmp_path / "history.jsonl"
    # What another version or a person wrote into the file is not tidied.
    file.write_text("".join(json.dumps({"text": kind.text}) + "\n" for kind in kinds))
    async with watched(SIZE, history=History(lambda: file)) as watch:
        prompt = watch.app.session.prompt
        await watch.settle(0.1)
        for kind in kinds:
            await watch.pilot.press("ctrl+r")
            prompt.post_message(events.Paste(kind.shows[0]))
            await watch.settle()
            assert watch.faults == [], kind.name
            assert kind.shows[0] in watch.seen(prompt), kind.name
            await watch.pilot.press("escape")
        assert watch.app.is_running
