"""Messages of the prompt to the application. Handlers are called `on_prompt_…`."""

from __future__ import annotations

from textual.message import Message

from widgets.prompt.dropped import MentionedFile
from widgets.prompt.router import Kind


class _TextMessage(Message):
    """A message about a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class Submitted(_TextMessage, namespace="prompt"):
    """A text leaves the prompt, pastes unfolded. `kind` says where to, see `router.Route`.

    `images` are those to be sent with it, as far as their files are there.
    """

    def __init__(self, text: str, kind: Kind, images: tuple[MentionedFile, ...] = ()) -> None:
        super().__init__(text)
        self.kind: Kind = kind
        self.images = images


class Changed(_TextMessage, namespace="prompt"):
    """The text is another one; a folded paste is one character of it."""


class EditorRequested(_TextMessage, namespace="prompt"):
    """The person wants to go on in an editor of their own. `text` is unfolded; answer with `set_text`."""


class QueueRecalled(_TextMessage, namespace="prompt"):
    """A queued message was taken back into the prompt; `index` is to leave the queue."""

    def __init__(self, index: int, text: str) -> None:
        super().__init__(text)
        self.index = index


class QueueRemoved(_TextMessage, namespace="prompt"):
    """The queued message `index` is to be dropped."""

    def __init__(self, index: int, text: str) -> None:
        super().__init__(text)
        self.index = index
