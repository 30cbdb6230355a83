"""Writing the user's own skins: new files, and changed colours in existing ones."""

from __future__ import annotations

from pathlib import Path

from rich.cells import cell_len
from rich.text import Text

from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.errors import ConfigError
from themes.loader import UnreadableSkinError, builtin_names, is_name, list_skins, new_skin, read
from themes.skin import Skin, short_line
from themes.states import glyph
from tools.kit.files import write_new
from widgets.palette import Palette


def valid_name(text: str) -> str:
    """Return `text` as the name of a skin. Raises `ConfigError`."""
    name = text.strip()
    if not is_name(name):
        raise ConfigError(f"`{short_line(name)}` is not a name for a skin; use letters, digits, - and _.")
    return name


def own_file(home: Home, name: str) -> Path | None:
    """Return the file of the user's own skin called `name`, or None."""
    return next((each.path for each in list_skins(home.skins) if each.own and each.name == name), None)


def hides_builtin(name: str) -> bool:
    """Return whether a user's skin of this name would hide a built-in one."""
    return name in builtin_names()


def create(home: Home, name: str, skin: Skin) -> Path:
    """Write a new file with the contents of `skin`, and return its path.

    Raises `ConfigError` if the name is not valid, the file exists, or it cannot be written.
    """
    text = new_skin(valid_name(name), skin)
    taken = own_file(home, name)
    if taken is not None:
        raise ConfigError(f"{taken} is there already; choose another name or edit it.")
    private_folder(home.root)
    path = private_folder(home.skins) / f"{name}.yaml"
    try:
        write_new(path, text.encode())
    except FileExistsError:
        raise ConfigError(f"{path} is there already; choose another name or remove it.") from None
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror}; free the place and try again.") from None
    return path


def replace(home: Home, name: str, skin: Skin) -> Path:
    """Write the skin file `name`, new or over its old content; return its path. Raises `ConfigError`."""
    path = own_file(home, valid_name(name))
    if path is None:
        return create(home, name, skin)
    _write(path, new_skin(name, skin).encode())
    return path


def recolor(path: Path, colors: dict[str, str]) -> None:
    """Change these colours in a skin file; comments, order and layout are preserved.

    Raises `ConfigError` if the file cannot be read or safely changed; it is unchanged then.
    """
    from agent.core.config.edit import set_value

    try:
        content = read(path)
    except UnreadableSkinError as error:
        raise ConfigError(f"{path} cannot be changed: {error}.") from None
    try:
        for role, color in colors.items():
            content = set_value(content, ("colors", role), color)
    except ConfigError:
        raise ConfigError(
            f"The colours in {path.name} cannot be changed without disturbing the file; "
            "save under another name, or edit it by hand."
        ) from None
    _write(path, content)


def _write(path: Path, content: bytes) -> None:
    from tools.kit.files import write_atomically

    try:
        # A symbolic link to the file, as in a repository of settings, stays a link.
        write_atomically(path.resolve(), content, PRIVATE_FILE)
    except OSError as error:
        raise ConfigError(
            f"Cannot write {path}: {error.strerror or error}; free the place and try again."
        ) from None


Piece = tuple[str, str]
"""A text and the role of its colour."""

_CODE: tuple[Piece, ...] = (
    ("return ", "keyword"),
    ("rounded", "function"),
    ("(total, ", "text"),
    ('"JPY"', "string"),
    (", ", "text"),
    ("2", "number"),
    (")  ", "text"),
    ("# yen has none", "comment"),
)


def sample(skin: Skin, width: int = 76, *, banner: bool = True) -> list[Text]:
    """Return a sample page of `skin`, `width` columns wide, with every role; `banner` adds its art."""
    return _Page(Palette(skin), width).lines(banner)


class _Page:
    """Lines that fill their width with the background colour of a skin."""

    def __init__(self, palette: Palette, width: int) -> None:
        self._palette = palette
        self._skin = palette.skin
        self._width = width

    def lines(self, banner: bool) -> list[Text]:
        skin = self._skin
        return [
            self._line([(f" {skin.agent_name}", "accent"), (f"  {skin.name}", "text")], "surface", "61%"),
            self._line([("─" * self._width, "rule")]),
            *(self._line([(f"   {line}", "accent")]) for line in skin.banner.splitlines() if banner),
            self._line([("   ", "text"), (skin.welcome, "dim")]),
            self._line([]),
            self._line(
                [
                    (f" {skin.prompt_symbol} ", "user"),
                    ("The totals are off by a cent. Find out why.", "user"),
                ]
            ),
            self._line([(" ▸ Thought for 4 s", "reasoning")]),
            self._line(
                [
                    ("   See how ", "text"),
                    ("round", "text", "match"),
                    (" treats yen ", "text"),
                    ("without decimals", "text", "selection"),
                    (".", "text"),
                ]
            ),
            self._line(
                [(f" {glyph('done')} ", "success"), ("read     src/money.py 1–80", "text")], hint="0.1 s"
            ),
            self._line(
                [
                    (f" {glyph('exit')} ", "warning"),
                    ("terminal pytest -q · exit 1", "text"),
                    (f"  {glyph('failed')} fetch", "error"),
                ],
                hint="1.9 s",
            ),
            self._line(
                [(f" {glyph('needs you')} ", "warning"), ("history  asks a question", "text")], hint="⏎"
            ),
            self._line([("   41 ", "dim"), ("- total = round(amount)", "removed")], "removed_background"),
            self._line([("   41 ", "dim"), ("+ total = exact(amount)", "added")], "added_background"),
            self._line([("   42 ", "dim"), ("  ", "text"), *_CODE], "code_background"),
            self._line(
                [
                    (f" {skin.spinner[len(skin.spinner) // 2]} ", "accent"),
                    (" ".join((*skin.faces[:1], skin.verbs[0])) + "…", "dim"),
                ]
            ),
            self._line(
                [
                    (f" {glyph('done')} ", "success"),
                    ("Reproduce", "dim"),
                    (f"  {glyph('working')} ", "accent"),
                    ("Round exactly", "text"),
                    (f"  {glyph('pending')} ", "dim"),
                    ("Run the suite", "dim"),
                ],
                "surface",
                "1/3",
            ),
            self._line([("─" * self._width, "rule")]),
            self._line(
                [
                    (f" {skin.prompt_symbol} ", "user"),
                    ("and add a changelog line", "text"),
                    (" ", "background", "cursor"),
                ],
                "surface",
                "esc stop",
            ),
        ]

    def _line(self, pieces: list[tuple[str, ...]], background: str = "background", hint: str = "") -> Text:
        line = Text(no_wrap=True, end="")
        for text, role, *own in pieces:
            line.append(text, self._palette.style(role, own[0] if own else background))
        room = max(self._width - cell_len(hint) - 3 * bool(hint), 0)
        line.truncate(room, overflow="ellipsis")
        gap = self._width - cell_len(line.plain) - cell_len(hint) - bool(hint)
        line.append(" " * max(gap, 0) + hint + " " * bool(hint), self._palette.style("dim", background))
        line.truncate(self._width)
        return line
