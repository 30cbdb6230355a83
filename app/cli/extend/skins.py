"""`hermes skins`: list, show, check and create skins."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode
from app.cli.frame import add_action, add_actions, advise, say, say_json, say_path
from themes.states import glyph

if TYPE_CHECKING:
    from themes.loader import LoadedSkin
    from themes.skin import Skin

DESCRIPTION = "List, show, check and create skins."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes skins` to its parser."""
    actions = add_actions(parser)
    add_action(actions, "list", "every skin; your own ones come last", _list, json="print JSON")
    show = add_action(actions, "show", "a sample of one skin", _show)
    show.add_argument("name", metavar="NAME")
    check = add_action(
        actions,
        "check",
        "say what is wrong with a skin and what is hard to read; exit code 2 if anything is",
        _check,
        json="",
    )
    check.add_argument("skin", metavar="NAME|PATH", nargs="?", help="default: all skins")
    new = add_action(
        actions, "new", "write a skin file of your own, with every part explained", _new, json=""
    )
    new.add_argument("name", metavar="NAME")
    new.add_argument(
        "--from", dest="based_on", metavar="SKIN", default="night", help="the skin to start from"
    )
    add_action(actions, "path", "where your own skins are", lambda args: say_path(args, Home.locate().skins))


def _find_skin(name: str) -> LoadedSkin:
    """Load the skin called `name`. Raises `ConfigError` if there is none."""
    from themes.loader import list_skins, load_skin
    from themes.skin import nearest, short_line

    folder = Home.locate().skins
    known = [listed.name for listed in list_skins(folder)]
    if name not in known:
        guess = nearest(name, known)
        raise ConfigError(
            f"There is no skin `{short_line(name)}`{guess}"
            + ("" if guess.endswith("?") else " `hermes skins` lists them.")
        )
    return load_skin(name, folder)


def _list(args: argparse.Namespace) -> None:
    from themes.loader import list_skins, load_skin

    folder = Home.locate().skins
    listed = list_skins(folder)
    if args.as_json:
        say_json([_data(load_skin(each.name, folder), own=each.own) for each in listed], 2)
        return
    width = max(len(each.name) for each in listed)
    for each in listed:
        loaded = load_skin(each.name, folder)
        shade = _shade(loaded.skin)
        notes = ["your own"] if each.own else []
        if loaded.problems:
            notes.append("has problems, see `hermes skins check`")
        note = f"   ({'; '.join(notes)})" if notes else ""
        say(f"{each.name:{width}}  {shade:5}  {loaded.skin.description}{note}".rstrip())


def _data(loaded: LoadedSkin, **more: Any) -> dict[str, Any]:
    """Return the data about a skin that `--json` prints, with `more` added."""
    skin = loaded.skin
    problems = list(map(str, loaded.problems))
    brief = {"name": skin.name, "shade": _shade(skin), "description": skin.description}
    return brief | more | {"problems": problems}


def _shade(skin: Skin) -> str:
    """Return `dark` or `light`, or `any` for a skin on the terminal's own background."""
    if skin.colors["background"] == "ansi_default":
        return "any"
    return "dark" if skin.dark else "light"


def _show(args: argparse.Namespace) -> None:
    from themes.colors import adapt_skin, detect

    loaded = _find_skin(args.name)
    if args.as_json:
        say_json(dataclasses.asdict(loaded.skin) | _data(loaded), 2)
        return
    depth = detect(os.environ) if sys.stdout.isatty() else "none"
    if depth == "none":
        _describe(loaded.skin)
    else:
        _draw(adapt_skin(loaded.skin, depth))
    for problem in loaded.problems:
        say(f"{glyph('failed')} {problem}", file=sys.stderr)


def _draw(skin: Skin) -> None:
    from rich.console import Console

    from app.tui.screens.skins.skin_files import sample

    console = Console(markup=False, highlight=False, emoji=False)
    width = max(min(console.width, 78), 20)
    for line in sample(skin, width):
        console.print(line, soft_wrap=True)


def _describe(skin: Skin) -> None:
    """Print a description of the skin."""
    from themes.skin import ROLES

    say(f"{skin.name} ({_shade(skin)})" + (f": {skin.description}" if skin.description else ""))
    say(f"  prompt     {skin.prompt_symbol}")
    say(f"  spinner    {' '.join(skin.spinner)}")
    if skin.faces:
        say(f"  faces      {'  '.join(skin.faces)}")
    say(f"  verbs      {', '.join(skin.verbs)}")
    say(f"  name       {skin.agent_name}")
    say(f"  welcome    {skin.welcome}")
    say(f"  goodbye    {skin.goodbye}")
    width = max(map(len, ROLES))
    for role, meaning in ROLES.items():
        say(f"  {role:{width}}  {skin.colors[role]:<18}  {meaning}")


def _check(args: argparse.Namespace) -> int:
    from themes.contrast import check
    from themes.loader import list_skins, load_skin

    folder = Home.locate().skins
    named = args.skin is not None
    chosen = (
        [_file_or_named(args.skin)]
        if named
        else [load_skin(each.name, folder) for each in list_skins(folder)]
    )
    bad = 0
    for loaded in chosen:
        findings = check(loaded.skin)
        for problem in loaded.problems:
            say(f"{glyph('failed')} {problem}")
        for finding in findings:
            say(f"▲ {loaded.skin.name}: {finding}")
        if loaded.problems or findings:
            bad += 1
        else:
            say(f"{glyph('done')} {loaded.skin.name}")
    return ExitCode.USAGE if bad else ExitCode.DONE


def _file_or_named(skin: str) -> LoadedSkin:
    """Load `skin`, a file if it looks like one (`./a.yaml`, `a.yml`), else a name. Raises `ConfigError`."""
    from themes.loader import SUFFIXES, load_file

    path = Path(skin)
    if path.suffix not in SUFFIXES and len(path.parts) < 2:
        return _find_skin(skin)
    try:
        path = path.expanduser()
        exists = path.exists()
    except (OSError, ValueError, RuntimeError):
        exists = False
    if not exists:
        raise ConfigError(f"There is no file {skin}; `hermes skins list` names the skins there are.")
    return load_file(path)


def _new(args: argparse.Namespace) -> None:
    from app.tui.screens.skins.skin_files import create

    base = _find_skin(args.based_on).skin
    path = create(Home.locate(), args.name, base)
    advise(f"{path}   (from {base.name}; edit it, then `hermes skins check {args.name}`)")
