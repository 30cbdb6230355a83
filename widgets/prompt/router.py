"""Decides what becomes of a message when it leaves the prompt."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Kind = Literal["send", "queue", "steer", "command", "shell", "nothing"]

_COMMAND = re.compile(r"/([A-Za-z][\w:.-]*(?:\s.*)?)", re.DOTALL)


class PromptRoute(NamedTuple):
    """Where a text goes. `text` is what arrives there, without the `/` or `!` that chose the way."""

    kind: Kind
    text: str = ""


def route(text: str, *, busy: bool, steer: bool) -> PromptRoute:
    """The way of a text: `/name …` is a command, `!…` a shell command, `//…` a literal slash.

    `busy`: the agent works on a turn; `steer`: the person wants the running turn to hear it.
    A path such as `/etc/hosts` is no command; without a running turn there is nothing to steer.
    """
    text = text.rstrip().lstrip("\n")
    if not text.strip() or text in ("/", "!"):
        return PromptRoute("nothing")
    if text.startswith("!"):
        command = text[1:].strip()
        return PromptRoute("shell", command) if command else PromptRoute("nothing")
    if match := _COMMAND.fullmatch(text):
        return PromptRoute("command", match[1])
    if text.startswith("//"):
        text = text[1:]
    if not busy:
        return PromptRoute("send", text)
    return PromptRoute("steer" if steer else "queue", text)
