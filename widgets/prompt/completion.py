"""Completion in the prompt: commands, files, agents and references, with their menu."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import lru_cache, partial
from itertools import accumulate, compress, repeat
from operator import contains
from typing import Any, Literal, NamedTuple, Protocol

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from themes.skin import Skin
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean
from tools.text.words import shorten
from widgets.palette import Palette
from widgets.prompt.buffer import Buffer, without_tokens
from widgets.prompt.draft import SUFFIXES, Draft, FoundFile, MentionedFile, names, readings
from widgets.prompt.grapheme_cells import clusters
from widgets.prompt.messages import route

LIMIT = 50
"""The maximum number of candidates that a ranking returns."""

_CONSIDERED = 400
_CHUNK = 5_000
_COMMON_LAST = {letter: place for place, letter in enumerate("zqxjkvwybfgphudmlcniorsate/")}


class CommandChoice(NamedTuple):
    """A command of the `/` menu. `hint` shows its arguments, such as `<name>`; empty for none."""

    name: str
    description: str = ""
    hint: str = ""
    keys: str = ""
    """The keys of the command, as they are shown."""
    aliases: tuple[str, ...] = ()
    """Other words that find it."""


class CompletionChoice(NamedTuple):
    """One row of the menu. `text` replaces the mention if the row is chosen."""

    text: str
    label: str
    hint: str = ""
    detail: str = ""
    hits: tuple[int, ...] = ()
    """Offsets in `label` that the query matched."""
    keys: str = ""
    """The text at the right edge."""
    complete: bool = False
    """Whether nothing needs to follow, so that choosing the row may submit the text."""


def rank_commands(commands: Iterable[CommandChoice], query: str) -> list[CompletionChoice]:
    """Return the matching commands, best first; for an empty query all in their given order."""
    wanted = query.lower()
    ranked: list[tuple[int, int, CommandChoice]] = []
    for place, command in enumerate(commands):
        names = (
            command.name.lower(),
            *(each for each in command.aliases if wanted and each.startswith(wanted)),
        )
        fits = [fit for name in names if (fit := match_rank(name, name, wanted)) is not None]
        if fits:
            ranked.append((min(fits), place, command))
    ranked.sort(key=lambda entry: entry[:2])
    return [_command_row(command, query) for _, _, command in ranked]


def _command_row(command: CommandChoice, query: str) -> CompletionChoice:
    marked = hits(f"/{command.name}", query, start=1)
    alias = "" if marked else next((each for each in command.aliases if each.startswith(query.lower())), "")
    about = f"/{alias} is the same: {command.description}" if query and alias else command.description
    return CompletionChoice(
        text=f"/{command.name} ",
        label=f"/{command.name}",
        hint=command.hint,
        detail=about,
        hits=marked,
        complete=not command.hint,
        keys=command.keys,
    )


def file_choices(paths: Iterable[str], query: str) -> list[CompletionChoice]:
    """Return menu rows for ranked paths."""
    return [CompletionChoice(mention_of(path) + " ", path, hits=hits(path, query)) for path in paths]


def agent_choices(
    agents: Iterable[CommandChoice], query: str
) -> tuple[list[CompletionChoice], list[CompletionChoice]]:
    """Return menu rows for agents: those whose names start with the query, and other matches."""
    begun: list[CompletionChoice] = []
    others: list[CompletionChoice] = []
    wanted = query.lower()
    for agent in agents:
        if match_rank(agent.name, agent.name, wanted) is None:
            continue
        found = CompletionChoice(
            text=f"@{agent.name} ",
            label=agent.name,
            hint=agent.hint,
            detail=agent.description,
            hits=hits(agent.name, query),
        )
        (begun if wanted and agent.name.startswith(wanted) else others).append(found)
    return begun, others


def mention_of(path: str) -> str:
    """Return a path as a mention: `@src/money.py`, quoted if it contains blanks."""
    return f'@"{path}"' if any(character.isspace() for character in path) else f"@{path}"


def _can_be_mentioned(path: str) -> bool:
    """Return whether a path can be written in a draft without invisible characters."""
    seen = path.isascii() or clean(path) == path
    return bool(path) and seen and path.isprintable() and '"' not in path


class PathIndex:
    """Paths prepared for ranking, shallow and short ones first."""

    def __init__(self, paths: Iterable[str]) -> None:
        # Buckets instead of one sort: a long sort would keep the interpreter from the event loop.
        buckets: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        for path in paths:
            if _can_be_mentioned(path):
                buckets[path.rstrip("/").count("/"), len(path)].append(path)
        self._paths = [path for key in sorted(buckets) for path in buckets[key]]
        self._lowered = [path.lower() for path in self._paths]
        self._all = "\n".join(self._lowered)
        self._folders: PathIndex | None = None
        self._starts = list(accumulate((len(path) + 1 for path in self._lowered), initial=0))

    def folders(self) -> PathIndex:
        """Return the index of the paths' folders, built on first use."""
        if self._folders is None:
            self._folders = PathIndex(folders_of(self._paths))
        return self._folders

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def rank(self, query: str, limit: int = LIMIT) -> list[str]:
        """Return the paths that match `query`, best first, ignoring case.

        Paths that contain the query come before those that only have its characters in order. Of very many
        paths, only the shallow and short ones are considered.
        """
        wanted = query.lower().strip()
        if not wanted:
            return self._paths[:limit]
        lowered = self._lowered
        found = self._containing(wanted)
        if len(found) < limit:
            contained = set(found)
            found += [at for at in self._find_scattered(wanted) if at not in contained]
        ranked: list[tuple[int, int]] = []
        for at in found:
            path = lowered[at]
            fit = match_rank(path, path[path.rstrip("/").rfind("/") + 1 :], wanted)
            if fit is not None:
                ranked.append((fit, at))
        ranked.sort()
        return [self._paths[at] for _, at in ranked[:limit]]

    def _containing(self, wanted: str) -> list[int]:
        """Return the first paths that contain `wanted`, found in one joined text."""
        found: list[int] = []
        at = self._all.find(wanted)
        while at >= 0 and len(found) < _CONSIDERED:
            path = bisect_right(self._starts, at) - 1
            found.append(path)
            at = self._all.find(wanted, self._starts[path] + len(self._lowered[path]))
        return found

    def _find_scattered(self, wanted: str) -> list[int]:
        """Return the first paths that have all characters in order; rare characters are tested first."""
        rare_first = sorted(set(wanted), key=lambda letter: _COMMON_LAST.get(letter, -1))
        fits = _in_order(wanted).search
        found: list[int] = []
        for start in range(0, len(self._lowered), _CHUNK):
            paths = self._lowered[start : start + _CHUNK]
            places: list[int] = list(range(start, start + len(paths)))
            for character in rare_first:
                has = list(map(contains, paths, repeat(character)))
                paths, places = list(compress(paths, has)), list(compress(places, has))
            found += compress(places, map(fits, paths))
            if len(found) >= _CONSIDERED:
                break
        return found[:_CONSIDERED]


def folders_of(paths: Iterable[str]) -> list[str]:
    """Return the folders of the files, each once, with a slash at its end."""
    found: dict[str, None] = {}
    for path in paths:
        at = path.rfind("/")
        # A known folder implies that its parents are known.
        while at > 0 and (folder := path[: at + 1]) not in found:
            found[folder] = None
            at = path.rfind("/", 0, at)
    return list(found)


def hits(label: str, query: str, start: int = 0) -> tuple[int, ...]:
    """Return the offsets in `label` that `query` matches; one run, near the end, if possible."""
    lowered, wanted = label.lower(), query.lower().strip()
    if len(lowered) != len(label) or not wanted:
        return ()
    at = lowered.rfind(wanted, start)
    if at >= 0:
        return tuple(range(at, at + len(wanted)))
    name = lowered.rfind("/", start, len(lowered) - 1) + 1
    for begin in (name, start):
        found: list[int] = []
        place = begin
        for character in wanted:
            place = lowered.find(character, place)
            if place < 0:
                break
            found.append(place)
            place += 1
        else:
            return tuple(found)
    return ()


def match_rank(whole: str, name: str, wanted: str) -> int | None:
    """Return how well a name matches, 0 best; None if it does not. `name` is the last part of `whole`."""
    if not wanted or name == wanted:
        return 0
    if name.startswith(wanted):
        return 1
    at = name.find(wanted)
    if at > 0:
        return 3 if name[at - 1].isalnum() else 2
    if wanted in whole:
        return 4 if whole.startswith(wanted) or "/" + wanted in whole else 5
    pattern = _in_order(wanted)
    if match := pattern.search(name):
        return 6 + min(match.end() - match.start() - len(wanted), 50)
    if match := pattern.search(whole):
        return 60 + min(match.end() - match.start() - len(wanted), 500)
    return None


@lru_cache(maxsize=8)
def _in_order(wanted: str) -> re.Pattern[str]:
    # Possessive: if the first match attempt fails, no other can succeed.
    first, *rest = map(re.escape, wanted)
    return re.compile(first + "".join(f"[^{letter}]*+{letter}" for letter in rest))


Form = Literal["", "file", "folder"]
"""The prefix of a mention that completes paths; empty: a plain name."""


class ReferenceForm(NamedTuple):
    """A kind of reference in the menu. `text` replaces the mention; a path follows a colon at its end."""

    name: str
    text: str
    hint: str
    detail: str


FORMS = (
    ReferenceForm("file:", "@file:", "PATH:10-20", "attach a file, or lines of it"),
    ReferenceForm("folder:", "@folder:", "PATH/", "attach the names of a folder's files"),
    ReferenceForm("diff", "@diff ", "", "attach the changes that are not staged"),
    ReferenceForm("staged", "@staged ", "", "attach the changes that are staged"),
    ReferenceForm("git:", "@git:3 ", "N", "attach the last commits with their changes"),
    ReferenceForm("url:", "@url:https://", "HOST/PAGE", "attach the text of a page"),
)

_LINES = lazy_pattern(r"[^:]:\d*-?\d*\Z")


def form_choices(query: str) -> list[CompletionChoice]:
    """Return the forms whose names start with the query; all for an empty query."""
    wanted = query.lower()
    return [
        CompletionChoice(each.text, each.name, each.hint, each.detail, hits(each.name, query))
        for each in FORMS
        if each.name.startswith(wanted)
    ]


def form_of(word: str) -> tuple[Form, str]:
    """Split a mention into its form and the path typed so far."""
    kinds: tuple[Form, ...] = ("file", "folder")
    for form in kinds:
        if word.startswith(f"{form}:"):
            return form, word.removeprefix(f"{form}:").removeprefix('"')
    return "", word.removeprefix('"')


def names_lines(form: Form, query: str) -> bool:
    """Return whether the path is complete and line numbers follow, so there is nothing to complete."""
    return form == "file" and _LINES.search(query) is not None


def path_choices(form: Form, paths: Iterable[str], query: str) -> list[CompletionChoice]:
    """Return menu rows for ranked paths after a form. No blank follows a file, as line numbers may."""
    end = " " if form == "folder" else ""
    return [CompletionChoice(f"@{form}:{_quote(path)}{end}", path, hits=hits(path, query)) for path in paths]


def _quote(path: str) -> str:
    return f'"{path}"' if any(character.isspace() for character in path) else path


SHOWN = 8
"""The maximum number of rows; more choices scroll."""


class CompletionMenu(Widget, can_focus=False):
    """A list of choices with one selected, shown above its parent over the full width of the screen.

    Its text begins in the same column as the parent.
    """

    DEFAULT_CSS = """
    CompletionMenu { overlay: screen; display: none; width: 100vw; height: 1; }
    """
    ALLOW_SELECT = False

    class Picked(Message):
        """A choice was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self) -> None:
        super().__init__()
        self.palette = Palette(Skin())
        self.choices: Sequence[CompletionChoice] = ()
        self.selected = 0
        self._top = 0
        self._inset = 0
        """Cells between the left edge of the screen and the parent."""

    @property
    def is_open(self) -> bool:
        return bool(self.choices)

    def use(self, palette: Palette) -> None:
        """Draw in another palette."""
        self.palette = palette
        self.refresh()

    def show(self, choices: Sequence[CompletionChoice]) -> None:
        """Show these choices and select the first; an empty list closes the menu."""
        if choices == self.choices:
            return
        shown = min(len(choices), SHOWN)
        if shown != min(len(self.choices), SHOWN):
            # The only layout change: the layer itself appears, goes, or takes another height.
            self.display = shown > 0
            self.styles.height = max(shown, 1)
            self._inset = self.parent.region.x if isinstance(self.parent, Widget) else 0
            self.styles.offset = (-self._inset, -shown)
        self.choices, self.selected, self._top = choices, 0, 0
        self.refresh()

    def step(self, count: int) -> None:
        """Move the selection by `count`, from the last choice on to the first and back."""
        if not self.choices:
            return
        before, top = self.selected, self._top
        self.selected = (self.selected + count) % len(self.choices)
        self._top = min(max(top, self.selected - SHOWN + 1), self.selected)
        if top != self._top:
            self.refresh()
            return
        # The last row holds the count, in place of the keys of its choice.
        for row in {before - top, self.selected - top, SHOWN - 1}:
            self.refresh(Region(0, row, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        at = self._top + y
        if not 0 <= at < len(self.choices):
            return Strip.blank(self.size.width, self.palette.style("text", "surface"))
        last = y == min(len(self.choices), SHOWN) - 1 and len(self.choices) > SHOWN
        count = f"{self.selected + 1}/{len(self.choices)}" if last else self.choices[at].keys
        label = max(cell_len(choice.label + choice.hint) for choice in self.choices) + 3
        width, chosen = self.size.width - self._inset, at == self.selected
        room = min(label, max(width // 4, 26))
        edge = Segment(" " * self._inset, self.palette.style("text", "selection" if chosen else "surface"))
        row = paint_choice(self.choices[at], chosen, width, room, count, self.palette)
        return Strip([edge, *row], self.size.width)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        at = self._top + event.y
        if at < len(self.choices):
            self.post_message(self.Picked(at))


def paint_choice(
    choice: CompletionChoice, chosen: bool, width: int, labels: int, count: str, palette: Palette
) -> Strip:
    """Return one row: the label with its match accented, hint, description, keys or count at the right."""
    background = "selection" if chosen else "surface"
    dim = palette.style("dim", background)
    plain = palette.style("text", background)
    hit = palette.style("accent", background, bold=True)
    has_detail = bool(choice.detail)
    room = max((labels if has_detail else width - 2) - 1, 1)
    characters = clusters(choice.label)
    shortened = ""
    while sum(character.cells for character in characters) + len(shortened) > room and characters:
        # The end of a path is more informative than its start.
        shortened = "…"
        characters = characters[1:]
    segments = [Segment("▸ " if chosen else "  ", palette.style("accent", background))]
    segments.append(Segment(shortened, plain))
    for character in characters:
        matched = not set(range(character.start, character.end)).isdisjoint(choice.hits)
        segments.append(Segment(character.shown, hit if matched else plain))
    free = 2 + labels - sum(cell_len(segment.text) for segment in segments)
    if choice.hint:
        hint = f" {clean(choice.hint)}"
        segments.append(Segment(shorten(hint, max(free - 1, 2)) if has_detail else hint, dim))
    if has_detail:
        blank = 2 + labels - sum(cell_len(segment.text) for segment in segments)
        detail = clean(choice.detail).replace("\n", " ")
        segments += [Segment(" " * max(blank, 1), plain), Segment(detail, plain if chosen else dim)]
    row, limit = Strip(segments), max(width - len(count) - (2 if count else 1), 0)
    if row.cell_length > limit > 0:
        row = Strip([*row.crop(0, limit - 1), Segment("…", plain if chosen else dim)])
    left = Strip(list(row.crop(0, limit)))
    gap = max(width - left.cell_length - len(count) - (1 if count else 0), 0)
    tail = [Segment(" " * gap, plain), Segment(count, dim), Segment(" " if count else "", plain)]
    return (
        Strip([*left, *tail], width) if width > len(count) + 2 else Strip([*left]).adjust_cell_length(width)
    )


_COMMAND = lazy_pattern(r"/([\w:.-]*)")
_FILE = lazy_pattern(r"""(?:^|(?<=[\s(\['"]))@((?:file:|folder:)?"[^"\n]*|[^\s"]*)\Z""")


class Mention(NamedTuple):
    """The unfinished word at the cursor that the menu completes, and its position in the text."""

    kind: Literal["command", "file"]
    start: int
    end: int
    query: str
    form: Form = ""
    """The form before the query, if the word has one."""


class Completer:
    """The completion for the word at the cursor, which updates a menu.

    Files are listed once per mention and ranked in threads; a ranking that arrives after the word changed is
    discarded.
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
        """Update the menu for the text. Return a file mention that must be passed to `rank`, or None."""
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
        """Rank files and agents for a mention and show them, unless the mention has changed."""
        provider = self.files_provider
        if provider is None:
            return
        if self._index is None or self._index[0] != mention.start:
            listing = asyncio.to_thread(_list_files_and_agents, provider, self.agents_provider)
            self._index = mention.start, asyncio.ensure_future(listing)
        # Shielded: the next key cancels this ranking, but the listing serves all of them.
        index, agents = await asyncio.shield(self._index[1])
        if mention.form == "folder":
            index = await asyncio.to_thread(index.folders)
        paths = await asyncio.to_thread(index.rank, mention.query)
        if mention == self._mention:
            self.menu.show(_choices(mention, paths, agents))

    def close(self) -> bool:
        """Close the menu until another word starts; return False if it was not open."""
        if not self.menu.is_open:
            return False
        if self._mention is not None:
            self._closed = self._mention.kind, self._mention.start
        self.menu.show(())
        return True

    def fail(self) -> None:
        """Give up on this mention because the files cannot be listed; the next mention tries again."""
        if self._mention is not None:
            self._closed = self._mention.kind, self._mention.start
        self._index = None
        self.menu.show(())

    def forget(self) -> None:
        """Reset after the whole text was replaced."""
        self._mention = self._closed = self._index = None
        self.menu.show(())

    def is_exact(self) -> bool:
        """Return whether the word already equals the selected choice."""
        chosen = self._selected_choice()
        return (
            self._mention is not None
            and chosen is not None
            and self._mention.query == chosen.label.lstrip("/")
        )

    def take(self, buffer: Buffer) -> CompletionChoice | None:
        """Insert the selected choice and close the menu; return None if it was not open."""
        mention, chosen = self._mention, self._selected_choice()
        if mention is None or chosen is None:
            return None
        end = mention.end
        if buffer.text[end : end + 1] == " ":
            end += 1
        buffer.replace(mention.start, end, chosen.text)
        if not chosen.text.endswith((" ", ":")):
            # The word continues, but there is nothing more to choose.
            self._closed = mention.kind, mention.start
        self.menu.show(())
        return chosen

    def _selected_choice(self) -> CompletionChoice | None:
        return self.menu.choices[self.menu.selected] if self.menu.is_open else None


def mention_at(text: str, cursor: int) -> Mention | None:
    """Return the command at the start of the text, or the `@file` that ends at the cursor."""
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
    """Return the menu rows for a mention: after a form only paths, else everything that can be mentioned."""
    if mention.form:
        return path_choices(mention.form, paths, mention.query)
    meant, others = agent_choices(agents, mention.query)
    return [*form_choices(mention.query), *meant, *file_choices(paths, mention.query), *others]


def _list_files_and_agents(
    files: Callable[[], Iterable[str]], agents: Callable[[], Iterable[CommandChoice]] | None
) -> tuple[PathIndex, Sequence[CommandChoice]]:
    """Return the files, and the agents whose names are not file names."""
    index = PathIndex(files())
    return index, [each for each in agents() if each.name not in index] if agents else []


class FileMentionsHost(Protocol):
    """The methods of the prompt that `FileMentions` uses."""

    def insert(self, text: str) -> None:
        """Insert text at the cursor."""

    def draft_changed(self, *, typed: bool = True) -> None:
        """Handle a changed text; with `typed` False no menu is opened."""

    def files_settled(self) -> None:
        """Continue after all pasted paths have been checked."""

    def say(self, sentence: str) -> None:
        """Show a sentence to the user."""

    def look_in_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a file check in the background."""


class FileMentions:
    """The handling of files in a draft: each is checked on disk before it is added.

    While pasted paths are being checked, one token represents them; if the check fails, the paste becomes
    text.
    """

    def __init__(self, draft: Draft, host: FileMentionsHost) -> None:
        self._draft = draft
        self._host = host
        self.look: Callable[[Sequence[Sequence[str]]], Sequence[FoundFile] | None] | None = None
        """A function that returns the first reading of a paste whose paths are all files, or None.
        It is called in a thread; without it, pasted paths are treated like other text."""

    def insert(self, files: Sequence[FoundFile]) -> None:
        """Insert files at the cursor: images as tokens, others as mentions."""
        self._host.insert(self._pieces(files) + " ")

    def take_paste(self, text: str) -> bool:
        """Insert pasted paths as one token and check them; return False if the paste is something else.

        Paths are not attached within a command, nor if they are a command themselves.
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
        """Replace a mention chosen from the menu with a token if it is an image."""
        if self.look and choice.label.lower().endswith(SUFFIXES):
            self._host.look_in_background(partial(self._attach, choice))

    async def _attach(self, choice: CompletionChoice) -> None:
        files = await self._look_up([[choice.label]])
        if files and files[0].label:
            self._exchange(choice.text.rstrip(), self._pieces(files))

    async def _settle(self, token: str, text: str, paths: Sequence[Sequence[str]]) -> None:
        files = await self._look_up(paths)
        pastes = self._draft.pastes
        if not pastes.settle(token, text):
            return
        if files is not None and len(files) == 1 and files[0].label:
            pastes.add_image(_mention(files[0]), files[0].label, token)
            self._host.draft_changed()
        else:
            self._exchange(token, self._pieces(files) if files else pastes.take(text))
        if not pastes.is_pending:
            self._host.files_settled()

    async def _look_up(self, paths: Sequence[Sequence[str]]) -> Sequence[FoundFile] | None:
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
            self._draft.pastes.add_image(_mention(file), file.label)
            if file.label
            else without_tokens(mention_of(file.path))
            for file in files
        )

    def _exchange(self, old: str, new: str) -> None:
        if self._draft.exchange(old, new):
            self._host.draft_changed(typed=False)


def _mention(file: FoundFile) -> MentionedFile:
    return MentionedFile(mention_of(file.path.replace('"', "")), file.path)
