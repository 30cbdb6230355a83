"""Files that are pasted, dropped or chosen: images become tokens of the text, others mentions in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol

from tools.text.safe_text import clean
from widgets.prompt.buffer import without_tokens
from widgets.prompt.completion import CompletionChoice, mention_of
from widgets.prompt.draft import Draft
from widgets.prompt.dropped import SUFFIXES, FoundFile, MentionedFile, names, readings
from widgets.prompt.router import route


class FileMentionsHost(Protocol):
    """What is asked of the prompt."""

    def insert(self, text: str) -> None:
        """Put a text in at the cursor."""

    def draft_changed(self, *, typed: bool = True) -> None:
        """The text is another one; `typed` False: no menu belongs over it."""

    def files_settled(self) -> None:
        """All pastes of paths are looked at."""

    def say(self, sentence: str) -> None:
        """Tell the person."""

    def look_in_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a look at files beside everything else."""


class FileMentions:
    """Takes files into a draft, after a look at each on the disk.

    Until it is known what a paste of paths is, one token stands for it; where the look fails, the paste
    is the text it was.
    """

    def __init__(self, draft: Draft, host: FileMentionsHost) -> None:
        self._draft = draft
        self._host = host
        self.look: Callable[[Sequence[Sequence[str]]], Sequence[FoundFile] | None] | None = None
        """Finds the first reading of a paste whose paths are all files, None if there is none.
        Called in a thread; without it a paste of paths is a paste like any other."""

    def insert(self, files: Sequence[FoundFile]) -> None:
        """Put files into the text at the cursor: images as their tokens, others as mentions."""
        self._host.insert(self._pieces(files) + " ")

    def take_paste(self, text: str) -> bool:
        """Take a paste of paths as one token, and look what they are. False when it is no such paste.

        Paths are files for the message neither in a command, nor where they are a command themselves.
        """
        if self.look is None or self._draft.buffer.text.startswith(("!", "/")):
            return False
        if route(text, busy=False, steer=False).kind == "command":
            return False
        paths = readings(text)
        if not paths:
            return False
        token = self._draft.pastes.hold(text, names(paths[0]))
        self._host.insert(token)
        self._host.look_in_background(partial(self._settle, token, text, paths))
        return True

    def take_choice(self, choice: CompletionChoice) -> None:
        """A mention was taken from the menu: if it is an image, it becomes its token."""
        if self.look and choice.label.lower().endswith(SUFFIXES):
            self._host.look_in_background(partial(self._attach, choice))

    async def _attach(self, choice: CompletionChoice) -> None:
        files = await self._looked([[choice.label]])
        if files and files[0].label:
            self._exchange(choice.text.rstrip(), self._pieces(files))

    async def _settle(self, token: str, text: str, paths: Sequence[Sequence[str]]) -> None:
        files = await self._looked(paths)
        pastes = self._draft.pastes
        if not pastes.settle(token, text):
            return
        if files is not None and len(files) == 1 and files[0].label:
            pastes.add_image(_mentioned(files[0]), files[0].label, token)
            self._host.draft_changed()
        else:
            self._exchange(token, self._pieces(files) if files else pastes.take(text))
        if not pastes.is_pending:
            self._host.files_settled()

    async def _looked(self, paths: Sequence[Sequence[str]]) -> Sequence[FoundFile] | None:
        assert self.look is not None
        try:
            return await asyncio.to_thread(self.look, paths)
        except Exception as error:
            # The provider is not ours: whatever it raises, the paste stays the text it was.
            self._host.say(f"The files cannot be looked at: {clean(str(error)) or type(error).__name__}.")
            return None

    def _pieces(self, files: Sequence[FoundFile]) -> str:
        for file in files:
            if file.problem:
                self._host.say(file.problem)
        return " ".join(
            self._draft.pastes.add_image(_mentioned(file), file.label)
            if file.label
            else without_tokens(mention_of(file.path))
            for file in files
        )

    def _exchange(self, old: str, new: str) -> None:
        if self._draft.exchange(old, new):
            self._host.draft_changed(typed=False)


def _mentioned(file: FoundFile) -> MentionedFile:
    return MentionedFile(mention_of(file.path.replace('"', "")), file.path)
