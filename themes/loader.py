"""Skins by name: built-in ones, and the user's own from a folder of YAML files.

Loading never raises. Invalid parts of a file get default values, and every problem is reported.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from themes.colors import DEFAULT, TERMINAL_COLORS, normalize_color
from themes.contrast import is_dark
from themes.skin import ROLES, Skin, SkinProblem, nearest, plain, short_line
from tools.kit.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from tools.kit.yaml_text import Node as YamlNode

MAX_DEPTH = 8
MAX_VALUES = 4_000

_CONTROL = lazy_pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_LINE_BREAK = lazy_pattern("\r\n?|[\x85\u2028\u2029]")

Report = Callable[[str, int | None], None]
"""A function called with a sentence on each problem, and its line or None."""


@dataclass(frozen=True, slots=True)
class SkinValue:
    """An unparsed scalar. `quoted` distinguishes `"12"` from `12`, and `""` from nothing."""

    text: str
    line: int
    quoted: bool = True

    @property
    def empty(self) -> bool:
        """True if nothing is written here (`key:`, or a colour whose `#` began a comment)."""
        return not self.quoted and self.text in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class SkinItems:
    """A list in a skin file."""

    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class SkinSection:
    """A mapping in a skin file. `lines` gives each key's line."""

    entries: dict[str, Node] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    line: int = 1


Node = SkinValue | SkinItems | SkinSection


class _RefusedError(Exception):
    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


def parse(content: bytes, report: Report) -> SkinSection:
    """Return the outermost mapping of a file. Never raises; unusable parts are reported and left out."""
    try:
        root = _compose(_decode(content, report))
        if root is None:
            return SkinSection()
        node = _node(root, report)
        if isinstance(node, SkinValue) and node.empty:
            return SkinSection()
        if not isinstance(node, SkinSection):
            raise _RefusedError("this is not a skin; write `key: value` lines.", node.line)
    except _RefusedError as refused:
        report(refused.message, refused.line)
        return SkinSection()
    return node


def _decode(content: bytes, report: Report) -> str:
    text = content.decode("utf-8-sig", "replace")
    if "\ufffd" in text:
        try:
            content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            report("this byte is not UTF-8 and is replaced; save the file as UTF-8.", line)
    text = _LINE_BREAK.sub("\n", text)
    if bad := _CONTROL.search(text):
        line = text.count("\n", 0, bad.start()) + 1
        report(f"the control character U+{ord(bad[0]):04X} stands here and is left out.", line)
        text = _CONTROL.sub("", text)
    return text


def _compose(text: str) -> YamlNode | None:
    """Return the node tree of the only document in `text`; None if it is empty. Raises `_RefusedError`."""
    from tools.kit.yaml_text import YamlError, YamlForm, compose_yaml

    form = YamlForm("a skin", MAX_DEPTH, MAX_VALUES, aliases=False, anchors=False, tags=False)
    try:
        return compose_yaml(text, form)
    except YamlError as fault:
        raise _RefusedError(fault.sentence, fault.line or None) from None


def _node(node: YamlNode, report: Report) -> Node:
    from tools.kit.yaml_text import ScalarNode, SequenceNode

    line = node.start_mark.line + 1
    if isinstance(node, ScalarNode):
        return SkinValue(node.value, line, quoted=bool(node.style))
    if isinstance(node, SequenceNode):
        return SkinItems(tuple(_node(item, report) for item in node.value), line)
    entries: dict[str, Node] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in node.value:
        at = key_node.start_mark.line + 1
        if not isinstance(key_node, ScalarNode):
            report("a key must be a word.", at)
        elif key_node.value in entries:
            first = lines[key_node.value]
            report(f"`{short_line(key_node.value)}` is given twice; the one on line {first} counts.", at)
        else:
            entries[key_node.value] = _node(value_node, report)
            lines[key_node.value] = at
    return SkinSection(entries, lines, line)


KEYS = (
    *("name", "description", "base", "dark", "colors", "prompt_symbol", "spinner", "faces", "verbs"),
    *("agent_name", "welcome", "goodbye", "tool_icons", "banner"),
)

_LENGTHS = {"description": 120, "agent_name": 40, "welcome": 200, "goodbye": 200}
"""The maximum characters of each text."""
_WIDTHS = {"spinner": 2, "faces": 16, "verbs": 40}
"""The maximum columns of one text in each list."""
_ITEMS = 64
"""The maximum number of frames, of faces and of verbs."""
_ICONS = 200
_BANNER_LINES, _BANNER_CELLS = 40, 160


def base_name(root: SkinSection, report: Report) -> str | None:
    """Return the built-in skin that `root` names as its base, or None."""
    node = root.entries.get("base")
    return _text(node, "base", report) if node is not None else None


def wants_light(root: SkinSection) -> bool:
    """Return whether a skin without a base is light: it says so, or its background is light."""
    dark = root.entries.get("dark")
    if isinstance(dark, SkinValue) and dark.text.lower() in _TRUTHS:
        return not _TRUTHS[dark.text.lower()]
    colors = root.entries.get("colors")
    node = colors.entries.get("background") if isinstance(colors, SkinSection) else None
    color = normalize_color(node.text) if isinstance(node, SkinValue) else None
    return color is not None and not is_dark({"background": color})


def build(root: SkinSection, name: str, base: Skin, report: Report) -> Skin:
    """Return the skin that `root` describes, called `name`; missing values are taken from `base`."""
    for key, line in root.lines.items():
        if key not in KEYS:
            report(f"`{short_line(key)}` is nothing a skin has{nearest(key, KEYS)}", line)
    parts = _Parts(root, report)
    called = parts.text("name", 64)
    if called is not None and called != name:
        report(f"the skin is called `{name}` like its file, not `{short_line(called)}`.", root.lines["name"])
    colors = parts.colors(base)
    said: dict[str, Any] = {
        "dark": parts.truth("dark"),
        "prompt_symbol": parts.symbol("prompt_symbol", 4),
        "tool_icons": parts.icons(),
        "banner": parts.banner(),
        **{key: parts.text(key, limit) for key, limit in _LENGTHS.items()},
        **{key: parts.words(key, cells) for key, cells in _WIDTHS.items()},
    }
    seen = is_dark(colors) if colors["background"] != DEFAULT else base.dark
    start = replace(base, name=name, description="", dark=seen, colors=colors)
    return replace(start, **{key: value for key, value in said.items() if value is not None})


_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class _Parts:
    """A reader of one file's parts. Methods other than `colors` return None for a missing or invalid part."""

    def __init__(self, root: SkinSection, report: Report) -> None:
        self._root = root
        self._report = report

    def text(self, key: str, limit: int) -> str | None:
        """Return a text as one line, cut to `limit` characters."""
        node = self._root.entries.get(key)
        text = _text(node, key, self._report) if node is not None else None
        if node is None or text is None:
            return None
        if len(text) > limit:
            self._report(f"`{key}` is longer than {limit} characters; its end is left out.", node.line)
            text = text[:limit].rstrip()
        return text

    def symbol(self, key: str, cells: int) -> str | None:
        """Return a text of visible characters, at most `cells` columns wide."""
        node = self._root.entries.get(key)
        if node is None:
            return None
        text = _text(node, key, self._report)
        if text is None or not _fits(text, key, cells, node.line, self._report):
            return None
        return text

    def truth(self, key: str) -> bool | None:
        node = self._root.entries.get(key)
        if node is None:
            return None
        value = _TRUTHS.get(node.text.lower()) if isinstance(node, SkinValue) else None
        if value is None:
            self._report(f"`{key}` must be true or false.", node.line)
        return value

    def words(self, key: str, cells: int) -> tuple[str, ...] | None:
        """Return a list of short texts. A spinner that is one text is read character by character."""
        node = self._root.entries.get(key)
        if node is None:
            return None
        if isinstance(node, SkinValue) and key == "spinner" and not node.empty:
            frames = tuple(
                SkinValue(character, node.line) for character in plain(node.text) if character != " "
            )
            node = SkinItems(frames, node.line)
        if not isinstance(node, SkinItems):
            self._report(f'`{key}` must be a list such as ["a", "b"].', node.line)
            return None
        if len(node.items) > _ITEMS:
            self._report(f"`{key}` has more than {_ITEMS} entries; the rest is left out.", node.line)
        found = [
            text
            for item in node.items[:_ITEMS]
            if (text := _text(item, key, self._report)) is not None
            and _fits(text, key, cells, item.line, self._report)
        ]
        if not found and node.items:
            return None
        if not found and key != "faces":
            self._report(f"`{key}` is an empty list; leave it out for the default.", node.line)
            return None
        return self._steady(key, found, node.line)

    def _steady(self, key: str, found: list[str], line: int) -> tuple[str, ...] | None:
        """Return the texts; None for spinner frames of unequal width, which would move the following text."""
        if key == "spinner" and len({_cells(frame) for frame in found}) > 1:
            self._report("the frames of `spinner` are not equally wide.", line)
            return None
        return tuple(found)

    def icons(self) -> dict[str, str] | None:
        node = self._root.entries.get("tool_icons")
        if node is None:
            return None
        if not isinstance(node, SkinSection):
            self._report("`tool_icons` must be a section of `tool: glyph` lines.", node.line)
            return None
        if len(node.entries) > _ICONS:
            self._report(f"`tool_icons` has more than {_ICONS} entries; the rest is left out.", node.line)
        found: dict[str, str] = {}
        for tool, value in list(node.entries.items())[:_ICONS]:
            key = f"tool_icons.{short_line(tool)}"
            icon = _text(value, key, self._report)
            if icon is not None and _fits(icon, key, 2, value.line, self._report):
                found[plain(tool)] = icon
        return found

    def banner(self) -> str | None:
        node = self._root.entries.get("banner")
        if node is None or (isinstance(node, SkinValue) and node.text == ""):
            return None
        if not isinstance(node, SkinValue):
            self._report("`banner` must be text; begin it with `banner: |`.", node.line)
            return None
        lines = [line.rstrip() for line in plain(node.text, lines=True).split("\n")]
        while lines and not lines[0]:
            del lines[0]
        while lines and not lines[-1]:
            del lines[-1]
        if len(lines) > _BANNER_LINES or any(len(line) > _BANNER_CELLS for line in lines):
            self._report(
                f"`banner` is larger than {_BANNER_LINES} lines of {_BANNER_CELLS} columns; it is left out.",
                node.line,
            )
            return None
        return "\n".join(lines)

    def colors(self, base: Skin) -> dict[str, str]:
        """Return every role's colour: from the file, else from `base`."""
        colors = {role: base.colors[role] for role in ROLES}
        node = self._root.entries.get("colors")
        if node is None:
            return colors
        if not isinstance(node, SkinSection):
            self._report("`colors` must be a section of `role: colour` lines.", node.line)
            return colors
        for role, value in node.entries.items():
            line = node.lines[role]
            if role not in ROLES:
                self._report(f"`{short_line(role)}` is not a role of a skin{nearest(role, ROLES)}", line)
            elif (color := _color(role, value, self._report)) is not None:
                colors[role] = color
        return colors


def _color(role: str, node: Node, report: Report) -> str | None:
    if not isinstance(node, SkinValue):
        report(f"`colors.{role}` must be one colour.", node.line)
        return None
    if node.empty:
        report(f'`colors.{role}` is empty; a colour needs quotes: "#rrggbb".', node.line)
        return None
    color = normalize_color(node.text)
    if color is None:
        report(f"`colors.{role}`: {_no_color(node.text)}", node.line)
    return color


def _no_color(text: str) -> str:
    shown = short_line(text, 30)
    if normalize_color("#" + text.strip()):
        return f'`{shown}` lacks its #; write "#{shown.lower()}".'
    if normalize_color("ansi_" + text.strip().replace(" ", "_")):
        return f"`{shown}` is not a colour; the terminal's own is `ansi_{shown.lower().replace(' ', '_')}`."
    if text.strip().lower().startswith("ansi"):
        return f"`{shown}` is not a colour of the terminal{nearest(text, (DEFAULT, *TERMINAL_COLORS))}"
    if text.strip().startswith("#") and normalize_color(text.strip()[:7]):
        return f"`{shown}` has too many digits; colours are opaque: `{text.strip()[:7].lower()}`."
    return f'`{shown}` is not a colour; write "#rrggbb" or a colour of the terminal such as `ansi_red`.'


def _text(node: Node, key: str, report: Report) -> str | None:
    """Return the sanitised text of a scalar; None, and a report, if it is empty or not a scalar."""
    if not isinstance(node, SkinValue):
        report(f"`{key}` must be text.", node.line)
        return None
    if node.empty:
        report(f'`{key}` is empty; leave it out for the default, or write "" for nothing.', node.line)
        return None
    text = plain(node.text).strip()
    if "".join(node.text.split()) != "".join(text.split()):
        report(f"`{key}` held characters that cannot be shown; they are left out.", node.line)
    return text


def _fits(text: str, key: str, cells: int, line: int, report: Report) -> bool:
    if not _cells(text):
        report(f"`{key}` needs something that can be seen.", line)
        return False
    if _cells(text) > cells:
        report(f"`{key}`: `{short_line(text)}` is wider than {cells} columns.", line)
        return False
    return True


def _cells(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


_COLORS = {
    "accent": ("banner_title", "ui_accent", "banner_accent"),
    "text": ("banner_text", "status_bar_text"),
    "dim": ("banner_dim", "session_label", "status_bar_dim", "ui_label"),
    "user": ("prompt",),
    "rule": ("response_border", "input_rule", "banner_border", "session_border"),
    "success": ("ui_ok", "status_bar_good"),
    "warning": ("ui_warn", "status_bar_warn"),
    "error": ("ui_error", "status_bar_bad", "status_bar_critical"),
    "surface": ("status_bar_bg", "completion_menu_bg"),
    "selection": ("selection_bg", "completion_menu_current_bg"),
}
"""The old names of each role, the most specific one first."""

_NO_COLORS = frozenset(
    {"status_bar_strong", "voice_status_bg", "completion_menu_meta_bg", "completion_menu_meta_current_bg"}
)
_BRANDING = ("agent_name", "welcome", "goodbye", "prompt_symbol")
_NO_BRANDING = frozenset({"response_label", "help_header"})
_SPINNER = {
    "spinner": ("frames",),
    "faces": ("thinking_faces", "waiting_faces"),
    "verbs": ("thinking_verbs",),
}
_NO_SPINNER = frozenset({"wings"})
_BANNER = ("banner_logo", "banner_hero")
_NOTHING = frozenset({"tool_prefix"})

_MARKUP = lazy_pattern(r"\[/?[a-z#][a-z0-9_#. ]*\]|\[/\]", re.IGNORECASE)


def translate_names(root: SkinSection, report: Report) -> SkinSection:
    """Return `root` with current field names only. Reports non-sections and unknown names."""
    entries, lines = dict(root.entries), dict(root.lines)
    for key in _NOTHING:
        entries.pop(key, None)
    _lift(entries, lines, "branding", {key: (key,) for key in _BRANDING}, _NO_BRANDING, report)
    if isinstance(entries.get("spinner"), SkinSection):
        _lift(entries, lines, "spinner", _SPINNER, _NO_SPINNER, report)
    if isinstance(colors := entries.get("colors"), SkinSection):
        entries["colors"] = _colors(colors)
    if "tool_emojis" in entries:
        icons = entries.pop("tool_emojis")
        entries.setdefault("tool_icons", icons)
        lines.setdefault("tool_icons", lines["tool_emojis"])
    _banner(entries, lines)
    return SkinSection(entries, {key: lines[key] for key in entries}, root.line)


def _lift(
    entries: dict[str, Node],
    lines: dict[str, int],
    name: str,
    moves: dict[str, tuple[str, ...]],
    ignored: frozenset[str],
    report: Report,
) -> None:
    """Move the fields of the section `name` to the top level, each from the first of its old names found."""
    if name not in entries:
        return
    section = entries.pop(name)
    if not isinstance(section, SkinSection):
        report(f"`{name}` must be a section of `key: value` lines.", section.line)
        return
    known = {old for names in moves.values() for old in names}
    for key, line in section.lines.items():
        if key not in known | ignored:
            report(_unknown(name, key, known), line)
    for ours, names in moves.items():
        old = next((old for old in names if old in section.entries), None)
        if old is not None and ours not in entries:
            entries[ours] = section.entries[old]
            lines[ours] = section.lines[old]


def _unknown(section: str, key: str, known: set[str]) -> str:
    """Return the sentence about an unknown key of a section."""
    return f"`{short_line(key)}` is nothing that `{section}` has{nearest(key, sorted(known))}"


def _colors(colors: SkinSection) -> SkinSection:
    entries, lines = dict(colors.entries), dict(colors.lines)
    for role, names in _COLORS.items():
        for old in names:
            color, line = entries.pop(old, None), lines.pop(old, 0)
            if color is not None and role not in entries:
                entries[role], lines[role] = color, line
    for old in _NO_COLORS:
        entries.pop(old, None)
    return SkinSection(entries, {role: lines[role] for role in entries}, colors.line)


def _banner(entries: dict[str, Node], lines: dict[str, int]) -> None:
    """Combine logo and hero into one banner, without colour markup."""
    parts = [
        part for key in _BANNER if isinstance(part := entries.pop(key, None), SkinValue) and not part.empty
    ]
    if parts and "banner" not in entries:
        art = "\n\n".join(_MARKUP.sub("", part.text).strip("\n") for part in parts)
        entries["banner"] = SkinValue(art, parts[0].line)
        lines["banner"] = parts[0].line


SUFFIXES = (".yaml", ".yml")
MAX_BYTES = 256 * 1024
"""The size limit of a skin file in bytes. One with large banner art has 20 KB."""

_NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class UnreadableSkinError(Exception):
    """Raised if a skin file exists but cannot be read. The text is the reason, without the file's name."""


def is_name(text: str) -> bool:
    """Return whether `text` is a valid skin name: letters, digits, `-` and `_`, so never a path."""
    return _NAME.fullmatch(text) is not None


def read(path: Path) -> bytes:
    """Return the content of a regular file of at most `MAX_BYTES`. Raises `UnreadableSkinError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UnreadableSkinError(_reason(error)) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableSkinError("it is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableSkinError(_reason(error)) from error
    finally:
        os.close(descriptor)
    if len(content) > MAX_BYTES:
        raise UnreadableSkinError(f"it is larger than {MAX_BYTES // 1024} KB, so it is not a skin")
    return content


def _reason(error: OSError) -> str:
    reason = error.strerror or "it cannot be opened"
    return reason[:1].lower() + reason[1:]


BUILTIN = Path(__file__).parent / "builtin"
PLUGINS = ".plugins"
"""The folder, among the user's own skins, of those that plugins provide."""
_LIGHT_BASE = "paper"
STAND_INS = {"auto": ("night", "paper"), "terminal": ("ansi", "ansi")}
"""Names that stand for another skin: on a dark background, and on a light one."""


@dataclass(frozen=True, slots=True)
class LoadedSkin:
    """A usable skin, and the problems of its file."""

    skin: Skin
    problems: tuple[SkinProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedSkin:
    """An available skin. `own` skins hide built-in ones of the same name."""

    name: str
    path: Path
    own: bool


def list_skins(folder: Path | None = None) -> tuple[ListedSkin, ...]:
    """Return the skins: built-in ones that the user's do not hide, then those, by name. Reads no files."""
    files = {**_files(folder / PLUGINS), **_files(folder)} if folder else {}
    own = {name: ListedSkin(name, path, True) for name, path in files.items()}
    builtin = [ListedSkin(name, path, False) for name, path in _files(BUILTIN).items() if name not in own]
    first = sorted(builtin, key=lambda listed: (listed.name != Skin().name, listed.name))
    return (*first, *(own[name] for name in sorted(own)))


def load_skin(name: str, folder: Path | None = None, *, light: bool = False) -> LoadedSkin:
    """Return the skin called `name`; if there is none, the default one with a problem.

    `light` tells whether the terminal's background is light, on which the skin `auto` depends.
    """
    if name in STAND_INS and not (folder and name in _files(folder)):
        dark_one, light_one = STAND_INS[name]
        found_skin = load_skin(light_one if light else dark_one, folder).skin
        return LoadedSkin(replace(found_skin, name=name))
    found = next((listed for listed in list_skins(folder) if listed.name == name), None)
    if found is None:
        known = [listed.name for listed in list_skins(folder)]
        message = f"there is no skin `{short_line(name)}`{nearest(name, known)}"
        return LoadedSkin(Skin(), (SkinProblem("skin", message),))
    if found.own:
        return load_file(found.path)
    # The default is known without reading anything: the first screen does not wait for YAML.
    return LoadedSkin(Skin()) if name == Skin().name else _builtin(name)


def load_file(path: Path) -> LoadedSkin:
    """Return the skin in the file `path`, named after the file."""
    return _load(path, own=True)


def _load(path: Path, *, own: bool) -> LoadedSkin:
    """Load a skin file. `own=False` marks built-in skins, which have no base because others build on them."""
    problems: list[SkinProblem] = []

    def report(message: str, line: int | None) -> None:
        problems.append(SkinProblem(path.name, message, line))

    try:
        content = read(path)
    except UnreadableSkinError as error:
        report(f"cannot be read: {error}; the default skin is used.", None)
        return LoadedSkin(Skin(), tuple(problems))
    root = translate_names(parse(content, report), report)
    base = _base(root, report) if own else Skin()
    name = path.stem if is_name(path.stem) else "unnamed"
    skin = build(root, name, base, report)
    return LoadedSkin(skin, tuple(sorted(problems, key=lambda problem: problem.line or 0)))


def _base(root: SkinSection, report: Report) -> Skin:
    """Return the skin that supplies missing values."""
    start = base_name(root, report)
    if start in builtin_names():
        return _builtin(start).skin
    if start is not None:
        sentence = f"`base: {short_line(start)}` is not a built-in skin{nearest(start, builtin_names())}"
        report(sentence, root.lines["base"])
    if wants_light(root):
        return replace(Skin(), colors=_builtin(_LIGHT_BASE).skin.colors, dark=False)
    return Skin()


def builtin_names() -> tuple[str, ...]:
    """Return the names of the skins that come with Hermes, the default first."""
    return tuple(listed.name for listed in list_skins())


def new_skin(name: str, based_on: Skin) -> str:
    """Return the text of a skin file that looks like `based_on`, with every part explained.

    Raises `ValueError` if `name` is not a valid skin name.
    """
    if not is_name(name):
        raise ValueError(f"`{short_line(name)}` is not a name for a skin; use letters, digits, - and _.")
    skin = based_on
    lines = [
        f"# A skin for Hermes; `hermes skins show {name}` draws a specimen of it.",
        "# Whatever is left out is as in the default skin.",
        "",
        f"name: {_yaml(name)}",
        f"description: {_yaml(skin.description)}",
        f"dark: {'true' if skin.dark else 'false'}",
        "",
        '# Colours: "#rrggbb", always in quotes, or a colour of the terminal (ansi_red, ansi_default).',
        "# `hermes skins check` tells which pairs are hard to read.",
        "colors:",
    ]
    for role, meaning in ROLES.items():
        lines.append(f"  {f'{role}: {_yaml(skin.colors[role])}':<34} # {meaning}")
    lines += [
        "",
        f"prompt_symbol: {_yaml(skin.prompt_symbol)}   # at most 4 columns",
        f"spinner: {_yaml(''.join(skin.spinner))}   # one frame a character"
        if all(len(frame) == 1 for frame in skin.spinner)
        else f"spinner: {_yaml(list(skin.spinner))}   # frames, equally wide, at most 2 columns",
        f"faces: {_yaml(list(skin.faces))}   # shown beside the verb, at most 16 columns",
        f"verbs: {_yaml(list(skin.verbs))}   # what the status bar says while the model works",
        f"agent_name: {_yaml(skin.agent_name)}",
        f"welcome: {_yaml(skin.welcome)}",
        f"goodbye: {_yaml(skin.goodbye)}",
        "",
        "# Glyphs by tool name, at most 2 columns.",
    ]
    icons = [f"  {_yaml(tool)}: {_yaml(icon)}" for tool, icon in skin.tool_icons.items()]
    lines += ["tool_icons:", *icons] if icons else ["# tool_icons:", '#   terminal: "$"']
    lines += ["", "# Art for the empty conversation."]
    art = [f"  {line}".rstrip() for line in skin.banner.split("\n")]
    lines += ["banner: |2-", *art] if skin.banner else ["# banner: |", "#   (o_o)"]
    return "\n".join(lines) + "\n"


def _yaml(value: object) -> str:
    import json

    # JSON is YAML, and its quoting is never ambiguous.
    return json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=64)
def _builtin(name: str) -> LoadedSkin:
    return _load(_files(BUILTIN)[name], own=False)


def _files(folder: Path) -> dict[str, Path]:
    """Return the skin files in `folder` by name; of `x.yaml` and `x.yml` the first one."""
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return {}
    found: dict[str, Path] = {}
    for path in paths:
        if path.suffix in SUFFIXES and is_name(path.stem):
            found.setdefault(path.stem, path)
    return found
