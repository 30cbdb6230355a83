"""Search: counted by hits, shown where they stand, opened where they hide."""

import pytest

from tests.widgets.transcript.support import Host, call, converse
from themes.loader import load_skin
from tools.results import TextDetail
from widgets.palette import Palette
from widgets.transcript.parts import AnswerItem, UserItem


def marked(host: Host) -> list[str]:
    """The words on the screen that are marked as found."""
    ground = host.transcript.palette.style("text", "match").bgcolor
    return [
        run.text
        for y in range(host.transcript.size.height)
        for run in host.transcript.render_line(y)
        if run.style and run.style.bgcolor == ground and run.text.strip()
    ]


async def test_hits_are_counted_and_marked_whatever_their_case():
    host = Host()
    async with host.run_test(size=(100, 40)):
        converse(host)
        assert await host.transcript.navigator.find("ROUND") == 6
        assert host.rows()[-1].endswith("0 of 6")
        assert [word.lower() for word in marked(host)] == ["round"] * 4


async def test_hits_are_marked_in_a_skin_without_colours_too():
    host = Host()
    async with host.run_test(size=(100, 40)):
        host.transcript.use(Palette(load_skin("mono").skin))
        converse(host)
        await host.transcript.navigator.find("ROUND")
        runs = [run for y in range(host.transcript.size.height) for run in host.transcript.render_line(y)]
        found = [run for run in runs if run.text.lower() == "round"]
        assert [run.style and run.style.bold and run.style.underline for run in found] == [True] * 4


@pytest.mark.parametrize("skin", ["night", "ansi", "mono"])
async def test_the_hit_that_is_visited_differs_from_the_others_also_after_a_resize(skin: str):
    host = Host()
    async with host.run_test(size=(60, 20)) as pilot:
        host.transcript.use(Palette(load_skin(skin).skin))
        host.transcript.load([AnswerItem("one needle, two needle, three needle " * 3)])

        def visited() -> list[int]:
            """Which of the hits in sight are drawn as the visited one."""
            runs = [run for y in range(20) for run in host.transcript.render_line(y) if run.text == "needle"]
            assert len(runs) == 9
            return [at for at, run in enumerate(runs) if run.style and run.style.reverse]

        await host.transcript.navigator.find("needle")
        assert visited() == []
        host.transcript.navigator.find_next()
        host.transcript.navigator.find_next()
        assert visited() == [1]
        await pilot.resize_terminal(40, 20)
        assert visited() == [1]
        host.transcript.navigator.find_previous()
        assert visited() == [0]


async def test_one_goes_from_hit_to_hit_and_round():
    host = Host()
    async with host.run_test(size=(80, 12)) as pilot:
        host.transcript.load([UserItem(f"question {number} needle needle") for number in range(200)])
        assert await host.transcript.navigator.find("needle") == 400
        host.transcript.focus()
        await pilot.press("g", "n")
        seen = []
        for _ in range(3):
            seen.append((host.transcript.finder.number, host.rows()[-1].split()[-3:]))
            await pilot.press("n")
        assert [text for _, text in seen] == [[f"{at}", "of", "400"] for at, _ in seen]
        await pilot.press(*"NNNN")
        assert host.rows()[-1].endswith("400 of 400")
        assert any("question 199" in row for row in host.rows())
        await pilot.press("n")
        assert host.rows()[-1].endswith("1 of 400") and "question 0" in host.rows()[0]


async def test_a_hit_inside_of_a_fold_opens_it():
    host = Host()
    async with host.run_test(size=(80, 20)):
        host.transcript.add_reasoning("the secret thought")
        host.transcript.finish_answer("an answer", "the secret thought", 1)
        call(host.transcript, 1, "read", "a.py", "9 lines", TextDetail("first\n" * 90 + "hidden words\n"))
        host.transcript.add_user("\n".join(f"line {number}" for number in range(100)))
        for word, row in (
            ("secret", "the secret thought"),
            ("hidden", "hidden words"),
            ("line 77", "line 77"),
        ):
            assert await host.transcript.navigator.find(word) == 1
            host.transcript.navigator.find_next()
            assert any(line.strip("▎ ").startswith(row) for line in host.rows()), word


async def test_the_right_hit_of_a_long_answer_comes_into_sight():
    host = Host()
    async with host.run_test(size=(80, 10)):
        text = "\n\n".join(f"Paragraph {number} with a **needle** in it." for number in range(100))
        host.transcript.load([AnswerItem(text)])
        assert await host.transcript.navigator.find("needle") == 100
        for number in range(1, 40):
            host.transcript.navigator.find_next()
            assert any(f"Paragraph {number - 1} with" in row for row in host.rows()), number
            assert host.rows()[-1].endswith(f"{number} of 100")


async def test_nothing_found_is_said_and_an_empty_search_ends_it():
    host = Host()
    async with host.run_test(size=(80, 10)):
        converse(host)
        assert await host.transcript.navigator.find("zebra(") == 0
        host.transcript.navigator.find_next()
        assert host.rows()[-1].endswith("nothing found")
        assert await host.transcript.navigator.find("") == 0
        assert "nothing found" not in host.screen_text() and not marked(host)


async def test_what_is_still_being_written_is_found():
    host = Host()
    async with host.run_test(size=(80, 10)):
        host.transcript.add_text("a fresh word")
        assert await host.transcript.navigator.find("fresh") == 1
