"""Skins by name: built-in ones, and a person's own from a folder of YAML files.

Loading never raises. Invalid parts of a file get default values, and every problem is reported.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from themes import schema
from themes.schema import Report, SkinSection, parse, translate_names
from themes.skin import ROLES, Skin, SkinProblem, nearest, quote
from tools.kit.lazy_pattern import lazy_pattern

SUFFIXES = (".yaml", ".yml")
MAX_BYTES = 256 * 1024
"""Largest skin file that is read. One with large banner art has 20 KB."""

_NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class UnreadableSkinError(Exception):
    """A skin file is there but cannot be read. The text is the reason, without the file's name."""


def is_name(text: str) -> bool:
    """Return whether `text` is a valid skin name: letters, digits, `-` and `_`, so never a path."""
    return _NAME.fullmatch(text) is not None


def read(path: Path) -> bytes:
    """The content of a regular file of at most `MAX_BYTES`. Never waits. Raises `UnreadableSkinError`."""
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
"""The folder among a person's own skins with those that plugins brought."""
_LIGHT_BASE = "paper"
STAND_INS = {"auto": ("night", "paper"), "terminal": ("ansi", "ansi")}
"""Names that stand for another skin: on a dark page, and on a light one."""


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
    """All skins by name, built-in ones first. Reads folders, not files; a missing folder is empty."""
    files = {**_files(folder / PLUGINS), **_files(folder)} if folder else {}
    own = {name: ListedSkin(name, path, True) for name, path in files.items()}
    builtin = [ListedSkin(name, path, False) for name, path in _files(BUILTIN).items() if name not in own]
    first = sorted(builtin, key=lambda listed: (listed.name != Skin().name, listed.name))
    return (*first, *(own[name] for name in sorted(own)))


def load_skin(name: str, folder: Path | None = None, *, light: bool = False) -> LoadedSkin:
    """Return the skin called `name`; if there is none, the default one with a problem.

    `light` says whether the page of the terminal is light, which `auto` follows.
    """
    if name in STAND_INS and not (folder and name in _files(folder)):
        dark_one, light_one = STAND_INS[name]
        found_skin = load_skin(light_one if light else dark_one, folder).skin
        return LoadedSkin(replace(found_skin, name=name))
    found = next((listed for listed in list_skins(folder) if listed.name == name), None)
    if found is None:
        known = [listed.name for listed in list_skins(folder)]
        message = f"there is no skin `{quote(name)}`{nearest(name, known)}"
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
    skin = schema.build(root, name, base, report)
    return LoadedSkin(skin, tuple(sorted(problems, key=lambda problem: problem.line or 0)))


def _base(root: SkinSection, report: Report) -> Skin:
    """Return the skin that supplies missing values."""
    start = schema.base_name(root, report)
    if start in builtin_names():
        return _builtin(start).skin
    if start is not None:
        sentence = f"`base: {quote(start)}` is not a built-in skin{nearest(start, builtin_names())}"
        report(sentence, root.lines["base"])
    if schema.wants_light(root):
        return replace(Skin(), colors=_builtin(_LIGHT_BASE).skin.colors, dark=False)
    return Skin()


def builtin_names() -> tuple[str, ...]:
    """Names of the skins that come with Hermes, the default first."""
    return tuple(listed.name for listed in list_skins())


def new_skin(name: str, based_on: Skin) -> str:
    """Return the text of a skin file that looks like `based_on`, with every part explained.

    Raises `ValueError` if `name` is not a valid skin name.
    """
    if not is_name(name):
        raise ValueError(f"`{quote(name)}` is not a name for a skin; use letters, digits, - and _.")
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
    """Skin files in `folder` by name; of `x.yaml` and `x.yml` the first one."""
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return {}
    found: dict[str, Path] = {}
    for path in paths:
        if path.suffix in SUFFIXES and is_name(path.stem):
            found.setdefault(path.stem, path)
    return found
