"""Finding in the conversation, paging it from the prompt, and where a message leads."""

from pathlib import Path

import pytest
from textual.widgets import Input

from agent.events import AssistantMessageAdded, UserMessageAdded
from agent.integrations.gateways.chat_head import command_of, no_command, word_of
from app.cli.command_line import build_parser
from app.tui.commands.registry import BY_SLASH, SHELL, CommandCall, read_slash, refuse_elsewhere
from tests.app.tui.test_application import stage
from tests.app.tui.test_panes_wiring import scene
from tests.support.replies import say
from tests.support.waiting import until


def talk(count: int) -> list[UserMessageAdded | AssistantMessageAdded]:
    return [
        UserMessageAdded(node=number, text=f"question {number} about needles")
        if number % 2
        else AssistantMessageAdded(node=number, text=f"Answer {number}.\n\nMore of it.", reasoning="")
        for number in range(1, count + 1)
    ]


@pytest.mark.thorough
async def test_the_conversation_is_paged_from_the_prompt_and_a_message_leads_to_its_end() -> None:
    async with scene((80, 24)) as (stage, pilot):
        session = stage.app.session
        await until(pilot, lambda: session.panes_mounted)
        stage.hear(*talk(60))
        await until(pilot, lambda: len(session.transcript.document) == 60)
        session.prompt.focus()
        await pilot.press("pageup", "pageup")
        await until(pilot, lambda: not session.transcript.following)
        await pilot.press("pagedown")
        assert session.prompt.has_focus and not session.transcript.following
        await pilot.press(*"go on", "enter")
        await until(pilot, lambda: session.transcript.following)


@pytest.mark.thorough
async def test_find_counts_while_one_types_and_esc_ends_it() -> None:
    async with scene((80, 24)) as (stage, pilot):
        session = stage.app.session
        await until(pilot, lambda: session.panes_mounted)
        stage.hear(*talk(20))
        await until(pilot, lambda: len(session.transcript.document) == 20)
        session.prompt.focus()
        await pilot.press("ctrl+f")
        await until(pilot, lambda: isinstance(stage.app.focused, Input))
        await pilot.press(*"needles")

        def last_row() -> str:
            return session.transcript.render_line(session.transcript.size.height - 1).text.rstrip()

        await until(pilot, lambda: last_row().endswith("of 10"))
        first = last_row().split()[-3:]
        await pilot.press("enter")
        await until(pilot, lambda: last_row().split()[-3:] != first)
        await pilot.press("up")
        await until(pilot, lambda: last_row().split()[-3:] == first)
        await pilot.press("x")
        await until(pilot, lambda: last_row().endswith("nothing found"))
        await pilot.press("escape")
        await until(pilot, lambda: not session.query("#find-bar") and not session.transcript.finder.pattern)
        assert stage.app.focused is session.transcript


async def test_n_goes_on_with_a_search_that_esc_ended() -> None:
    async with scene((80, 24)) as (stage, pilot):
        session = stage.app.session
        await until(pilot, lambda: session.panes_mounted)
        stage.hear(*talk(20))
        await until(pilot, lambda: len(session.transcript.document) == 20)
        finder = session.transcript.finder
        await pilot.press("ctrl+f")
        await until(pilot, lambda: isinstance(stage.app.focused, Input))
        await pilot.press(*"needles", "up", "up", "up")
        await until(pilot, lambda: finder.count == 10 and not finder.searching)
        at = finder.number
        await pilot.press("escape")
        await until(pilot, lambda: not finder.pattern and session.transcript.has_focus)
        await pilot.press("n")
        await until(pilot, lambda: finder.number == at + 1)
        await pilot.press("N", "N")
        await until(pilot, lambda: finder.number == at - 1)
        await pilot.press("escape")
        await until(pilot, lambda: not finder.pattern)
        await pilot.press("N")
        await until(pilot, lambda: finder.number == at - 2)
        assert finder.pattern == "needles" and not session.prompt.text


@pytest.mark.parametrize("keys", [("ctrl+f",), (*"va", "enter")])
async def test_no_pane_covers_what_is_found_or_answered(keys: tuple[str, ...]) -> None:
    async with scene((80, 24)) as (stage, pilot):
        session = stage.app.session
        await until(pilot, lambda: session.panes_mounted)
        session.workbench.open("log")
        await until(pilot, lambda: session.calls.has_focus)
        await pilot.press(*keys)
        await until(pilot, lambda: session.workbench.opened is None)


@pytest.mark.parametrize(
    ("word", "slash"), [("clear", "new"), ("exit", "quit"), ("cost", "usage"), ("theme", "skin")]
)
def test_words_known_from_elsewhere_lead_to_the_command(word: str, slash: str) -> None:
    assert read_slash(f"/{word}") == CommandCall(BY_SLASH[slash], "")
    assert "works on the full screen, not in an editor" in refuse_elsewhere(f"/{word}", "in an editor")


@pytest.mark.parametrize("slash", SHELL)
def test_a_command_of_the_full_screen_names_the_subcommand_that_does_the_same(slash: str) -> None:
    assert f"`hermes {SHELL[slash]}`" in refuse_elsewhere(f"/{slash}", "with --reader")
    with pytest.raises(SystemExit) as ended:
        build_parser(words := [*SHELL[slash].split(), "--help"]).parse_args(words)
    assert ended.value.code == 0


@pytest.mark.parametrize("where", ["with --plain", "with --reader", "in an editor"])
def test_what_only_a_screen_can_do_is_refused_in_a_sentence_elsewhere(where: str) -> None:
    words = ("vim", "tour", "skin moss")
    assert [refuse_elsewhere(f"/{each}", where).endswith(f"full screen, not {where}.") for each in words] == (
        [True] * len(words)
    )


@pytest.mark.parametrize("word", ["vim", "export", "init"])
def test_a_messenger_refuses_what_it_does_not_have(word: str) -> None:
    assert command_of(f"/{word}") is None and word_of(f"/{word}") == (word, "")
    assert no_command(word).startswith(f"There is no command /{word}") and "/help lists them" in no_command(
        word
    )


def test_what_is_no_command_of_the_screen_is_a_message_elsewhere() -> None:
    assert [refuse_elsewhere(text, "here") for text in ("/etc/hosts", "//new", "new", "/xyzzy a")] == [""] * 4


async def test_what_a_command_tells_in_the_conversation_is_seen_wherever_one_was_reading(
    tmp_path: Path,
) -> None:
    lines = "\n\n".join(f"Line {number}" for number in range(80))
    async with stage(tmp_path, [say(lines)], size=(80, 24)) as app:
        await app.type("hi", "enter")
        await app.quiet()
        await app.pilot.press("pageup", "pageup")
        await app.until(lambda: not app.app.session.transcript.following, "reading further up")
        await app.type("/attempts", "enter")
        await app.until(lambda: app.app.session.transcript.following, "the answer")
