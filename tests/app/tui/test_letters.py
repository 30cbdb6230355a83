"""One letter has one meaning in every list; the table of keys by list is made here."""

import pytest

from app.tui.commands.keys import LETTERS
from app.tui.screens.page import Page
from tests.support.list_letters import keys_of, lists
from widgets.rows.row_list import ReadingRows

MEANINGS = {
    "⏎": {"open"},
    "n": {"new", "add", "search", "install_skill"},
    "e": {"edit", "new_key", "label"},
    "r": {"rename"},
    "d": {"delete", "remove", "revoke", "reset", "discard"},
    "space": {"keep"},
    "y": {"copy"},
    "/": {"filter", "search"},
    "s": {"scope", "status", "level", "refused", "ignored", "swap", "next_filter"},
    "x": {"stop", "kill", "sign_out"},
    "p": {"pause", "disable", "switch"},
    "t": {"trust", "let_in", "confirm", "enable", "install"},
    "i": {"details", "log", "picture", "providers"},
    "u": {"undo"},
    "F5": {"count", "restart", "run", "run_now", "verify"},
    "a": {"carry_out", "merge"},
    "?": {"help", "back"},
    "esc": {"back", "dismiss", "leave", "clear_filter"},
    "g": {"first", "edge"},
    "G": {"last", "edge"},
    "j": {"move"},
    "k": {"move"},
}
"""The actions that mean what `LETTERS` says."""
READ = {"space": {"fold", "turn"}, "n": {"find"}, "N": {"find"}}
"""What the same keys mean in a text that is read."""


FORMER = {
    "RestoringScreen": "mcbMC",
    "MergeScreen": "mbM",
    "AgentsPane": "mM",
    "ServersScreen": "lo",
    "AuditScreen": "v",
    "Timeline": "f",
}
"""Letters from before the table, which continue working beside the new key and are shown nowhere."""
READING = ("TimelineScreen", "HunkRows")


@pytest.mark.parametrize("owner", lists(), ids=lambda each: each.__name__)
def test_each_letter_means_the_same_in_every_list(owner: type) -> None:
    reads = issubclass(owner, ReadingRows) or owner.__name__ in READING
    for key, action in keys_of(owner):
        meant = {*MEANINGS.get(key, ()), *(READ.get(key, ()) if reads else ())}
        meant |= {"fold"} if key == "space" and owner.__name__ == "Pane" else set()
        assert key not in MEANINGS or action in meant, f"{key} is {action} in {owner.__name__}"


def test_letters_without_a_place_in_the_table_mean_one_thing_each() -> None:
    used: dict[str, dict[str, str]] = {}
    for owner in lists():
        for key, action in keys_of(owner):
            if key in FORMER.get(owner.__name__, ""):
                continue
            if len(key) == 1 and key.isalpha() and key not in MEANINGS:
                used.setdefault(key, {})[action] = owner.__name__
    movement = {"h": "shift", "l": "shift", "q": "back"}
    double = {key: each for key, each in used.items() if len(each) > 1 and key not in movement}
    assert double == {}, "letters with two meanings"


def test_every_letter_of_the_table_is_held() -> None:
    assert {key for each in LETTERS for key in each.split()} - {"N"} <= MEANINGS.keys()


def footers() -> list[type[Page[object]]]:
    return [each for each in lists() if issubclass(each, Page) and each.keys]


@pytest.mark.parametrize("screen", footers(), ids=lambda each: each.__name__)
def test_a_footer_shows_at_most_five_keys_and_the_way_to_the_rest(screen: type[Page[object]]) -> None:
    parts = screen.keys.split(" · ")
    assert len([each for each in parts if not each.startswith(("? ", "esc "))]) <= 5
    assert any(each.startswith("? ") for each in parts) or screen.__name__ == "HelpScreen"


def test_what_deletes_in_a_list_can_be_undone_there() -> None:
    for owner in lists():
        actions = dict(keys_of(owner))
        if actions.get("d") in {"delete", "remove", "revoke", "reset"}:
            assert actions.get("u") == "undo", owner.__name__
