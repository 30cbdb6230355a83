"""What each messenger is tried with beside the service, for tests and for the table of docs/gateway.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from agent.integrations.gateways.adapter import limits_of
from tests.support.chat_kills import ALL_PLATFORMS
from tests.support.chat_platform import LocalPlatform

KILLS = (20, 100)
"""How often the service is killed while people write on all of them at once."""

Platform = type[LocalPlatform]


class Ability(NamedTuple):
    """Something that is tried on each messenger."""

    title: str
    test: str
    """The test of tests/app/service/test_gateways.py that tries it."""
    how: Callable[[Platform], str] = lambda _: "✓"
    """How a messenger does it; empty: it cannot be done there."""


def _choice(platform: Platform) -> str:
    return "button" if limits_of(platform.name).buttons else "number"


ABILITIES = (
    Ability("Text", "test_a_text_is_answered_and_typing_is_shown"),
    Ability("Image", "test_an_image_is_seen_by_the_model"),
    Ability("Voice", "test_a_voice_message_is_written_down"),
    Ability("File", "test_a_file_is_kept_in_the_workspace_under_a_harmless_name"),
    Ability("Files sent", "test_files_of_the_workspace_come_byte_for_byte_after_a_yes"),
    Ability("Approval by", "test_an_approval_is_asked_and_taken_once", _choice),
    Ability(
        "Edit of a message",
        "test_an_edit_changes_a_message_that_still_waits",
        lambda each: "✓" if each.edits else "",
    ),
    Ability("Rate limit", "test_a_rate_limit_is_waited_out_and_nothing_is_lost"),
    Ability(
        "Lost connection",
        "test_a_lost_connection_is_made_again",
        lambda each: "✓" if each.connects else "",
    ),
    Ability("Delivered twice", "test_a_message_that_comes_twice_is_one_turn"),
    Ability("Unknown sender", "test_a_stranger_is_told_a_code_and_nothing_else_until_paired"),
    Ability(f"{KILLS[-1]} kills", "test_over_kills_each_message_is_exactly_one_turn"),
)


def heads() -> tuple[str, ...]:
    """The first line of the table."""
    return ("", *(f"`{each.name}`" for each in ALL_PLATFORMS))


def rows() -> list[tuple[str, ...]]:
    """Its other lines."""
    return [(ability.title, *(ability.how(each) or "–" for each in ALL_PLATFORMS)) for ability in ABILITIES]
