"""Where a message goes."""

from __future__ import annotations

import pytest

from widgets.prompt.router import Route, route

CASES = [
    ("fix it", False, False, Route("send", "fix it")),
    ("fix it\n", False, False, Route("send", "fix it")),
    ("\n  indented\nmore", False, False, Route("send", "  indented\nmore")),
    ("fix it", True, False, Route("queue", "fix it")),
    ("fix it", True, True, Route("steer", "fix it")),
    ("fix it", False, True, Route("send", "fix it")),
    ("", False, False, Route("nothing")),
    (" \n\t", True, True, Route("nothing")),
    ("/help", False, False, Route("command", "help")),
    ("/help", True, True, Route("command", "help")),
    ("/model  gpt-x ", True, False, Route("command", "model  gpt-x")),
    ("/skill:notes a\nb", False, False, Route("command", "skill:notes a\nb")),
    ("/", False, False, Route("nothing")),
    ("/etc/hosts is broken", False, False, Route("send", "/etc/hosts is broken")),
    ("/ hello", False, False, Route("send", "/ hello")),
    ("/3 of them", False, False, Route("send", "/3 of them")),
    ("//help", False, False, Route("send", "/help")),
    ("//help", True, True, Route("steer", "/help")),
    ("///x", True, False, Route("queue", "//x")),
    (" /help", False, False, Route("send", " /help")),
    ("!ls -l", False, False, Route("shell", "ls -l")),
    ("! ls", True, True, Route("shell", "ls")),
    ("!", False, False, Route("nothing")),
    ("!  ", False, False, Route("nothing")),
    ("wow!", False, False, Route("send", "wow!")),
]


@pytest.mark.parametrize(("text", "busy", "steer", "expected"), CASES)
def test_a_text_takes_its_way(text: str, busy: bool, steer: bool, expected: Route) -> None:
    assert route(text, busy=busy, steer=steer) == expected
