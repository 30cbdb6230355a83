"""The completion under way: which word, which choices, and when it ends."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from widgets.prompt.buffer import Buffer
from widgets.prompt.completion import (
    CommandChoice,
    CompletionChoice,
    PathIndex,
    agent_choices,
    file_choices,
    rank_commands,
)
from widgets.prompt.menu import CompletionMenu
from widgets.prompt.reference_forms import Form, form_choices, form_of, names_lines, path_choices

_COMMAND = re.compile(r"/([\w:.-]*)")
_FILE = re.compile(r"""(?:^|(?<=[\s(\['"]))@((?:file:|folder:)?"[^"\n]*|[^\s"]*)\Z""")


class Mention(NamedTuple):
    """The unfinished word at the cursor: what the menu completes, and where it stands in the text."""

    kind: Literal["command", "file"]
    start: int
    end: int
    query: str
    form: Form = ""
    """What stands before the query, where the word attaches something."""


class Completer:
    """Keeps a menu in step with the word at the cursor.

    Files are listed once for each mention and ranked in threads; a ranking that
    comes in after the word has changed is dropped.
    """

    def __init__(
        self,
        menu: CompletionMenu,
        commands: Sequence[CommandChoice],
        files_provider: Callable[[], Iterable[str]] | None,
    ) -> None:
        self.menu = menu
        self.commands = commands
        self.files_provider = files_provider
        self.agents_provider: Callable[[], Iterable[CommandChoice]] | None = None
        self._mention: Mention | None = None
        self._closed: tuple[str, int] | None = None
        self._index: tuple[int, asyncio.Future[tuple[PathIndex, Sequence[CommandChoice]]]] | None = None

    def follow(self, text: str, cursor: int) -> Mention | None:
        """Follow the text. Returns a mention of a file that `rank` is to be called with."""
        mention = mention_at(text, cursor)
        if mention == self._mention:
            return None
        self._mention = mention
        if mention is None:
            self._closed = None
        if mention is None or mention.kind != "file":
            self._index = None
        if mention is None or (mention.kind, mention.start) == self._closed or _is_written(mention):
            self.menu.show(())
            return None
        if mention.kind == "command":
            self.menu.show(rank_commands(self.commands, mention.query))
            return None
        return mention if self.files_provider else None

    async def rank(self, mention: Mention) -> None:
        """Rank files and agents for a mention and show them, unless the person went on meanwhile."""
        provider = self.files_provider
        if provider is None:
            return
        if self._index is None or self._index[0] != mention.start:
            listing = asyncio.to_thread(_listed, provider, self.agents_provider)
            self._index = mention.start, asyncio.ensure_future(listing)
        # Shielded: the next key cancels this ranking, but the listing serves all of them.
        index, agents = await asyncio.shield(self._index[1])
        if mention.form == "folder":
            index = await asyncio.to_thread(index.folders)
        paths = await asyncio.to_thread(index.rank, mention.query)
        if mention == self._mention:
            self.menu.show(_choices(mention, paths, agents))

    def close(self) -> bool:
        """Close the menu until another word is begun. False when it was not open."""
        if not self.menu.is_open:
            return False
        if self._mention is not None:
            self._closed = self._mention.kind, self._mention.start
        self.menu.show(())
        return True

    def fail(self) -> None:
        """The files cannot be listed: leave this mention alone, try again at the next one."""
        if self._mention is not None:
            self._closed = self._mention.kind, self._mention.start
        self._index = None
        self.menu.show(())

    def forget(self) -> None:
        """The text is another one altogether."""
        self._mention = self._closed = self._index = None
        self.menu.show(())

    def is_exact(self) -> bool:
        """Whether the word is already what the selected choice says."""
        chosen = self._chosen()
        return (
            self._mention is not None
            and chosen is not None
            and self._mention.query == chosen.label.lstrip("/")
        )

    def take(self, buffer: Buffer) -> CompletionChoice | None:
        """Put the selected choice into the text and close the menu. None when it was not open."""
        mention, chosen = self._mention, self._chosen()
        if mention is None or chosen is None:
            return None
        end = mention.end
        if buffer.text[end : end + 1] == " ":
            end += 1
        buffer.replace(mention.start, end, chosen.text)
        if not chosen.text.endswith((" ", ":")):
            # The word goes on, but there is nothing more to choose.
            self._closed = mention.kind, mention.start
        self.menu.show(())
        return chosen

    def _chosen(self) -> CompletionChoice | None:
        return self.menu.choices[self.menu.selected] if self.menu.is_open else None


def mention_at(text: str, cursor: int) -> Mention | None:
    """The command at the start of the text or the `@file` before the cursor, if the cursor ends one."""
    if (match := _COMMAND.match(text)) and 1 <= cursor <= match.end() and text[match.end() :][:1] != "/":
        return Mention("command", 0, match.end(), text[1:cursor])
    line = text.rfind("\n", 0, cursor) + 1
    if match := _FILE.search(text[line:cursor]):
        form, query = form_of(match[1])
        return Mention("file", line + match.start(), cursor, query, form)
    return None


def _is_written(mention: Mention) -> bool:
    return names_lines(mention.form, mention.query)


def _choices(
    mention: Mention, paths: Sequence[str], agents: Iterable[CommandChoice]
) -> list[CompletionChoice]:
    """What the menu offers for a mention: behind a form only paths, else whatever can be named."""
    if mention.form:
        return path_choices(mention.form, paths, mention.query)
    meant, others = agent_choices(agents, mention.query)
    return [*form_choices(mention.query), *meant, *file_choices(paths, mention.query), *others]


def _listed(
    files: Callable[[], Iterable[str]], agents: Callable[[], Iterable[CommandChoice]] | None
) -> tuple[PathIndex, Sequence[CommandChoice]]:
    """The files, and the kinds of agents that have no file's name."""
    index = PathIndex(files())
    return index, [each for each in agents() if each.name not in index] if agents else []
