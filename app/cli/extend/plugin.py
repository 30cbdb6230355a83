"""`hermes plugin`: list, approve, install, create and test plugins."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home, from_home
from agent.errors import ConfigError, ExitCode
from app.cli.frame import add_action, add_actions, advise, agrees, say, say_json
from themes.states import glyph

if TYPE_CHECKING:
    from agent.integrations.plugins.installing import Agreement, PluginEnvironment
    from agent.integrations.plugins.package import PluginPackage
    from agent.integrations.plugins.registrations import RegisteredProvider, Registrations
    from agent.integrations.plugins.shelf import FoundPlugin


DESCRIPTION = (
    "Plugins add skills, tools, commands, hooks and servers. One is used only after you "
    "agreed to it, and only as long as no byte of it changes."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes plugin` to its parser."""
    actions = add_actions(parser)
    for name, (summary, declare, do) in ACTIONS.items():
        declare(add_action(actions, name, summary, do, json=""))


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of the plugin")


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the folder of a plugin")
    _add_json(parser)


def _add_consent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--in-process",
        action="store_true",
        help="let it run within Hermes, without a boundary, if it wants to",
    )
    parser.add_argument(
        "--unconfined", action="store_true", help="run its code although this machine offers no boundary"
    )


def _add_install(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="DIR|PACKAGE",
        help="the folder of a plugin, or an installed package that brings one",
    )
    _add_consent(parser)


def _add_enable(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    _add_consent(parser)


def _add_uninstall(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    parser.add_argument("--keep-data", action="store_true", help="keep what the plugin kept for itself")


def _add_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the folder to make; its name is that of the plugin")


def _add_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plugin", metavar="PATH|NAME", help="the folder of a plugin, or the name of one")
    _add_json(parser)


def _list(args: argparse.Namespace) -> None:
    from agent.integrations.plugins.shelf import differences, find_plugins

    home = Home.locate()
    found = find_plugins(home, Path.cwd())
    if args.as_json:
        shown = [
            each.to_json() | {"differences": [one.to_json() for one in differences(home, each)]}
            for each in found
        ]
        say_json({"plugins": shown})
        return
    for each in found:
        for line in _lines(each):
            say(line)
    if not found:
        say("There are no plugins; docs/plugins.md shows how to get or write one.")


def _lines(each: FoundPlugin) -> list[str]:
    version = f" {each.plugin.version}" if each.plugin is not None and each.plugin.version else ""
    where = f"({each.place}, {each.standing}) {from_home(each.folder)}"
    lines = [f"{glyph(each.standing)} {each.name}{version} {where}"]
    if each.reason:
        lines.append(f"    {each.reason}")
    lines += [f"    {line}" for line in each.difference()]
    if each.is_on and each.consent is not None:
        lines += [f"    {title}: {', '.join(names)}" for title, names in each.consent.registered.titles()]
        lines += _skipped_lines(each.consent.registered)
    if each.plugin is not None:
        lines += [f"    not used: {part.part}: {part.reason}" for part in each.plugin.skipped]
    return lines


def _skipped_lines(registered: Registrations) -> list[str]:
    return [f"    not used: {part.part}: {part.reason}" for part in registered.skipped]


def _inspect(args: argparse.Namespace) -> None:
    from agent.integrations.plugins.installing import card
    from agent.integrations.plugins.package import read_plugin

    home = Home.locate()
    plugin = read_plugin(Path(args.path), home.plugin_data / "none")
    if args.as_json:
        say_json(plugin.to_json())
        return
    for line in card(_unapproved_plugin(plugin, home), _environment(home)):
        say(line)


def _install(args: argparse.Namespace) -> None:
    from agent.integrations.plugins.files import PluginError, is_name
    from agent.integrations.plugins.installing import put_in_place, stage_copy
    from agent.integrations.plugins.shelf import find_plugins

    home = Home.locate()
    if not Path(args.source).is_dir():
        for each in find_plugins(home, Path.cwd()):
            if each.place == "pip" and each.name == args.source:
                return _agree(each, args, home)
        reason = (
            f"There is neither a folder {args.source!r} nor an installed package that brings such a plugin"
        )
        if is_name(args.source):
            raise PluginError(f"{reason}; install it with pip beside Hermes, and then run this again.")
        raise PluginError(f"{reason}; give one of the two.")
    with stage_copy(home, Path(args.source)) as plugin:
        before = next((each for each in find_plugins(home, Path.cwd()) if each.name == plugin.name), None)
        if before is not None and before.place != "home":
            raise PluginError(f"The name {plugin.name} is taken by the plugin in {from_home(before.folder)}.")
        shown = replace(_unapproved_plugin(plugin, home), folder=Path(args.source).resolve())
        if before is not None and before.consent is not None:
            shown = replace(shown, consent=before.consent)
        _show_and_ask(shown, args, home, "Install")
        target = put_in_place(home, plugin)
    return _write_down(_plugin_in(home, target), args, home)


def _enable(args: argparse.Namespace) -> None:
    home = Home.locate()
    return _agree(_find_plugin(home, args.name), args, home)


def _agree(shelved: FoundPlugin, args: argparse.Namespace, home: Home) -> None:
    from agent.integrations.plugins.files import hashes

    if shelved.hashes is None and shelved.plugin is not None:
        # Consent covers the shown contents, even if a file changes before the answer.
        shelved = replace(shelved, hashes=hashes(shelved.plugin.root))
    _show_and_ask(shelved, args, home, "Enable")
    return _write_down(shelved, args, home)


def _show_and_ask(shelved: FoundPlugin, args: argparse.Namespace, home: Home, what: str) -> None:
    """Show what the plugin brings and may do, and ask for approval. Raises `ConfigError` if it is refused."""
    from agent.integrations.plugins.installing import card
    from agent.integrations.plugins.shelf import differences, lines_of

    around = _environment(home)
    for line in card(shelved, around):
        say(line)
    if changed := differences(home, shelved):
        say("  changed since you agreed:")
        for line in (*(f"    {each.title}" for each in changed), *lines_of(changed)):
            say(line)
    plugin = shelved.plugin
    asks = not args.yes
    if asks and not sys.stdin.isatty():
        raise ConfigError("Nobody is there to be asked; add --yes to agree to this plugin.")
    if asks and not agrees(f"{what} {shelved.name}?"):
        raise _DeclinedError("Nothing was agreed to.")
    if plugin is None:
        return
    if asks and plugin.in_process and not args.in_process:
        args.in_process = agrees("Let it run within Hermes, without a boundary?")
    if asks and plugin.runs and around.sandbox.name == "none" and not args.unconfined:
        args.unconfined = agrees("Run its code although nothing confines it?")


class _DeclinedError(ConfigError):
    exit_code = ExitCode.DENIED


def _write_down(shelved: FoundPlugin, args: argparse.Namespace, home: Home) -> None:
    from agent.integrations.plugins.installing import Agreement, enable, taken_names

    agreement: Agreement = Agreement(in_process=args.in_process, unconfined=args.unconfined)

    async def agree_to(services: Sequence[RegisteredProvider]) -> bool:
        say(f"  {shelved.name} offers services:")
        for each in services:
            say(f"    {each.sentence}")
        return args.yes or agrees("Use them?")

    taken = taken_names(home, Path.cwd(), shelved.folder)
    registered = asyncio.run(enable(shelved, _environment(home), agreement, taken, agree_to))
    for title, names in registered.titles():
        say(f"  {title}: {', '.join(names)}")
    for line in _skipped_lines(registered):
        say(line[2:])
    say(f"{shelved.name} is enabled from the next session on, until one of its files changes.")


def _disable(args: argparse.Namespace) -> None:
    from agent.integrations.plugins.installing import withdraw

    home = Home.locate()
    shelved = _find_plugin(home, args.name)
    if withdraw(home, shelved.folder):
        say(f"{shelved.name} is disabled from the next session on.")
    else:
        say(f"{shelved.name} was not enabled.")


def _uninstall(args: argparse.Namespace) -> None:
    from agent.integrations.plugins.installing import uninstall

    home = Home.locate()
    shelved = _find_plugin(home, args.name)
    uninstall(home, shelved, keep_data=args.keep_data)
    say(f"{shelved.name} was removed.")


def _create(args: argparse.Namespace) -> None:
    from agent.integrations.plugins.installing import create

    folder = Path(args.path).absolute()
    for name in create(folder):
        say(f"{args.path}/{name}")
    advise(f"Try it with `hermes plugin test {args.path}`, use it with `hermes plugin install {args.path}`.")


def _test(args: argparse.Namespace) -> int:
    from agent.integrations.plugins.cases import read_cases, run_cases
    from agent.integrations.plugins.files import PluginError
    from agent.integrations.plugins.package import read_plugin

    home = Home.locate()
    path = Path(args.plugin)
    plugin = (
        read_plugin(path, home.plugin_data / "none")
        if path.is_dir()
        else _find_plugin(home, args.plugin).plugin
    )
    if plugin is None:
        raise PluginError(f"The plugin {args.plugin} cannot be read; see `hermes plugin list`.")
    cases = read_cases(plugin.root)
    around = _environment(home)
    data = home.plugin_data / f".test-{os.getpid()}"
    try:
        registered, results = asyncio.run(run_cases(plugin, around.launch(plugin, data), cases))
    finally:
        import shutil

        shutil.rmtree(data, ignore_errors=True)
    failed = [each for each in results if each.wrong]
    if args.as_json:
        shown = [{"name": each.name, "passed": not each.wrong, "wrong": each.wrong} for each in results]
        say_json({"plugin": plugin.name, "cases": shown, "registered": registered.to_json()})
        return int(ExitCode.FAILED if failed else ExitCode.DONE)
    for line in _skipped_lines(registered):
        say(line.strip())
    for each in results:
        say(
            f"{glyph('failed' if each.wrong else 'done')} {each.name}"
            + (f": {each.wrong}" if each.wrong else "")
        )
    say(f"{len(results) - len(failed)} of {len(results)} passed.")
    return int(ExitCode.FAILED if failed else ExitCode.DONE)


def _find_plugin(home: Home, name: str) -> FoundPlugin:
    """Return the plugin called `name`. Raises `PluginError`."""
    from agent.integrations.plugins.files import PluginError
    from agent.integrations.plugins.shelf import find_plugins

    found = [each for each in find_plugins(home, Path.cwd()) if name == each.name]
    usable = [each for each in found if each.standing != "refused"] or found
    if not usable:
        raise PluginError(f"There is no plugin {name!r}; see `hermes plugin list`.")
    return usable[0]


def _unapproved_plugin(plugin: PluginPackage, home: Home) -> FoundPlugin:
    """Return a plugin found in its own folder as an installed one without approval."""
    from agent.integrations.plugins.files import hashes
    from agent.integrations.plugins.shelf import FoundPlugin

    return FoundPlugin(
        name=plugin.name,
        folder=plugin.root,
        place="home",
        data=home.plugin_data / plugin.name,
        standing="disabled",
        plugin=plugin,
        hashes=hashes(plugin.root),
    )


def _plugin_in(home: Home, folder: Path) -> FoundPlugin:
    from agent.integrations.plugins.files import PluginError
    from agent.integrations.plugins.shelf import find_plugins

    found = next((each for each in find_plugins(home, Path.cwd()) if each.folder == folder), None)
    if found is None:
        raise PluginError(f"The plugin in {from_home(folder)} is gone.")
    return found


def _environment(home: Home) -> PluginEnvironment:
    from agent.core.config.loader import load
    from agent.integrations.plugins.installing import PluginEnvironment

    loaded = load(home, dict(os.environ), Path.cwd())
    environ: Mapping[str, str] = loaded.environ
    return PluginEnvironment.of(home, Path.cwd(), environ, loaded.settings.sandbox.mode)


ACTIONS: Mapping[
    str,
    tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int | None]],
] = {
    "list": ("all plugins, and whether they are used", _add_json, _list),
    "inspect": (
        "what a folder brings, what is not used of it, and why; nothing is run",
        _add_inspect,
        _inspect,
    ),
    "install": ("copy a plugin into your home and agree to it", _add_install, _install),
    "enable": ("agree to a plugin as its files are now", _add_enable, _enable),
    "disable": ("stop using a plugin", _add_name, _disable),
    "uninstall": ("remove a plugin of your home, and what it kept", _add_uninstall, _uninstall),
    "create": ("begin a plugin that works, with a test", _add_create, _create),
    "test": ("run the cases a plugin brings", _add_test, _test),
}
