"""Agreeing to a plugin: showing what it wants, loading it once behind its boundary, and writing it down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent.core.home import Home
from agent.integrations.plugins import skins
from agent.integrations.plugins.agreed_files import AgreedFile, agreed_files
from agent.integrations.plugins.boundary import granted_paths
from agent.integrations.plugins.consent import ConsentFile, PluginConsent
from agent.integrations.plugins.files import OutsideError, PluginFile, digest, hashes, inside, read_files
from agent.integrations.plugins.in_process import InProcessPlugin
from agent.integrations.plugins.package import PluginPackage, read_skill
from agent.integrations.plugins.problem import PluginError, PluginFailedError, SkippedPart
from agent.integrations.plugins.process import PluginLaunch, PluginProcess
from agent.integrations.plugins.registrations import RegisteredProvider, Registrations, checked
from agent.integrations.plugins.shelf import ShelvedPlugin, find
from agent.knowledge.skills.frontmatter import SkillFormatError
from agent.safety.sandbox.opening import SandboxMode, probe
from tools.discovery import discover
from tools.registry import registry
from tools.services.sandbox import Sandbox
from tools.text.words import brief

NO_BOUNDARY = "This machine offers no boundary, so its code could do whatever you can, whatever it declares"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEnvironment:
    """Where plugins are loaded and run."""

    home: Home
    workspace: Path
    environ: Mapping[str, str]
    """The person's variables, those of `.env` among them."""
    sandbox: Sandbox
    user: Path
    """The home folder of the person."""
    secrets: Mapping[str, str]
    """Values, by name, that never leave through the network of a plugin."""

    @classmethod
    def of(
        cls,
        home: Home,
        workspace: Path,
        environ: Mapping[str, str],
        mode: SandboxMode,
        secrets: Mapping[str, str] | None = None,
    ) -> PluginEnvironment:
        """Those of this machine. Tries its boundary, which blocks for a moment."""
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
        """How the process of a plugin is started here."""
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
    """What a person says yes to beyond the plugin itself."""

    in_process: bool = False
    """It may run within Hermes, without a boundary."""
    unconfined: bool = False
    """Its process may run where the machine offers no boundary."""


def card(shelved: ShelvedPlugin, around: PluginEnvironment) -> Iterator[str]:
    """What a person has to know before they agree, line by line. Looks at the disk."""
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
"""Asks a person whether services of a plugin are used, which is known only once its code is loaded."""


async def _all(_services: Sequence[RegisteredProvider]) -> bool:
    return True


async def enable(
    shelved: ShelvedPlugin,
    around: PluginEnvironment,
    agreement: Agreement,
    taken: Collection[str] = (),
    agree_to: AgreeTo = _all,
) -> Registrations:
    """Agree to a plugin as its files are now; what it registers. `taken` are names of tools there are.

    `agree_to` is asked about its services, such as one that keeps memory; without a yes they are not used.

    Its code is loaded once, behind its boundary. Raises `PluginError` where that makes no sense, and
    `PluginFailedError` when its code cannot be loaded and it has nothing else.
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
        registered = await _registered(plugin, shelved, around, within=within)
    registered = _without_taken(_found(plugin, registered), taken)
    if registered.providers and not await agree_to(registered.providers):
        registered = _without_services(registered)
    if shelved.consent is not None:
        skins.remove(around.home, shelved.consent.registered.skins)
    if digest(await asyncio.to_thread(hashes, plugin.root)) != digest(before):
        raise PluginError("Its files changed while it was loaded; it is not enabled.")
    placed, wrong = skins.place(around.home, plugin.root, registered.skins)
    registered = replace(registered, skins=placed, skipped=(*registered.skipped, *wrong))
    consent = PluginConsent(
        name=plugin.name,
        files=before,
        in_process=within,
        unconfined=agreement.unconfined,
        registered=registered,
    )
    agree = ConsentFile(around.home.plugin_consent).agree
    await asyncio.to_thread(agree, shelved.folder, consent, files)
    return registered


def _as_they_are(root: Path) -> tuple[dict[str, str], dict[str, AgreedFile]]:
    """What stands for each file of a plugin, and what is kept of it. Reads each of them once."""
    stands: dict[str, str] = {}

    def noted() -> Iterator[tuple[str, PluginFile]]:
        for name, file in read_files(root):
            stands[name] = file.digest
            yield name, file

    files = dict(agreed_files(noted()))
    return stands, files


def taken_names(home: Home, workspace: Path, except_for: Path) -> frozenset[str]:
    """Names of tools that the program has, and plugins other than the one in `except_for`. Reads files."""
    discover()
    others = [
        tool.name
        for each in find(home, workspace)
        if each.is_on and each.consent is not None and each.folder != except_for
        for tool in each.consent.registered.tools
    ]
    return registry.names() | frozenset(others)


def withdraw(home: Home, folder: Path) -> bool:
    """Agree no longer to the plugin in `folder`; False if nobody did. Raises `ConfigError`."""
    agreed = ConsentFile(home.plugin_consent)
    if (consent := agreed.read().get(str(folder))) is not None:
        skins.remove(home, consent.registered.skins)
    return agreed.withdraw(folder)


async def _registered(
    plugin: PluginPackage, shelved: ShelvedPlugin, around: PluginEnvironment, *, within: bool
) -> Registrations:
    launch = around.launch(plugin, shelved.data)
    process = InProcessPlugin(launch) if within else PluginProcess(launch)
    try:
        return checked(await process.start(), plugin.capabilities)
    except PluginFailedError as error:
        if not (plugin.skills or plugin.servers or plugin.hooks):
            raise
        # What is wrong with its code keeps nothing else of it from being used.
        return Registrations(skipped=(SkippedPart("handler.py", str(error).rstrip(".")),))
    finally:
        await process.aclose()


def _found(plugin: PluginPackage, registered: Registrations) -> Registrations:
    """The same without skills and skins that are not there."""
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
                raise OutsideError("it is no YAML file")
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


def _usable(shelved: ShelvedPlugin) -> PluginPackage:
    if shelved.plugin is None or shelved.standing == "refused":
        raise PluginError(f"The plugin {shelved.name} cannot be used: {shelved.reason}.")
    return shelved.plugin
