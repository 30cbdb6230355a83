"""The prompt in a small application, driven by keys, pastes and the mouse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from tests.support.waiting import until
from tests.widgets.prompt.host import FILES, Host
from tests.widgets.prompt.scenes import paste, settle, type_in
from widgets.prompt.widget import Prompt


@asynccontextmanager
async def running(
    *, vi: bool = False, history: Path | None = None
) -> AsyncIterator[tuple[Host, Prompt, Pilot[None]]]:
    app = Host(vi=vi, history=history)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        yield app, app.prompt, pilot


def shown(prompt: Prompt) -> list[str]:
    return [prompt.render_line(y).text for y in range(prompt.size.height)]


async def test_enter_sends_and_empties_the_prompt() -> None:
    async with running() as (app, prompt, pilot):
        await type_in(pilot, "fix it")
        await pilot.press("enter", "enter")
        assert app.sent == [("send", "fix it")]
        assert prompt.text == ""


@pytest.mark.sample(2)
@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter", "alt+enter"])
async def test_a_line_feed_is_typed_without_sending(key: str) -> None:
    async with running() as (app, prompt, pilot):
        await pilot.press("a", key, "b")
        assert prompt.text == "a\nb"
        assert prompt.size.height == 2
        assert app.sent == []


async def test_while_the_agent_works_enter_queues_and_ctrl_s_steers() -> None:
    async with running() as (app, prompt, pilot):
        prompt.busy = True
        await pilot.press("a", "enter", "b", "ctrl+s")
        await type_in(pilot, "/undo")
        await pilot.press("enter")
        assert app.sent == [("queue", "a"), ("steer", "b"), ("command", "undo")]
        assert shown(prompt)[-1].rstrip().endswith("⏎ queue · ^S steer · esc stop")


async def test_steering_stands_above_the_queue_until_it_is_read() -> None:
    async with running() as (_, prompt, pilot):
        prompt.busy, prompt.queued = True, ("first", "second")
        prompt.steering = ("use two\ncoats", "and hurry")
        await pilot.pause()
        rows = shown(prompt)
        assert rows[0].startswith("↪ and hurry … +1 · read before the next request")
        assert rows[1].startswith("○ 1  first")
        await pilot.click(prompt, offset=(4, 2))
        assert shown(prompt)[2].startswith("▸ 2  second")
        prompt.steering = ()
        await pilot.pause()
        assert shown(prompt)[0].startswith("○ 1  first")


async def test_keys_without_use_here_travel_on() -> None:
    async with running() as (app, _, pilot):
        await pilot.press("escape", "ctrl+c", "ctrl+d", "tab", "pageup", "f1")
        assert app.keys == ["escape", "ctrl+c", "ctrl+d", "tab", "pageup", "f1"]


async def test_readline_keys_edit() -> None:
    async with running() as (_, prompt, pilot):
        await type_in(pilot, "one two three")
        await pilot.press("ctrl+w", "ctrl+a", "ctrl+f", "ctrl+d", "ctrl+e", "ctrl+y")
        assert prompt.text == "oe two three"
        await pilot.press("ctrl+underscore")
        assert prompt.text == "oe two "


@pytest.mark.thorough
async def test_the_prompt_grows_to_a_third_of_the_screen_and_then_scrolls() -> None:
    async with running() as (_, prompt, pilot):
        for number in range(12):
            await pilot.press(*str(number), "ctrl+j")
        assert prompt.size.height == 8
        assert shown(prompt)[0].startswith("↑ 5")
        await pilot.press("ctrl+home")
        assert shown(prompt)[0].startswith("❯ 0")
        assert shown(prompt)[-1].startswith("↓ 7")


async def test_a_key_paints_only_the_rows_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as (_, prompt, pilot):
        await pilot.press("a", "ctrl+j", "b")
        painted: list[tuple[int, bool]] = []
        refresh = prompt.refresh

        def note(*regions, layout: bool = False, **others):
            painted.extend((region.y, layout) for region in regions)
            assert regions or not layout
            return refresh(*regions, layout=layout, **others)

        monkeypatch.setattr(prompt, "refresh", note)
        await pilot.press("c")
        assert painted == [(1, False)]


async def test_a_long_paste_is_one_character_that_is_sent_whole() -> None:
    async with running() as (app, prompt, pilot):
        log = "a line\n" * 340
        await type_in(pilot, "why ")
        await paste(pilot, log.replace("\n", "\r"))
        assert "[paste #1 · 340 lines]" in shown(prompt)[0]
        await pilot.press("x", "backspace", "backspace")
        assert prompt.text == "why "
        await pilot.press("ctrl+underscore", "enter")
        assert app.sent == [("send", f"why {log}x")]


async def test_alt_p_opens_the_paste_in_place() -> None:
    async with running() as (_, prompt, pilot):
        await paste(pilot, "x" * 1_200)
        assert len(shown(prompt)) == 1
        await pilot.press("alt+p")
        assert prompt.text == "x" * 1_200
        assert prompt.size.height == 8


async def test_a_paste_that_looks_like_a_command_runs_nothing() -> None:
    async with running() as (app, _, pilot):
        await paste(pilot, "!rm -rf x\n" * 20)
        await pilot.press("enter")
        assert app.sent[0][0] == "send"


async def test_a_megabyte_is_pasted_and_sent_clean() -> None:
    async with running() as (app, prompt, pilot):
        await paste(pilot, "\x1b[31mred\x1b[0m line of a log\r" * 40_000)
        assert len(shown(prompt)) == 1
        await settle(pilot)
        await pilot.press("enter")
        assert app.sent[0][1].split("\n")[:2] == ["red line of a log"] * 2
        assert "\x1b" not in app.sent[0][1]


async def test_up_and_down_walk_the_history_and_keep_the_draft() -> None:
    async with running() as (_, prompt, pilot):
        for text in ("first", "second\nof two lines"):
            prompt.history.add(text)
        await type_in(pilot, "draft")
        await pilot.press("up")
        assert prompt.text == "second\nof two lines"
        await pilot.press("up")
        assert prompt.text == "first"
        await pilot.press("down", "down", "down")
        assert prompt.text == "draft"


async def test_up_reaches_the_oldest_entry_past_commands_and_mentions() -> None:
    entries = ["the oldest", "/sk", "look at @mon", "!ls", "two\nlines"]
    async with running() as (_, prompt, pilot):
        for text in entries:
            prompt.history.add(text)
        await type_in(pilot, "draft")
        seen: list[str] = []
        for _ in range(len(entries)):
            await pilot.press("up")
            await settle(pilot)
            seen.append(prompt.text)
            assert not prompt.menu.is_open
        assert seen == entries[::-1]
        await pilot.press(*["down"] * (len(entries) + 1))
        assert prompt.text == "draft"


async def test_an_entry_that_is_changed_is_completed_again() -> None:
    async with running() as (_, prompt, pilot):
        prompt.history.add("/sk")
        await pilot.press("up", "i")
        await settle(pilot)
        assert prompt.menu.is_open


async def test_history_comes_back_in_the_next_session(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    async with running(history=path) as (_, _, pilot):
        await type_in(pilot, "fix it")
        await pilot.press("enter")
        while not path.exists():
            await pilot.pause(0.01)
    async with running(history=path) as (_, prompt, pilot):
        await pilot.press("up")
        assert prompt.text == "fix it"


async def test_ctrl_r_finds_what_was_sent_before() -> None:
    async with running() as (app, prompt, pilot):
        for text in ("fix money", "run tests", "fix views"):
            prompt.history.add(text)
        await type_in(pilot, "draft")
        await pilot.press("ctrl+r", "f", "i", "x")
        assert "fix views" in shown(prompt)[0]
        await pilot.press("ctrl+r")
        assert "fix money" in shown(prompt)[0]
        await pilot.press("escape")
        assert (prompt.text, app.keys) == ("draft", [])
        await pilot.press("ctrl+r", "r", "u", "enter")
        assert prompt.text == "run tests"
        assert app.sent == []


async def test_the_slash_menu_completes_and_runs() -> None:
    async with running() as (app, prompt, pilot):
        await type_in(pilot, "/mod")
        assert [choice.label for choice in prompt.menu.choices] == ["/model"]
        await pilot.press("tab")
        assert (prompt.text, prompt.menu.is_open) == ("/model ", False)
        await type_in(pilot, "x")
        await pilot.press("enter")
        await type_in(pilot, "/")
        await pilot.press("up", "enter")
        assert app.sent == [("command", "model x"), ("command", "quit")]


async def test_escape_closes_the_menu_and_keeps_it_closed_for_this_word() -> None:
    async with running() as (app, prompt, pilot):
        await type_in(pilot, "/m")
        await pilot.press("escape")
        assert not prompt.menu.is_open
        await type_in(pilot, "o")
        assert (prompt.menu.is_open, prompt.text, app.keys) == (False, "/mo", [])
        await pilot.press("ctrl+u", "slash")
        assert prompt.menu.is_open


async def test_the_menu_leaves_the_conversation_where_it_is() -> None:
    async with running() as (app, prompt, pilot):
        before = app.query_one("#conversation").region
        await type_in(pilot, "/")
        assert app.query_one("#conversation").region == before
        assert (prompt.menu.region.height, prompt.menu.region.bottom) == (8, prompt.region.y)
        # Nothing of what it covers looks out beside it, and its text stands above that of the prompt.
        assert (prompt.menu.region.x, prompt.menu.region.width) == (0, app.size.width)
        assert prompt.menu.render_line(0).text.index("▸") == prompt.region.x == 1


async def test_a_file_is_mentioned() -> None:
    async with running() as (_, prompt, pilot):
        await type_in(pilot, "see @notes")
        await settle(pilot)
        await pilot.press("tab")
        assert prompt.text == 'see @"docs/money notes.md" '


async def test_a_ranking_that_comes_late_is_dropped() -> None:
    async with running() as (_, prompt, pilot):
        release = asyncio.Event()
        loop = asyncio.get_running_loop()

        def slow() -> tuple[str, ...]:
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result(10)
            return FILES

        prompt.completer.files_provider = slow
        await type_in(pilot, "@mon")
        await pilot.press("ctrl+u")
        release.set()
        await settle(pilot)
        assert not prompt.menu.is_open


async def test_a_file_is_attached_by_its_form_and_its_lines_are_typed_behind_it() -> None:
    async with running() as (_, prompt, pilot):
        await type_in(pilot, "@fi")
        await until(pilot, lambda: prompt.menu.is_open)
        assert prompt.menu.choices[0].label == "file:"
        await pilot.press("tab")
        assert prompt.text == "@file:"
        await type_in(pilot, "mon")
        await until(pilot, lambda: prompt.menu.is_open and prompt.menu.choices[0].label == "src/money.py")
        await pilot.press("tab")
        await type_in(pilot, ":1-2")
        await settle(pilot)
        assert (prompt.text, prompt.menu.is_open) == ("@file:src/money.py:1-2", False)


async def test_up_from_the_empty_prompt_takes_the_last_queued_message_back() -> None:
    async with running() as (app, prompt, pilot):
        prompt.queued = ("one", "two")
        await pilot.press("up")
        assert (prompt.text, prompt.queued) == ("two", ("one",))
        (message,) = app.told
        assert isinstance(message, Prompt.QueueRecalled)
        assert (message.index, message.text) == (1, "two")


@pytest.mark.thorough
async def test_a_queued_message_is_chosen_and_dropped() -> None:
    async with running() as (app, prompt, pilot):
        prompt.queued = ("one", "two", "three")
        await type_in(pilot, "draft")
        await pilot.press("alt+up", "up", "d")
        assert (prompt.queued, prompt.text) == (("one", "three"), "draft")
        (message,) = app.told
        assert isinstance(message, Prompt.QueueRemoved)
        assert message.index == 1
        await pilot.press("escape", "!")
        assert prompt.text == "draft!"


async def test_a_click_places_the_cursor_and_shift_arrows_select() -> None:
    async with running() as (_, prompt, pilot):
        await type_in(pilot, "one 日本 two")
        await pilot.click(prompt, offset=(8, 0))
        await pilot.press("shift+right", "shift+right")
        assert prompt.selected_text == "本 "
        await pilot.press("x")
        assert prompt.text == "one 日xtwo"


async def test_vi_keys_work_and_escape_leaves_insert_mode_first() -> None:
    async with running(vi=True) as (app, prompt, pilot):
        await type_in(pilot, "one two")
        await pilot.press("escape", "b", "d", "w")
        assert (prompt.text, app.keys) == ("one ", [])
        assert "vi" in shown(prompt)[0]
        await pilot.press("escape")
        assert app.keys == ["escape"]
        await pilot.press("enter")
        assert app.sent == [("send", "one")]


async def test_the_editor_gets_the_whole_text_and_gives_another_back() -> None:
    async with running() as (app, prompt, pilot):
        await type_in(pilot, "draft")
        await pilot.press("ctrl+g")
        (message,) = app.told
        assert isinstance(message, Prompt.EditorRequested)
        assert message.text == "draft"
        prompt.set_text("from the\r\neditor\x1b[2J\n")
        assert prompt.text == "from the\neditor\n"


async def test_keys_can_be_given_anew() -> None:
    async with running() as (app, prompt, pilot):
        prompt.bind_keys({"prompt.submit": "f2"})
        await pilot.press("a", "enter", "f2")
        assert app.keys == ["enter"]
        assert app.sent == [("send", "a")]


async def test_fast_typing_is_sent_in_order() -> None:
    async with running() as (app, prompt, pilot):
        for character in "ab\rcd\r":
            key = "enter" if character == "\r" else character
            prompt.post_message(events.Key(key, character))
        await pilot.pause()
        assert app.sent == [("send", "ab"), ("send", "cd")]


async def test_a_file_listing_that_fails_costs_only_the_menu() -> None:
    async with running() as (_, prompt, pilot):

        def broken() -> tuple[str, ...]:
            raise PermissionError("no entry [red]")

        prompt.completer.files_provider = broken
        await type_in(pilot, "@mon")
        await settle(pilot)
        assert (prompt.text, prompt.menu.is_open) == ("@mon", False)


async def test_blanks_of_japanese_keyboards_are_typed() -> None:
    async with running() as (_, prompt, pilot):
        for character in "日\u3000本":
            prompt.post_message(events.Key(character, character))
        await pilot.pause()
        assert prompt.text == "日\u3000本"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "key", [("alt+enter", None), ("shift+enter", None), ("shift+\r", "\r"), ("\r", "\r")], ids=repr
)
async def test_return_with_alt_or_shift_is_a_line_break_however_it_is_read(
    key: tuple[str, str | None],
) -> None:
    async with running() as (app, prompt, pilot):
        await type_in(pilot, "one")
        prompt.post_message(events.Key(*key))
        await settle(pilot)
        await type_in(pilot, "two")
        assert (prompt.text, app.sent) == ("one\ntwo", [])
