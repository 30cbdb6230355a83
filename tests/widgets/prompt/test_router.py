"""Where a message goes."""

from __future__ import annotations

import pytest

from widgets.prompt.messages import PromptRoute, route

CASES = [
    ("fix it", False, False, PromptRoute("send", "fix it")),
    ("fix it\n", False, False, PromptRoute("send", "fix it")),
    ("\n  indented\nmore", False, False, PromptRoute("send", "  indented\nmore")),
    ("fix it", True, False, PromptRoute("queue", "fix it")),
    ("fix it", True, True, PromptRoute("steer", "fix it")),
    ("fix it", False, True, PromptRoute("send", "fix it")),
    ("", False, False, PromptRoute("nothing")),
    (" \n\t", True, True, PromptRoute("nothing")),
    ("/help", False, False, PromptRoute("command", "help")),
    ("/help", True, True, PromptRoute("command", "help")),
    ("/model  gpt-x ", True, False, PromptRoute("command", "model  gpt-x")),
    ("/skill:notes a\nb", False, False, PromptRoute("command", "skill:notes a\nb")),
    ("/", False, False, PromptRoute("nothing")),
    ("/etc/hosts is broken", False, False, PromptRoute("send", "/etc/hosts is broken")),
    ("/ hello", False, False, PromptRoute("send", "/ hello")),
    ("/3 of them", False, False, PromptRoute("send", "/3 of them")),
    ("//help", False, False, PromptRoute("send", "/help")),
    ("//help", True, True, PromptRoute("steer", "/help")),
    ("///x", True, False, PromptRoute("queue", "//x")),
    (" /help", False, False, PromptRoute("send", " /help")),
    ("!ls -l", False, False, PromptRoute("shell", "ls -l")),
    ("! ls", True, True, PromptRoute("shell", "ls")),
    ("!", False, False, PromptRoute("nothing")),
    ("!  ", False, False, PromptRoute("nothing")),
    ("wow!", False, False, PromptRoute("send", "wow!")),
]


@pytest.mark.parametrize(("text", "busy", "steer", "expected"), CASES)
def test_a_text_takes_its_way(text: str, busy: bool, steer: bool, expected: PromptRoute) -> None:
    assert route(text, busy=busy, steer=steer) == expected
