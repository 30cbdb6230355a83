"""Messages of the prompt to the application. Handlers are called `on_prompt_…`."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from widgets.prompt.dropped import MentionedFile
from widgets.prompt.router import Kind


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
    """A queued message was taken back into the prompt; `index` is to leave the queue."""

    index: int
    text: str


@dataclass
class QueueSent(Message, namespace="prompt"):
    """The messages that a stop left in the queue are to be sent."""


@dataclass
class QueueRemoved(Message, namespace="prompt"):
    """The queued message `index` is to be dropped."""

    index: int
    text: str
