"""Keys given anew: what is granted, what is refused and why, and that they work."""

from __future__ import annotations

import importlib
import pkgutil
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.binding import Binding
from textual.dom import DOMNode

import app
import widgets
from agent.core.config.schema import Settings
from app.tui.commands.keys import ALIASES, NEVER_WITHOUT, Keys, bindables, resolve
from app.tui.screens.help import HelpScreen
from app.tui.screens.settings.preferences import adopt
from app.tui.terminal.tty_input import InputDecoder, Keyboard, add_key_sequences
from tests.app.tui.test_application import Stage, stage
from tests.support.replies import say
from widgets.key_names import read_key, shown_key, types_text


def one_problem(wishes: dict[str, str]) -> str:
    problems = resolve(wishes).problems
    assert len(problems) == 1, problems
    return problems[0]


def test_without_wishes_every_command_has_its_default() -> None:
    keys = resolve({})
    assert (keys.keymap(), keys.for_prompt(), keys.problems) == ({}, {}, ())
    assert keys.label("program.palette") == "^P"
    assert keys.label("turn.steer") == keys.label("prompt.steer") == "^S"
    assert keys.label("conversation.fold") == keys.label("no.such") == ""


def test_what_an_empty_conversation_teaches_names_the_keys_in_effect() -> None:
    keys = resolve({"program.palette": "f9", "session.undo": ""})
    assert keys.hints()[-1] == "F9 finds a command · F1 shows the keys"


def test_a_command_gets_several_keys_in_any_notation() -> None:
    keys = resolve({"view.log": "^L, F5 ,Alt+l"})
    assert keys.problems == ()
    assert keys.of("view.log") == ("ctrl+l", "f5", "alt+l")
    assert keys.keymap() == {"view.log": "ctrl+l,f5,alt+l"}
    assert keys.label("view.log") == "^L F5 alt+l"


def test_a_command_without_a_default_key_gets_one() -> None:
    assert resolve({"session.new": "ctrl+n"}).keymap() == {"session.new": "ctrl+n"}


def test_an_empty_wish_takes_the_key_away() -> None:
    keys = resolve({"view.log": "", "prompt.undo": " "})
    assert keys.problems == ()
    assert keys.label("view.log") == "" and keys.for_prompt() == {"prompt.undo": ""}
    assert keys.keymap()["view.log"] not in {key for each in bindables().values() for key in each.keys}


def test_an_unknown_id_names_the_nearest_one() -> None:
    assert (
        one_problem({"vew.log": "f5"}) == "`keys.vew.log`: there is no such command; did you mean `view.log`?"
    )
    assert one_problem({"x" * 500: "f5"}).endswith("there is no such command.")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("escp", "`escp` names no key; did you mean `escape`?"),
        ("ctlr+x", "`ctlr+x` has no modifier `ctlr`"),
        ("ctrl+", "names no key"),
        ("ctrl+m", "reaches us as enter"),
        ("ctrl+[", "reaches us as escape"),
        ("\x1b[31m", "names no key"),
        ("j", "j types a character"),
        ("?", "? types a character"),
        ("space", "space types a character"),
        ("enter", "⏎ is needed by whatever has the focus"),
        ("shift+tab", "shift+tab is needed"),
        ("f5" * 300, "that is not a list of keys"),
    ],
)
def test_a_key_that_cannot_be_had_is_refused_and_the_default_stays(text: str, part: str) -> None:
    keys = resolve({"view.log": text})
    assert part in one_problem({"view.log": text})
    assert "\x1b" not in keys.problems[0]
    assert keys.label("view.log") == "alt+3"


def test_the_good_keys_of_a_wish_count_beside_a_bad_one() -> None:
    keys = resolve({"view.log": "f5, nokey"})
    assert keys.of("view.log") == ("f5",) and len(keys.problems) == 1


def test_two_wishes_for_one_key_name_both() -> None:
    keys = resolve({"view.log": "f5", "view.files": "f5"})
    assert keys.problems == ("`keys.view.files`: F5 is taken by “Tool log” (`view.log`) already.",)
    assert keys.of("view.log") == ("f5",) and keys.of("view.files") == ("alt+4",)


def test_a_wish_takes_the_key_of_a_default_and_says_so() -> None:
    keys = resolve({"view.log": "ctrl+t"})
    assert keys.of("view.log") == ("ctrl+t",) and keys.of("view.skins") == ()
    assert "^T is now “Tool log” (`view.log`), no longer " in keys.problems[0]
    assert resolve({"view.log": "ctrl+t", "view.skins": ""}).problems == ()


def test_two_commands_can_swap_their_keys() -> None:
    keys = resolve({"view.log": "alt+4", "view.files": "alt+3"})
    assert keys.problems == ()
    assert keys.keymap() == {"view.log": "alt+4", "view.files": "alt+3"}


def test_a_key_of_the_prompt_that_a_command_takes_first_is_refused() -> None:
    assert "^P is taken by" in one_problem({"prompt.undo": "ctrl+p"})
    assert "F2 is taken by" in one_problem({"rows.open": "f2"})
    assert "^L is taken by" in one_problem({"view.log": "ctrl+l", "prompt.undo": "ctrl+l"})


def test_a_key_that_a_command_has_given_up_is_free() -> None:
    keys = resolve({"program.palette": "f6", "prompt.undo": "ctrl+p"})
    assert keys.problems == () and keys.for_prompt() == {"prompt.undo": "ctrl+p"}


def test_the_same_key_may_mean_different_things_in_different_places() -> None:
    assert resolve({"rows.open": "z", "transcript.open": "z"}).problems == ()


@pytest.mark.parametrize("id", NEVER_WITHOUT)
def test_what_a_person_cannot_do_without_keeps_a_key(id: str) -> None:
    key = bindables()[id].keys[0]
    assert "without a key" in one_problem({id: ""})
    other = "program.help" if id.startswith("program") else "prompt.newline"
    assert "already" in one_problem({other: key})
    assert resolve({other: key, id: "ctrl+x"}).of(id) == ("ctrl+x",)


def test_both_names_of_a_command_are_known_but_only_one_counts() -> None:
    assert resolve({"turn.steer": "f5"}).of("prompt.steer") == ("f5",)
    assert "means the same" in one_problem({"prompt.steer": "f5", "turn.steer": "f6"})


IDS = st.sampled_from([*bindables(), *ALIASES, "no.such"])
WISH = st.lists(
    st.sampled_from(
        ["ctrl+t", "ctrl+x", "f5", "enter", "j", "ctrl+c", "ctrl+p", "alt+3", "tab", "ctrl+j", "zz"]
    ),
    max_size=3,
).map(",".join)


@pytest.mark.thorough
@given(st.dictionaries(IDS, WISH | st.text(max_size=12), max_size=8))
def test_whatever_is_wished_no_place_has_a_key_twice_unless_by_default(wishes: dict[str, str]) -> None:
    keys = resolve(wishes)
    known = bindables()
    assert set(keys.by_id) == set(known)
    assert all(keys.of(id) for id in NEVER_WITHOUT)
    for one in keys.changed:
        for other, held in keys.by_id.items():
            if other == one or known[other].surface != known[one].surface:
                continue
            doubled = set(keys.of(one)) & set(held) - set(known[one].keys)
            assert not doubled, (one, other)


@given(st.text(max_size=20))
def test_any_text_is_a_key_or_a_reason(text: str) -> None:
    try:
        key = read_key(text)
    except ValueError as error:
        assert str(error)
    else:
        assert key.isprintable() and shown_key(key)


@pytest.mark.sample(58)
@pytest.mark.parametrize("key", sorted({key for each in bindables().values() for key in each.keys}))
def test_every_key_in_use_can_be_written_as_it_is_named_and_as_it_is_shown(key: str) -> None:
    assert read_key(key) == key
    assert read_key(shown_key(key)) == key


def test_keys_are_shown_as_they_are_on_a_keyboard() -> None:
    shown = {
        key: shown_key(read_key(key)) for key in ("+", "ctrl++", "^_", "ctrl+space", "shift+a", "alt+left")
    }
    assert shown == {
        "+": "+", "ctrl++": "^+", "^_": "^_", "ctrl+space": "ctrl+space", "shift+a": "A", "alt+left": "alt+←",
    }  # fmt: skip
    assert [types_text(key) for key in ("a", "plus", "space", "escape", "ctrl+a", "f1")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


# In the application


def wish(at: Stage, **keys: str) -> Keys:
    adopt(at.app, Settings(keys={id.replace("__", "."): text for id, text in keys.items()}))
    return at.app.keys


@pytest.mark.thorough
async def test_a_given_key_works_and_the_old_one_no_longer_does(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("hello")]) as at:
        await at.ready()
        wish(at, program__help="f8", session__title="")
        await at.type("", "f1")
        await at.pilot.pause(0.05)
        assert not isinstance(at.app.screen, HelpScreen)
        await at.type("", "f8")
        await at.until(lambda: isinstance(at.app.screen, HelpScreen), "help")


@pytest.mark.thorough
async def test_a_swap_of_keys_works_both_ways_and_can_be_taken_back(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("hello")]) as at:
        await at.ready()
        wish(at, program__help="ctrl+t", view__skins="f1")
        await at.type("", "ctrl+t")
        await at.until(lambda: isinstance(at.app.screen, HelpScreen), "help")
        await at.type("", "escape")
        wish(at)
        await at.type("", "f1")
        await at.until(lambda: isinstance(at.app.screen, HelpScreen), "help by its own key")


@pytest.mark.thorough
async def test_a_command_without_a_default_key_runs_by_the_one_it_was_given(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("hello")]) as at:
        await at.ready()
        before = at.app.host.session
        wish(at, session__new="f9")
        await at.type("", "f9")
        await at.until(lambda: at.app.host.session not in ("", before), "a new session")


@pytest.mark.thorough
async def test_the_prompt_takes_its_keys_and_shows_them(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("hello")]) as at:
        await at.ready()
        wish(at, prompt__submit="f7", prompt__newline="enter")
        await at.type("one", "enter", "x")
        assert at.app.session.prompt.text == "one\nx"
        rows = [at.app.session.prompt.render_line(row).text for row in range(2)]
        assert "F7 send" in " ".join(rows)
        await at.type("", "f7")
        await at.quiet()
        assert at.answers() == ["hello"]


@pytest.mark.thorough
async def test_a_clash_and_a_wrong_name_are_told_once_and_nothing_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage(tmp_path, [say("hello")]) as at:
        await at.ready()
        told: list[str] = []
        monkeypatch.setattr(at.app, "show_warning", told.append)
        for _ in range(2):
            wish(at, view__log="f5", view__files="f5", vew__log="f6")
        assert [part in each for part, each in zip(("vew.log", "F5 is taken"), told, strict=True)] == [
            True,
            True,
        ]
        await at.type("hi", "enter")
        await at.quiet()
        assert at.answers() == ["hello"]


def alt_keys() -> set[str]:
    """Keys with alt that anything on any screen can have by default."""
    for package in (app, widgets):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    keys = {key for each in bindables().values() for key in each.keys}
    owners = [DOMNode]
    for owner in owners:
        owners += owner.__subclasses__()
        bound = [each for each in owner.__dict__.get("BINDINGS", ()) if owner.__module__[:3] != "tex"]
        keys |= {binding.key for binding in Binding.make_bindings(bound)}
    return {key for key in keys if key.startswith("alt+")}


ALTERNATIVES = {"alt+b": "ctrl+left", "alt+f": "ctrl+right"}
"""What terminals of macOS send for other keys of the same commands."""
NO_LETTERS = {"backspace": "\x7f", "enter": "\r"}


def test_every_key_with_alt_is_known_as_escape_and_a_letter_and_writes_nothing() -> None:
    add_key_sequences()
    keys = alt_keys()
    assert {"alt+k", "alt+p", "alt+j", "alt+1"} <= keys
    for key in keys - {f"alt+{arrow}" for arrow in ("up", "down", "left", "right")}:
        name = key.removeprefix("alt+")
        pressed = b"\x1b" + NO_LETTERS.get(name, name).encode()
        (event,) = Keyboard().to_messages(InputDecoder().feed(pressed, 0.0))
        assert isinstance(event, events.Key)
        assert (event.key, event.character) == (ALTERNATIVES.get(key, key), None)
        assert not event.is_printable


@pytest.mark.sample(54)
@pytest.mark.parametrize("character", [*string.ascii_letters, *string.digits, *"!.#/ é"])
def test_escape_and_a_character_are_alt_as_the_kitty_protocol_tells_it(character: str) -> None:
    (legacy,) = Keyboard().to_messages([f"\x1b{character}"])
    shift = ";4u" if character.isupper() else ";3u"
    (kitty,) = Keyboard().to_messages([f"\x1b[{ord(character.lower())}{shift}"])
    assert isinstance(legacy, events.Key) and isinstance(kitty, events.Key)
    assert (ALTERNATIVES.get(kitty.key, kitty.key), kitty.character) == (legacy.key, legacy.character)
