"""Creating, installing, replacing, enabling and removing plugins."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from agent.core.home import PRIVATE_FILE, PRIVATE_FOLDER, Home, private_folder
from agent.integrations.plugins import registrations
from agent.integrations.plugins.consent import AgreedFile, PluginConsent, PluginConsents, agreed_files
from agent.integrations.plugins.files import (
    MOST_BYTES,
    OutsideError,
    PluginError,
    PluginFailedError,
    PluginFile,
    SkippedPart,
    digest,
    hashes,
    inside,
    is_name,
    read_files,
    walk,
)
from agent.integrations.plugins.package import PluginPackage, read_plugin, read_skill
from agent.integrations.plugins.process import InProcessPlugin, PluginLaunch, PluginProcess, granted_paths
from agent.integrations.plugins.registrations import RegisteredProvider, Registrations, check_registrations
from agent.integrations.plugins.shelf import FoundPlugin, data_folder, find_plugins
from agent.knowledge.skills.skill import SkillFormatError
from agent.safety.sandbox.opening import SandboxMode, probe
from tools.discovery import discover
from tools.kit.files import NotAFileError, read_bytes, write_new
from tools.registry import registry
from tools.services.sandbox import Sandbox
from tools.text.words import brief

NO_BOUNDARY = "This machine offers no boundary, so its code could do whatever you can, whatever it declares"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEnvironment:
    """The folders, settings and sandbox with which plugins are loaded and run."""

    home: Home
    workspace: Path
    environ: Mapping[str, str]
    """The user's environment variables, including those of `.env`."""
    sandbox: Sandbox
    user: Path
    """The home folder of the user."""
    secrets: Mapping[str, str]
    """Values, by name, that a plugin's network never lets out."""

    @classmethod
    def of(
        cls,
        home: Home,
        workspace: Path,
        environ: Mapping[str, str],
        mode: SandboxMode,
        secrets: Mapping[str, str] | None = None,
    ) -> PluginEnvironment:
        """Return the environment of this machine. Tests the sandbox, which blocks for a moment."""
        try:
            user = Path.home()
        except RuntimeError:  # nobody knows where the person's home is
            user = home.root
        return cls(
            home=home,
            workspace=workspace.resolve(),
            environ=environ,
            sandbox=probe(mode),
            user=user,
            secrets=secrets or {},
        )

    def launch(self, plugin: PluginPackage, data: Path) -> PluginLaunch:
        """Return the data to start the process of a plugin in this environment."""
        granted = {name: self.environ.get(name, "") for name in plugin.capabilities.env}
        own = frozenset(granted.values())
        return PluginLaunch(
            name=plugin.name,
            root=plugin.root,
            data=data,
            handler=plugin.handler,
            capabilities=plugin.capabilities,
            workspace=self.workspace,
            home=self.home,
            environ=self.environ,
            sandbox=self.sandbox,
            user=self.user,
            secrets={name: value for name, value in self.secrets.items() if value not in own},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The user's approval beyond the plugin itself: no sandbox, or no process of its own."""

    in_process: bool = False
    """Whether it may run inside the process of Hermes, without a sandbox."""
    unconfined: bool = False
    """Whether its process may run if the machine has no sandbox."""


def card(shelved: FoundPlugin, around: PluginEnvironment) -> Iterator[str]:
    """Yield what the user must know before approving a plugin, line by line. Reads the disk."""
    plugin = _usable(shelved)
    version = f" {plugin.version}" if plugin.version else ""
    yield f"{plugin.name}{version} in {brief(shelved.folder, 300)}"
    if plugin.description:
        yield f"  {brief(plugin.description, 300)}"
    if plugin.skills:
        yield f"  brings skills: {', '.join(each.name for each in plugin.skills)}"
    for server in plugin.servers:
        what = brief(server.command, 200) if server.kind == "stdio" else brief(server.url, 200)
        line = f"  brings the MCP server {brief(server.name)}: {what} {brief(' '.join(server.args), 200)}"
        yield line.rstrip()
    for hook in plugin.hooks:
        yield f"  runs on {hook.event}: {brief(hook.command, 300)}"
    if plugin.runs:
        yield from _of_code(plugin, around)
    for part in plugin.skipped:
        yield f"  not used: {brief(part.part, 200)}, as {brief(part.reason, 300)}"


def _of_code(plugin: PluginPackage, around: PluginEnvironment) -> Iterator[str]:
    declared = list(plugin.capabilities.lines())
    for title, values in declared:
        yield f"  {title}: {', '.join(brief(each) for each in values)}"
    if not declared:
        yield "  has code that declares no tools, paths, hosts, events or variables"
    paths = granted_paths(plugin.capabilities, around.workspace, around.user, around.home, around.environ)
    for part in paths.refused:
        yield f"  not granted: {brief(part.part, 200)}, as {part.reason}"
    if plugin.in_process:
        yield "  wants to run within Hermes, without a boundary: then it can do whatever you can"
    if around.sandbox.name == "none":
        yield f"  {NO_BOUNDARY}"


AgreeTo = Callable[[Sequence[RegisteredProvider]], Awaitable[bool]]
"""A function that asks the user to approve services of a plugin, known only after its code was loaded."""


async def _all(_services: Sequence[RegisteredProvider]) -> bool:
    return True


async def enable(
    shelved: FoundPlugin,
    around: PluginEnvironment,
    agreement: Agreement,
    taken: Collection[str] = (),
    agree_to: AgreeTo = _all,
) -> Registrations:
    """Approve a plugin with its current files, and return what it registers.

    `taken` are existing names of tools. `agree_to` is asked about the plugin's services, such as a memory.
    Without approval they are not used. The plugin's code is loaded once, inside its sandbox unless it was
    approved without. Raises `PluginError` if the plugin cannot be enabled, and `PluginFailedError` if its
    code cannot be loaded and it has nothing else to offer.
    """
    plugin = _usable(shelved)
    if plugin.runs and around.sandbox.name == "none" and not (agreement.unconfined or agreement.in_process):
        raise PluginError(f"{NO_BOUNDARY}; agree to that with --unconfined, or leave it.")
    before, files = await asyncio.to_thread(_as_they_are, plugin.root)
    if shelved.hashes is not None and digest(before) != digest(shelved.hashes):
        raise PluginError("Its files are being changed; wait until that is over, and agree then.")
    registered = Registrations()
    within = plugin.in_process and agreement.in_process
    if plugin.handler is not None:
        registered = await _register(plugin, shelved, around, within=within)
    registered = _without_taken(_without_missing(plugin, registered), taken)
    if registered.providers and not await agree_to(registered.providers):
        registered = _without_services(registered)
    if shelved.consent is not None:
        registrations.remove(around.home, shelved.consent.registered.skins)
    if digest(await asyncio.to_thread(hashes, plugin.root)) != digest(before):
        raise PluginError("Its files changed while it was loaded; it is not enabled.")
    placed, wrong = registrations.place(around.home, plugin.root, registered.skins)
    registered = replace(registered, skins=placed, skipped=(*registered.skipped, *wrong))
    consent = PluginConsent(
        name=plugin.name,
        files=before,
        in_process=within,
        unconfined=agreement.unconfined,
        registered=registered,
    )
    agree = PluginConsents(around.home.plugin_consent).agree
    await asyncio.to_thread(agree, shelved.folder, consent, files)
    return registered


def _as_they_are(root: Path) -> tuple[dict[str, str], dict[str, AgreedFile]]:
    """Return the hash of each file of a plugin, and the form in which each is stored, both by path.

    Reads every file once.
    """
    stands: dict[str, str] = {}

    def note_digests() -> Iterator[tuple[str, PluginFile]]:
        for name, file in read_files(root):
            stands[name] = file.digest
            yield name, file

    files = dict(agreed_files(note_digests()))
    return stands, files


def taken_names(home: Home, workspace: Path, except_for: Path) -> frozenset[str]:
    """Return the names of the program's tools and of the enabled plugins' tools except those in `except_for`.

    Reads files.
    """
    discover()
    others = [
        tool.name
        for each in find_plugins(home, workspace)
        if each.is_on and each.consent is not None and each.folder != except_for
        for tool in each.consent.registered.tools
    ]
    return registry.names() | frozenset(others)


def withdraw(home: Home, folder: Path) -> bool:
    """Withdraw the approval of the plugin in `folder`, and delete its skins; return False if there is none.

    Raises `ConfigError`.
    """
    agreed = PluginConsents(home.plugin_consent)
    if (consent := agreed.read().get(str(folder))) is not None:
        registrations.remove(home, consent.registered.skins)
    return agreed.withdraw(folder)


async def _register(
    plugin: PluginPackage, shelved: FoundPlugin, around: PluginEnvironment, *, within: bool
) -> Registrations:
    launch = around.launch(plugin, shelved.data)
    process = InProcessPlugin(launch) if within else PluginProcess(launch)
    try:
        return check_registrations(await process.start(), plugin.capabilities)
    except PluginFailedError as error:
        if not (plugin.skills or plugin.servers or plugin.hooks):
            raise
        # What is wrong with its code keeps nothing else of it from being used.
        return Registrations(skipped=(SkippedPart("handler.py", str(error).rstrip(".")),))
    finally:
        await process.aclose()


def _without_missing(plugin: PluginPackage, registered: Registrations) -> Registrations:
    """Return the registrations with unusable skills and skins moved to the skipped parts."""
    skills: list[str] = []
    looks: list[str] = []
    skipped = list(registered.skipped)
    for path in registered.skills:
        try:
            skills.append(
                read_skill(plugin.root, plugin.root / path).folder.relative_to(plugin.root).as_posix()
            )
        except (OutsideError, SkillFormatError, OSError) as error:
            skipped.append(SkippedPart(f"skill {brief(path)}", str(error)))
    for path in registered.skins:
        try:
            real = inside(plugin.root, plugin.root / path)
            if not real.is_file() or real.suffix not in (".yaml", ".yml"):
                raise OutsideError("it is not a YAML file")
            looks.append(real.relative_to(plugin.root).as_posix())
        except OutsideError as error:
            skipped.append(SkippedPart(f"skin {brief(path)}", str(error)))
    return replace(registered, skills=tuple(skills), skins=tuple(looks), skipped=tuple(skipped))


def _without_taken(registered: Registrations, taken: Collection[str]) -> Registrations:
    double = [each.name for each in registered.tools if each.name in taken]
    skipped = tuple(SkippedPart(f"tool {name}", "its name is taken; choose another one") for name in double)
    return replace(
        registered,
        tools=tuple(each for each in registered.tools if each.name not in taken),
        skipped=(*registered.skipped, *skipped),
    )


def _without_services(registered: Registrations) -> Registrations:
    skipped = tuple(
        SkippedPart(f"{each.kind} {each.name}", "you did not agree to it") for each in registered.providers
    )
    return replace(registered, providers=(), skipped=(*registered.skipped, *skipped))


def _usable(shelved: FoundPlugin) -> PluginPackage:
    if shelved.plugin is None or shelved.standing == "refused":
        raise PluginError(f"The plugin {shelved.name} cannot be used: {shelved.reason}.")
    return shelved.plugin


_STAGED = ".new-"


@contextmanager
def stage_copy(home: Home, source: Path) -> Iterator[PluginPackage]:
    """Copy a plugin into the home folder, next to the installed ones. Unless it is put in place, the copy is
    deleted after the block.

    Links inside the plugin are replaced by their targets; links that lead out are left out. Raises
    `PluginError`.
    """
    plugin = read_plugin(source, home.plugin_data / "none")
    hashes(plugin.root)
    if plugin.root.is_relative_to(home.plugins.resolve()):
        raise PluginError(
            f"{brief(source, 300)} is among your plugins already; see `hermes plugin enable {plugin.name}`."
        )
    folder = Path(tempfile.mkdtemp(prefix=_STAGED, dir=private_folder(home.plugins)))
    try:
        copy = folder / plugin.name
        _copy_tree(plugin.root, copy)
        yield read_plugin(copy, data_folder(home, plugin.name, copy, "home"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put_in_place(home: Home, plugin: PluginPackage) -> Path:
    """Install a staged plugin, replacing any plugin with its name; return its folder.

    Raises `PluginError`.
    """
    target = home.plugins.resolve() / plugin.name
    before = plugin.root.with_name(f"{plugin.name}.before")
    try:
        if os.path.lexists(target):
            target.rename(before)
        try:
            plugin.root.rename(target)
        except OSError:
            if os.path.lexists(before):
                before.rename(target)
            raise
    except OSError as error:
        raise PluginError(f"{brief(target, 300)} cannot be written: {error.strerror or error}.") from error
    return target


def uninstall(home: Home, shelved: FoundPlugin, *, keep_data: bool = False) -> None:
    """Remove a plugin from the home folder, with approval and data. Raises `PluginError`."""
    if shelved.place != "home":
        where = "comes with the project" if shelved.place == "project" else "was installed by pip"
        raise PluginError(
            f"The plugin {shelved.name} {where}; switch it off with `hermes plugin disable {shelved.name}`, "
            "or remove it there."
        )
    withdraw(home, shelved.folder)
    try:
        shutil.rmtree(shelved.folder)
        if not keep_data and shelved.plugin is not None and shelved.data.is_dir():
            shutil.rmtree(shelved.data)
    except OSError as error:
        raise PluginError(
            f"{brief(error.filename, 300)} cannot be removed: {error.strerror or error}."
        ) from error


def _copy_tree(root: Path, target: Path) -> None:
    total = 0
    try:
        target.mkdir(mode=PRIVATE_FOLDER)
        for path in walk(root):
            try:
                real = inside(root, path)
            except OutsideError:
                continue
            if not real.is_file():
                continue
            content, status = read_bytes(real, MOST_BYTES)
            total += len(content)
            if total > MOST_BYTES:
                raise PluginError(f"The plugin has more than {MOST_BYTES // 1_000_000} MB; make it smaller.")
            place = target / path.relative_to(root)
            place.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            mode = PRIVATE_FOLDER if status.st_mode & 0o100 else PRIVATE_FILE
            write_new(place, content, mode)
    except NotAFileError as error:
        raise PluginError(f"{brief(root, 300)} holds what is not a plain file: {error}.") from error
    except OSError as error:
        raise PluginError(
            f"{brief(error.filename or target, 300)} cannot be copied: {error.strerror or error}."
        ) from error


_NEW = Path(__file__).with_name("new_plugin")
_NEW_FILES = ("plugin.yaml", "handler.py", "cases.yaml")


def create(folder: Path) -> tuple[str, ...]:
    """Create a new plugin in a folder that does not exist yet, and return the files that were written.

    The plugin is named after the folder. Raises `PluginError`.
    """
    name = folder.name
    if not is_name(name):
        raise PluginError(
            f"{brief(name)} is not a plugin name; use a-z, 0-9, - and ., a letter or digit at both ends."
        )
    tool = name.replace("-", "_").replace(".", "_")
    tool = f"{tool}_count" if tool[0].isalpha() else f"count_{tool}"
    try:
        folder.mkdir(parents=True)
        for file in _NEW_FILES:
            text = (_NEW / f"{file}.txt").read_text("utf-8").format(name=name, tool=tool)
            (folder / file).write_text(text, "utf-8")
    except FileExistsError:
        raise PluginError(f"{brief(folder, 300)} exists already; choose another name.") from None
    except OSError as error:
        raise PluginError(f"{brief(folder, 300)} cannot be made: {error.strerror or error}.") from error
    return _NEW_FILES
