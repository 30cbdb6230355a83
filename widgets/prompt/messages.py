"""Messages of the prompt, and the routing of submitted text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from textual.message import Message

from tools.kit.lazy_pattern import lazy_pattern
from widgets.prompt.draft import MentionedFile

Kind = Literal["send", "queue", "steer", "command", "shell", "nothing"]

_COMMAND = lazy_pattern(r"/([A-Za-z][\w:.-]*(?:\s.*)?)", re.DOTALL)


class PromptRoute(NamedTuple):
    """The destination of a text. `text` is without the `/` or `!` that selected it."""

    kind: Kind
    text: str = ""


def route(text: str, *, busy: bool, steer: bool) -> PromptRoute:
    """Return the route of a text: `/name …` is a command, `!…` a shell command, `//…` a literal slash.

    `busy`: a turn is running; `steer`: the text is meant for the running turn. A path such as `/etc/hosts` is
    not a command; without a running turn `steer` has no effect.
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
    """A text was submitted, with pastes unfolded. `kind` is its destination, see `PromptRoute`.

    `images` are the images to send with it, if their files exist.
    """

    text: str
    kind: Kind
    images: tuple[MentionedFile, ...] = ()


@dataclass
class Changed(Message, namespace="prompt"):
    """The text changed; a folded paste counts as one character."""

    text: str


@dataclass
class EditorRequested(Message, namespace="prompt"):
    """Request to edit `text` (unfolded) in an external editor; answer with `set_text`."""

    text: str


@dataclass
class QueueRecalled(Message, namespace="prompt"):
    """A queued message was taken back into the prompt; `index` must leave the queue."""

    index: int
    text: str


@dataclass
class QueueSent(Message, namespace="prompt"):
    """Request to send the messages that a stop left in the queue."""


@dataclass
class QueueRemoved(Message, namespace="prompt"):
    """Request to drop the queued message `index`."""

    index: int
    text: str
