"""Edits of the prompt's text, and files that are put into it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from tools.safe_text import clean
from widgets.prompt import messages
from widgets.prompt.buffer import without_tokens
from widgets.prompt.completion import CompletionChoice, Mention, mention_of
from widgets.prompt.dropped import FoundFile, MentionedFile, names
from widgets.prompt.router import route
from widgets.prompt.surface import PromptSurface

FOLDED_WHEN_SET = 20_000
"""Characters from which a text that is put into the prompt (history, editor) is folded."""


class PromptEditing(PromptSurface):
    """Inserting, replacing, completing; pastes of paths become images and mentions here."""

    Changed = messages.Changed

    look: Callable[[Sequence[Sequence[str]]], Sequence[FoundFile] | None] | None = None
    """Finds the first reading of a paste whose paths are all files, None if there is none.
    Called in a thread; without it a paste of paths is a paste like any other."""

    _reported = ""

    def insert_files(self, files: Sequence[FoundFile]) -> None:
        """Put files into the text at the cursor: images as their tokens, others as mentions."""
        self._insert(self._pieces(files) + " ")

    def insert_mention(self, name: str) -> None:
        """Put `@name` into the text at the cursor, parted from what stands before it."""
        before = self._buffer.text[: self._buffer.cursor][-1:]
        self._insert(f"{' ' if before.strip() else ''}@{name} ")

    def _insert(self, text: str) -> None:
        self.history.leave()
        self._buffer.insert(text)
        self._changed()

    def _replace_all(self, text: str) -> None:
        text = self.pastes.fold(text) if len(text) > FOLDED_WHEN_SET else without_tokens(text)
        self._buffer.replace(0, len(self._buffer.text), text)

    def _changed(self) -> None:
        """The text or the cursor is another one: complete, draw, tell."""
        buffer = self._buffer
        # An entry of the history was not typed: a menu over it would take the keys that go on through it.
        if buffer.selection is None and not self.history.is_walking:
            mention = self.completer.follow(buffer.text, buffer.cursor)
            if mention is not None:
                self.run_worker(partial(self._rank, mention), group="files", exclusive=True)
        self._draw()
        if buffer.text != self._reported:
            self._reported = buffer.text
            self.post_message(self.Changed(buffer.text))

    async def _rank(self, mention: Mention) -> None:
        try:
            await self.completer.rank(mention)
        except Exception as error:
            # The provider is not ours: whatever it raises costs the completion, never the prompt.
            self.completer.fail()
            self._say(f"The files cannot be listed: {clean(str(error)) or type(error).__name__}.")
        self._draw()

    # Files that are pasted or chosen

    def _takes_files(self, text: str) -> bool:
        """Whether paths in a paste are files for the message: not in a command, and not a command itself."""
        is_command = route(text, busy=False, steer=False).kind == "command"
        return self.look is not None and not is_command and not self._buffer.text.startswith(("!", "/"))

    def _hold(self, text: str, paths: Sequence[Sequence[str]]) -> None:
        """Insert a paste of paths as one token, and look what they are."""
        token = self.pastes.hold(text, names(paths[0]))
        self._insert(token)
        self.run_worker(partial(self._settle, token, text, paths), group="attach")

    async def _settle(self, token: str, text: str, paths: Sequence[Sequence[str]]) -> None:
        files = await self._looked(paths)
        if not self.pastes.settle(token, text):
            return
        if files is not None and len(files) == 1 and files[0].label:
            self.pastes.add_image(_mentioned(files[0]), files[0].label, token)
            self._changed()
        else:
            self._exchange(token, self._pieces(files) if files else self.pastes.take(text))
        if not self.pastes.is_pending:
            self._paths_settled()

    def _paths_settled(self) -> None:
        """All pastes of paths are looked at."""

    async def _attach_chosen(self, choice: CompletionChoice) -> None:
        """Make the mention of an image that was taken from the menu its token."""
        files = await self._looked([[choice.label]])
        if files and files[0].label:
            self._exchange(choice.text.rstrip(), self._pieces(files))

    async def _looked(self, paths: Sequence[Sequence[str]]) -> Sequence[FoundFile] | None:
        assert self.look is not None
        try:
            return await asyncio.to_thread(self.look, paths)
        except Exception as error:
            # The provider is not ours: whatever it raises, the paste stays the text it was.
            self._say(f"The files cannot be looked at: {clean(str(error)) or type(error).__name__}.")
            return None

    def _pieces(self, files: Sequence[FoundFile]) -> str:
        for file in files:
            if file.problem:
                self._say(file.problem)
        return " ".join(
            self.pastes.add_image(_mentioned(file), file.label)
            if file.label
            else without_tokens(mention_of(file.path))
            for file in files
        )

    def _exchange(self, old: str, new: str) -> None:
        """Put `new` in place of the last `old` before the cursor, which stays where it is in the text."""
        buffer = self._buffer
        cursor = buffer.cursor
        at = buffer.text.rfind(old, 0, cursor)
        at = buffer.text.find(old) if at < 0 else at
        if at < 0:
            return
        buffer.replace(at, at + len(old), new)
        if cursor >= at + len(old):
            buffer.move(cursor + len(new) - len(old))
        elif cursor <= at:
            buffer.move(cursor)
        self._changed()
        # Nobody is typing this mention: no menu for it.
        self.completer.forget()
        self._draw()


def _mentioned(file: FoundFile) -> MentionedFile:
    return MentionedFile(mention_of(file.path.replace('"', "")), file.path)
