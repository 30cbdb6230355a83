"""Messages of the prompt, and where a text goes when it is sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from textual.message import Message

from widgets.prompt.draft import MentionedFile

Kind = Literal["send", "queue", "steer", "command", "shell", "nothing"]

_COMMAND = re.compile(r"/([A-Za-z][\w:.-]*(?:\s.*)?)", re.DOTALL)


class PromptRoute(NamedTuple):
    """Where a text goes. `text` is what arrives there, without the `/` or `!` that chose the way."""

    kind: Kind
    text: str = ""


def route(text: str, *, busy: bool, steer: bool) -> PromptRoute:
    """The way of a text: `/name …` is a command, `!…` a shell command, `//…` a literal slash.

    `busy`: the agent works on a turn; `steer`: the person wants the running turn to hear it.
    A path such as `/etc/hosts` is not a command; without a running turn there is nothing to steer.
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


@dataclass
class Submitted(Message, namespace="prompt"):
    """A text leaves the prompt, pastes unfolded. `kind` says where to, see `router.PromptRoute`.

    `images` are those to be sent with it, as far as their files are there.
    """

    text: str
    kind: Kind
    images: tuple[MentionedFile, ...] = ()


@dataclass
class Changed(Message, namespace="prompt"):
    """The text is another one; a folded paste is one character of it."""

    text: str


@dataclass
class EditorRequested(Message, namespace="prompt"):
    """The person wants to go on in an editor of their own. `text` is unfolded; answer with `set_text`."""

    text: str


@dataclass
class QueueRecalled(Message, namespace="prompt"):
    """A queued message was taken back into the prompt; `index` should leave the queue."""

    index: int
    text: str


@dataclass
class QueueSent(Message, namespace="prompt"):
    """The messages that a stop left in the queue should be sent."""


@dataclass
class QueueRemoved(Message, namespace="prompt"):
    """The queued message `index` should be dropped."""

    index: int
    text: str
