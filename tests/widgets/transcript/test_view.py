"""The transcript with a person in front of it: streaming, keys, mouse, folds."""

from __future__ import annotations

import pytest
from textual import events
from textual.geometry import Region

from tests.widgets.transcript.support import DIFF, Host, call, converse
from themes.skin import NIGHT, Skin
from tools.results import DiffDetail, Display, TextDetail
from widgets.palette import Palette
from widgets.transcript.parts import AnswerItem, CallItem, MarkupPart, UserItem, source_of

LONG = "\n\n".join(f"Paragraph {number} of an answer." for number in range(60))


def watch_drawing(host: Host) -> list[object]:
    """All parts drawn from now on."""
    drawn: list[object] = []
    document = host.transcript.document
    draw = document.draw

    def counted(part, shift=0):
        drawn.append(part)
        return draw(part, shift)

    document.draw = counted  # type: ignore[method-assign]
    return drawn


def watch_refreshing(host: Host) -> list[tuple[Region, ...]]:
    """The regions of every refresh from now on."""
    refreshed: list[tuple[Region, ...]] = []
    refresh = host.transcript.refresh

    def counted(*regions, **options):
        refreshed.append(regions)
        return refresh(*regions, **options)

    host.transcript.refresh = counted  # type: ignore[method-assign]
    return refreshed


def wheel(kind: type[events.MouseEvent], host: Host) -> events.MouseEvent:
    """One notch of the mouse wheel."""
    return kind(host.transcript, 5, 5, 0, 0, 0, False, False, False)


async def test_a_notice_replaces_the_one_before_it_where_it_says_the_same_again():
    host = Host()
    async with host.run_test(size=(30, 10)):
        host.transcript.welcome(False)
        for text in ("Busy. Trying again in 0.7\N{NO-BREAK SPACE}s (m).", "A line.", "2 again", "3 again"):
            host.transcript.add_notice("warning", text, instead_of="2 again")
        host.transcript.flush()
        rows = [row.strip().lstrip("┊ ") for row in host.rows() if row.strip()]
        assert rows == ["Busy. Trying again in", "0.7\N{NO-BREAK SPACE}s (m).", "A line.", "3 again"]


@pytest.mark.thorough
async def test_streamed_blocks_are_drawn_once_and_a_growing_row_alone_is_painted():
    host = Host()
    async with host.run_test(size=(80, 24)):
        transcript = host.transcript
        drawn, refreshed = watch_drawing(host), watch_refreshing(host)
        text = "".join(f"Sentence {number} of the answer.\n\n" for number in range(1_000))
        tokens = [text[at : at + 7] for at in range(0, len(text), 7)]
        for at, token in enumerate(tokens):
            transcript.add_text(token)
            if at % 10 == 0:
                transcript.flush()
        transcript.finish_answer(text, "", 1)
        transcript.flush()
        whole = [
            part for part in drawn if isinstance(part, MarkupPart) and part.block.source.endswith("answer.")
        ]
        assert len(whole) <= 2 * len(set(whole)) + 10
        assert host.rows()[-1].strip() == "Sentence 999 of the answer."

        transcript.add_text("a")
        transcript.flush()
        refreshed.clear()
        transcript.add_text(" b")
        transcript.flush()
        assert refreshed == [(Region(0, 23, 80, 1),)]


async def test_a_long_fence_is_lexed_line_by_line_while_it_streams():
    host = Host()
    async with host.run_test(size=(80, 24)):
        host.transcript.add_text("```python\n")
        host.transcript.flush()
        drawn = watch_drawing(host)
        for number in range(200):
            host.transcript.add_text(f"x{number} = {number}\n")
            host.transcript.flush()
        host.transcript.add_text("y = ")
        host.transcript.flush()
        assert not any(isinstance(part, MarkupPart) for part in drawn)
        assert host.rows()[-2:] == ["   x199 = 199", "   y ="]


async def test_the_complete_message_that_says_what_streamed_moves_nothing():
    host = Host()
    async with host.run_test(size=(80, 24)):
        for piece in ("I read `a", ".py`.\n\n- one\n", "- two\n\n```\ncode\n", "```\nThe end"):
            host.transcript.add_text(piece)
            host.transcript.flush()
        before = host.rows()
        refreshed = watch_refreshing(host)
        host.transcript.finish_answer("I read `a.py`.\n\n- one\n- two\n\n```\ncode\n```\nThe end", "", 3)
        host.transcript.flush()
        assert host.rows() == before
        assert refreshed == []
        assert host.transcript.document.entries[0].item == AnswerItem(
            "I read `a.py`.\n\n- one\n- two\n\n```\ncode\n```\nThe end", 3
        )


@pytest.mark.parametrize("streamed", ["", "half of", "another answer\n\nof two blocks"])
async def test_the_complete_message_takes_the_place_of_what_streamed(streamed):
    host = Host()
    async with host.run_test(size=(80, 24)):
        host.transcript.add_reasoning("hm")
        host.transcript.add_text(streamed)
        host.transcript.flush()
        host.transcript.finish_answer("The answer.", "hm and so on", 3)
        host.transcript.finish_answer("", "", 4)
        host.transcript.flush()
        assert [row.strip() for row in host.rows() if row.strip()] == [
            "▸ Thought for a moment",
            "The answer.",
        ]
        assert host.transcript.document.entries[0].item.text == "hm and so on"


async def test_a_cut_reply_stays_and_the_next_one_comes_below():
    host = Host()
    async with host.run_test(size=(80, 24)):
        host.transcript.add_text("The first att")
        host.transcript.mark_interrupted()
        host.transcript.add_text("The second attempt.")
        host.transcript.finish_answer("The second attempt.", "", 5)
        host.transcript.flush()
        assert [row.strip() for row in host.rows() if row.strip()] == [
            "The first att",
            "■ The reply broke off.",
            "The second attempt.",
        ]


async def test_who_scrolled_up_stays_and_sees_how_much_is_new():
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        host.transcript.finish_answer(LONG, "", 1)
        host.transcript.flush()
        await pilot.pause()
        host.transcript.navigator.scroll(-30)
        before = host.rows()
        for number in range(3):
            host.transcript.add_notice("info", f"news {number}")
        host.transcript.add_text("And an answer.")
        host.transcript.flush()
        await pilot.pause()
        assert host.rows()[:-1] == before[:-1]
        assert host.rows()[-1].endswith("↓ 4 new")
        assert (host.transcript.following, host.transcript.unread) == (False, 4)
        host.transcript.navigator.jump_to_end()
        await pilot.pause()
        assert host.rows()[-1].strip() == "And an answer."
        assert (host.transcript.following, host.transcript.unread) == (True, 0)
        assert host.scrolled[-2:] == [(False, 4), (True, 0)]


async def test_the_wheel_scrolls_and_reaching_the_end_follows_again():
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        host.transcript.finish_answer(LONG, "", 1)
        host.transcript.flush()
        end = host.rows()
        host.transcript.post_message(wheel(events.MouseScrollUp, host))
        await pilot.pause()
        assert host.rows()[3:] == end[:-3]
        assert not host.transcript.following
        host.transcript.post_message(wheel(events.MouseScrollDown, host))
        await pilot.pause()
        assert host.rows() == end
        assert host.transcript.following


async def test_resizing_keeps_the_place():
    host = Host()
    async with host.run_test(size=(100, 24)) as pilot:
        host.transcript.load([AnswerItem(f"Answer {number}. " + "word " * 50) for number in range(300)])
        host.transcript.flush()
        for _ in range(40):
            host.transcript.navigator.scroll(-11)
        await pilot.pause()
        first = host.transcript._viewport.top.item
        await pilot.resize_terminal(50, 20)
        await pilot.pause()
        assert host.transcript._viewport.top.item == first
        await pilot.resize_terminal(100, 24)
        await pilot.pause()
        assert host.transcript._viewport.top.item == first


async def test_keys_move_the_bar_and_open_and_fold_and_copy():
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        converse(host)
        host.transcript.focus()
        await pilot.press("k", "k")
        assert next(row for row in host.rows() if row.startswith("▎")).startswith("▎▶ code")
        await pilot.press("up", "up")
        (bar,) = (row for row in host.rows() if row.startswith("▎"))
        assert "read     src/money.py" in bar
        await pilot.press("enter")
        opened = [row for row in host.rows() if row.startswith("▎")]
        assert [row[3:].split() for row in opened[1:]] == [
            ["path", "src/money.py", "1–80"],
            ["import", "decimal"],
        ]
        await pilot.press("space")
        assert len([row for row in host.rows() if row.startswith("▎")]) == 1
        await pilot.press("y", "o")
        await pilot.pause()
        assert host.copied[0].startswith("read src/money.py 1–80 80 lines\npath  src/money.py")
        assert isinstance(host.opened[0], CallItem)


async def test_a_notice_with_something_behind_it_opens_by_key_and_click_and_is_bounded():
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        detail = "# Summary\n" + "kept word for word\n" * 9_000
        host.transcript.add_notice("compaction", "Made room.", detail)
        host.transcript.add_notice("info", "Nothing behind it.")
        host.transcript.focus()
        await pilot.pause()
        assert host.screen_text().count("▸") == 1 and "# Summary" not in host.screen_text()
        await pilot.press("k", "k", "enter", "g")
        assert "▾ Made room." in host.screen_text() and "# Summary" in host.screen_text()
        await pilot.press("o", "G")
        assert "more characters; opened in full, all of it is there" in host.screen_text()
        await pilot.pause()
        assert source_of(host.opened[0]) == f"Made room.\n\n{detail}"
        await pilot.press("space")
        at = next(y for y, row in enumerate(host.rows()) if "▸ Made room." in row)
        await pilot.click(offset=(10, at))
        assert "# Summary" in host.screen_text()


async def test_a_click_on_a_head_folds_and_one_on_the_gap_does_nothing():
    host = Host()
    async with host.run_test(size=(100, 40)) as pilot:
        converse(host)
        await pilot.pause()
        at = next(y for y, row in enumerate(host.rows()) if "Thought for 4 s" in row)
        await pilot.click(offset=(10, at))
        assert "▎  Yen have no cents." in host.rows()
        await pilot.click(offset=(10, at))
        assert "Yen have no cents." not in host.screen_text()
        before = host.rows()
        await pilot.click(offset=(10, at - 1))
        assert host.rows() == before


async def test_opening_the_last_card_shows_what_opened():
    host = Host()
    async with host.run_test(size=(80, 10)) as pilot:
        host.transcript.finish_answer(LONG, "", 1)
        output = "\n".join(f"out {number}" for number in range(6))
        call(host.transcript, 1, "read", "a.py", "6 lines", TextDetail(output))
        host.transcript.flush()
        host.transcript.focus()
        await pilot.press("j", "enter")
        assert host.rows()[-1] == "▎  out 5"
        assert any("read     a.py" in row for row in host.rows())


async def test_folding_what_one_is_deep_inside_shows_its_head():
    host = Host()
    async with host.run_test(size=(80, 10)) as pilot:
        output = "\n".join(f"out {number}" for number in range(300))
        call(host.transcript, 1, "read", "a.py", "300 lines", TextDetail(output))
        for number in range(20):
            host.transcript.add_user(f"after {number}")
        host.transcript.navigator.toggle(0)
        host.transcript.navigator.scroll(50)
        host.transcript.navigator.focused = 0
        host.transcript.focus()
        await pilot.press("space")
        assert "read     a.py" in host.rows()[0]


async def test_one_goes_from_question_to_question():
    host = Host()
    async with host.run_test(size=(80, 12)) as pilot:
        for number in range(4):
            host.transcript.add_user(f"question {number}")
            host.transcript.finish_answer(LONG, "", 1)
        host.transcript.flush()
        host.transcript.focus()
        for number in (3, 2, 1):
            await pilot.press("left_square_bracket")
            assert host.rows()[0].endswith(f"❯ question {number}")
        await pilot.press("right_square_bracket")
        assert host.rows()[0].endswith("❯ question 2")
        await pilot.press("g")
        assert host.rows()[0] == "▎❯ question 0" or host.rows()[0].endswith("❯ question 0")
        await pilot.press("G")
        assert host.rows()[-1].strip() == "Paragraph 59 of an answer."


async def test_the_scrollbar_can_be_dragged():
    host = Host()
    async with host.run_test(size=(80, 20)) as pilot:
        host.transcript.load([UserItem(f"question {number}") for number in range(500)])
        await pilot.pause()
        await pilot.hover(offset=(79, 0))
        await pilot.mouse_down(offset=(79, 0))
        assert "question 0" in host.rows()[0]
        await pilot.hover(offset=(79, 10))
        await pilot.mouse_up(offset=(79, 10))
        assert 200 < host.transcript._viewport.top.item < 300
        assert not host.screen.selections


async def test_a_running_call_shows_its_last_lines_and_its_time():
    host = Host()
    async with host.run_test(size=(80, 24)):
        host.transcript.start_call("1", "terminal", Display("terminal", "make"), {})
        host.transcript.progress_call("1", "a\nb\nc\n1%\r50")
        host.transcript.progress_call("1", "%\x1b")
        host.transcript.flush()
        host.transcript.progress_call("1", "[31m\r99%\n")
        host.transcript.progress_call("unknown", "nothing")
        host.transcript.flush()
        host.time.now += 65
        host.transcript._tick()
        assert [row.strip() for row in host.rows()[:4]][1:] == ["b", "c", "99%"]
        assert host.rows()[0].startswith(" ▶ terminal make") and host.rows()[0].endswith("65 s")
        host.transcript.finish_call("1", "interrupted", 65.0, Display("terminal", "make", "stopped"), "{}")
        host.transcript.flush()
        assert host.rows()[0].startswith(" ■ terminal make · stopped")
        assert host.rows()[0].endswith("1 min 5 s") and not host.rows()[1]


async def test_the_time_of_a_call_is_drawn_rarely_once_a_question_is_open_for_a_minute():
    host = Host()
    async with host.run_test(size=(80, 24)):
        host.transcript.start_call("1", "terminal", Display("terminal", "make"), {})
        host.transcript.flush()
        host.transcript.pause_animation(True)
        ticks: list[float] = []
        host.transcript._tick = lambda: ticks.append(host.time.now)  # type: ignore[method-assign]
        for _ in range(180):
            host.time.now += 1
            host.transcript._tick_if_seen()
        assert len([each for each in ticks if each <= 160]) == 60 and len(ticks) == 64
        host.transcript.pause_animation(False)
        host.transcript._tick_if_seen()
        assert len(ticks) >= 65


async def test_one_spinner_turns_and_only_its_row_is_painted():
    host = Host()
    async with host.run_test(size=(80, 24)):
        host.transcript.motion = True
        for name in ("a", "b"):
            host.transcript.start_call(name, "terminal", Display("terminal", name), {})
        host.transcript.flush()
        host.transcript._tick()
        refreshed = watch_refreshing(host)
        host.transcript._tick()
        assert refreshed == [(Region(0, 1, 80, 1),)]
        assert host.rows()[0][1] == "▶" and host.rows()[1][1] in Skin().spinner


async def test_time_passes_for_reasoning_and_calls_and_not_for_an_answer():
    host = Host()
    async with host.run_test(size=(80, 24)):
        transcript = host.transcript
        ticking: list[bool] = []
        for change in (
            lambda: transcript.add_reasoning("hm"),
            lambda: transcript.add_text("So"),
            lambda: transcript.start_call("1", "terminal", Display("terminal", "make"), {}),
            lambda: transcript.finish_call("1", "done", 1.0, Display("terminal", "make"), "{}"),
            lambda: transcript.add_reasoning("well"),
            lambda: transcript.finish_answer("So", "hmwell", 1),
        ):
            change()
            transcript.flush()
            ticking.append(transcript._ticks is not None)
        assert ticking == [True, False, True, False, True, False]


@pytest.mark.thorough
async def test_a_call_that_was_never_started_gets_its_card():
    host = Host()
    async with host.run_test(size=(80, 24)):
        host.transcript.finish_call("x", "done", 0.5, Display("read", "a.py", "3 lines"), "{}")
        host.transcript.flush()
        assert host.rows()[0].startswith(" ✓ read     a.py · 3 lines")


async def test_all_folds_open_and_close_at_once():
    host = Host()
    async with host.run_test(size=(100, 60)):
        converse(host)
        host.transcript.navigator.unfold_all()
        assert {"   Yen have no cents.", "   import decimal"} <= set(host.rows())
        host.transcript.navigator.fold_all()
        assert "return amount.quantize" not in host.screen_text()
        assert "⏎ diff" in host.screen_text()


async def test_opening_everything_again_folds_it():
    host = Host()
    async with host.run_test(size=(100, 60)):
        converse(host)
        host.transcript.navigator.unfold_all()
        assert "return amount.quantize" in host.screen_text()
        host.transcript.navigator.unfold_all()
        assert "return amount.quantize" not in host.screen_text()


async def test_the_welcome_and_what_it_teaches_stay_below_notices_until_something_is_said():
    host = Host()
    async with host.run_test(size=(80, 24)):
        host.transcript.show_hints(["^P finds a command"])
        host.transcript.add_notice("info", "This project brings a server.")
        host.transcript.flush()
        shown = host.screen_text()
        assert "brings a server" in shown and "What should I do?" in shown and "^P finds a command" in shown
        host.transcript.add_user("Hello")
        host.transcript.flush()
        assert "What should I do?" not in host.screen_text()


async def test_another_look_draws_everything_anew():
    host = Host()
    async with host.run_test(size=(80, 24)):
        converse(host)
        host.transcript.add_text("open `tail`")
        host.transcript.flush()
        before = host.rows()
        skin = Skin(colors={**NIGHT, "background": "#ffffff"}, prompt_symbol="$")
        host.transcript.use(Palette(skin))
        assert [row.replace("❯", "$") for row in before] == host.rows()
        for y in range(24):
            grounds = {run.style.bgcolor.name for run in host.transcript.render_line(y) if run.style}
            assert "#14161b" not in grounds


async def test_clearing_forgets_everything():
    host = Host()
    async with host.run_test(size=(80, 24)):
        converse(host)
        host.transcript.add_text("open")
        host.transcript.flush()
        host.transcript.clear()
        assert "What should I do?" in host.screen_text()
        host.transcript.finish_call("code", "done", 1.0, Display("code", "late"), "{}")
        host.transcript.flush()
        assert host.rows()[0].startswith(" ✓ code     late")


async def test_what_comes_before_the_screen_is_there_is_shown_when_it_is():
    host = Host()
    host.transcript.add_user("early")
    host.transcript.add_text("bird")
    call(host.transcript, 1, "edit", "a.py", "+1", DiffDetail(DIFF))
    async with host.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert host.rows()[0] == " ❯ early" and host.rows()[2] == "   bird"


async def test_a_tiny_terminal_is_survived():
    host = Host()
    async with host.run_test(size=(12, 3)) as pilot:
        converse(host)
        host.transcript.focus()
        for key in ("k", "enter", "k", "enter", "g", "G", "pageup", "y"):
            await pilot.press(key)
        await pilot.resize_terminal(4, 1)
        await pilot.pause()
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "invoice" in host.screen_text() or host.transcript.following


async def test_output_that_steers_the_terminal_is_shown_without_its_controls():
    host = Host()
    nasty = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b31m\u202eevil\x00\x7f [b]markup[/b]\t\u200bend"
    async with host.run_test(size=(80, 40)):
        transcript = host.transcript
        transcript.add_user(nasty, origin="steer")
        for character in nasty:
            transcript.add_reasoning(character)
        for character in f"# {nasty}\n\n```{nasty}\n{nasty}":
            transcript.add_text(character)
            transcript.flush()
        transcript.mark_interrupted()
        transcript.add_notice(nasty, nasty)
        transcript.start_call(nasty, nasty, Display(nasty, nasty, nasty), {nasty: nasty})
        transcript.progress_call(nasty, nasty)
        transcript.navigator.unfold_all()
        await transcript.navigator.find(nasty)
        transcript.flush()
        assert "evil" in host.screen_text() and "[b]markup[/b]" in host.screen_text()
        for row in host.rows():
            assert all(character.isprintable() for character in row), row


async def test_a_screen_is_told_of_every_key():
    host = Host()
    async with host.run_test(size=(80, 24)):
        bindings = host.transcript.BINDINGS
        assert all(binding.id and binding.id.startswith("transcript.") for binding in bindings)
        assert len({binding.id for binding in bindings}) == len(bindings)


async def test_a_click_on_the_word_copy_beside_code_copies_it() -> None:
    host = Host()
    async with host.run_test(size=(60, 20)) as pilot:
        host.transcript.finish_answer("So:\n\n```python\nprint(1)\nprint(2)\n```\n", "", 1)
        await pilot.pause()
        y = next(y for y, row in enumerate(host.rows()) if row.endswith("python · copy"))
        await pilot.click(offset=(10, y))
        await pilot.click(offset=(host.rows()[y].index("· copy") + 3, y + 1))
        assert host.copied == []
        await pilot.click(offset=(host.rows()[y].index("· copy") + 3, y))
        assert host.copied == ["print(1)\nprint(2)"]


async def test_a_call_that_waits_for_the_person_says_so_with_the_glyph_of_all_lists() -> None:
    host = Host()
    async with host.run_test(size=(60, 20)) as pilot:
        host.transcript.start_call("1", "terminal", Display("terminal", "make"), {})
        host.transcript.start_call("2", "read_file", Display("read", "a.py"), {})
        host.transcript.show_asking("a", "terminal")
        await pilot.pause()
        assert [row[1:4] for row in host.rows()[:2]] == ["◆ t", "▶ r"]
        host.transcript.show_asking("b", "unknown")
        assert [row[1] for row in host.rows()[:2]] == ["◆", "◆"]
        host.transcript.show_asking("a", None)
        host.transcript.show_asking("b", None)
        assert [row[1] for row in host.rows()[:2]] == ["▶", "▶"]


async def test_a_conversation_stays_in_sight_until_its_successor_is_there():
    host = Host()
    async with host.run_test(size=(80, 24)) as pilot:
        transcript = host.transcript
        transcript.load(earlier=[AnswerItem("its end"), UserItem("asked")])
        transcript.begin_conversation()
        transcript.add_notice("info", "told while it opened")
        await pilot.pause()
        assert "its end" in host.screen_text()
        transcript.prepend_stored([AnswerItem("its end"), UserItem("asked")])
        await pilot.pause()
        assert [host.screen_text().count(said) for said in ("asked", "its end", "told while")] == [1, 1, 1]
        transcript.begin_conversation()
        transcript.prepend_stored(())
        await pilot.pause()
        assert "its end" not in host.screen_text()
