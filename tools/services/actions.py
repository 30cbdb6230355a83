"""Actions of tools on the world, as data: the vocabulary of the gate.

A tool never acts first and asks later. It builds one of these, hands it to
`ToolContext.permit`, and goes on only if that returns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from tools.effects import Effect, declare_effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Base of all actions. `tool` is the name of the tool that wants to act."""

    tool: str
    effect: ClassVar[Effect | None] = None
    """What the gate must know of it; None for the actions of this module, which the gate knows itself."""

    def headline(self) -> str:
        """One line that tells a person exactly what would happen."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand(Action):
    """Run a shell command. `command` is the whole text, never shortened."""

    command: str
    cwd: Path
    background: bool = False
    pty: bool = False
    outside: bool = False
    """Without the sandbox that commands run in: a person is asked, whatever the rules say."""
    because: str = ""
    """What the sandbox kept from the same command before, as a clause for the question."""
    network: bool = False
    """With the network, which the sandbox keeps from commands unless a person allows it."""

    def headline(self) -> str:
        return self.command


@dataclass(frozen=True, slots=True, kw_only=True)
class SendInput(Action):
    """Write to the standard input of a process that was started before."""

    process: str
    data: str
    program: str = ""
    """The command line the process was started with; empty when it is not known."""
    typed: str = ""
    """What was typed before on a line that is not finished; `data` goes on with it."""

    def headline(self) -> str:
        into = f"{self.process} ({self.program})" if self.program else self.process
        after = f", after {self.typed!r}" if self.typed else ""
        return f"type into {into}{after}: {self.data!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPath(Action):
    """Read a file or list a folder. `path` is resolved: no links, no `..`."""

    path: Path

    def headline(self) -> str:
        return f"read {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePath(Action):
    """Create or change a file. `path` is resolved."""

    path: Path
    creates: bool = False

    def headline(self) -> str:
        return f"{'create' if self.creates else 'change'} {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePath(Action):
    """Delete a file. `path` is resolved."""

    path: Path

    def headline(self) -> str:
        return f"delete {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFiles(Action):
    """Change many files at once to contents that are kept. All paths are resolved."""

    paths: tuple[Path, ...]
    """What is changed or made."""
    removes: tuple[Path, ...] = ()
    """What goes away."""

    @property
    def why(self) -> str:
        """Why a person may want to be asked, as a clause."""
        raise NotImplementedError

    def writes(self) -> tuple[WritePath | DeletePath, ...]:
        """The same path by path; each is judged like any other change of a file."""
        changed = (WritePath(tool=self.tool, path=path) for path in self.paths)
        return (*changed, *(DeletePath(tool=self.tool, path=path) for path in self.removes))


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFiles(ChangeFiles):
    """Take files back to how they stood at an earlier position."""

    position: int
    """The step after which they stood so; 0 is before the first."""

    @property
    def why(self) -> str:
        return "overwrites files with what they held earlier"

    def headline(self) -> str:
        parts = []
        if self.paths:
            parts.append(f"take {_files(self.paths)} back to step {self.position}: {_join_paths(self.paths)}")
        if self.removes:
            parts.append(
                f"remove {_files(self.removes)} made after step {self.position}: {_join_paths(self.removes)}"
            )
        return "; ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCopy(ChangeFiles):
    """Bring what an agent changed in its copy into the workspace. Paths are those in the workspace."""

    agent: str

    @property
    def why(self) -> str:
        return f"brings what {self.agent} changed in its copy into the workspace"

    def headline(self) -> str:
        parts = []
        if self.paths:
            parts.append(
                f"merge {_files(self.paths)} from the copy of {self.agent}: {_join_paths(self.paths)}"
            )
        if self.removes:
            parts.append(f"remove {_files(self.removes)} as {self.agent} did: {_join_paths(self.removes)}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepChanges(ChangeFiles):
    """Keep what a program changed without being asked about; it was taken back meanwhile."""

    links: tuple[Path, ...] = ()
    """Those of `paths` that are links: what lies where they lead comes along."""

    def writes(self) -> tuple[WritePath | DeletePath, ...]:
        along = (DeletePath(tool=self.tool, path=path) for path in self.links)
        return (*ChangeFiles.writes(self), *along)

    @property
    def why(self) -> str:
        return "keeps what a program changed on its own"

    def headline(self) -> str:
        parts = []
        if self.paths:
            parts.append(f"keep what a program wrote to {_join_paths(self.paths)}")
        if self.removes:
            parts.append(f"have {_join_paths(self.removes)} removed, as a program did")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGitSettings(Action):
    """Take over settings of git that a command wrote, and that may run a program or send elsewhere."""

    keys: tuple[str, ...]

    def headline(self) -> str:
        return f"set {', '.join(f'git-config({key})' for key in self.keys)}"

    def singles(self) -> tuple[SetGitSettings, ...]:
        """One action for each key."""
        return tuple(SetGitSettings(tool=self.tool, keys=(key,)) for key in self.keys)

    @classmethod
    def of(cls, example: str) -> SetGitSettings:
        """The change that a key stands for."""
        return cls(tool="terminal", keys=(example,))


SetGitSettings.effect = declare_effect(
    Effect(
        name="git-config",
        why="changes settings of git, which may run a program or send elsewhere",
        subject=lambda action: ", ".join(action.keys),
        lasting=lambda action: f"set {', '.join(action.keys)} of git",
        example=SetGitSettings.of,
    )
)


def _files(paths: tuple[Path, ...]) -> str:
    return f"{len(paths):,} file{'s' * (len(paths) != 1)}"


def _join_paths(paths: tuple[Path, ...]) -> str:
    return ", ".join(str(path).replace("\n", "\\n") for path in paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch(Action):
    """Request a URL."""

    url: str
    pages: int = 1
    """Pages of the same host that may be fetched from there on."""

    def headline(self) -> str:
        if self.pages > 1:
            return f"fetch {self.url} and up to {self.pages - 1:,} pages that it leads to"
        return f"fetch {self.url}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchWeb(Action):
    """Send a query to services that search the web, one after the other until one answers."""

    query: str
    routes: tuple[str, ...]
    """Each service with the address that the query is sent to."""

    def headline(self) -> str:
        return f"search the web for {self.query!r} with {', else '.join(self.routes)}"

    @classmethod
    def of(cls, example: str) -> SearchWeb:
        """The search that a query stands for."""
        return cls(tool="web_search", query=example, routes=())


SearchWeb.effect = declare_effect(
    Effect(
        name="web_search",
        why="sends the query to services outside of this machine",
        subject=lambda action: action.query,
        lasting=lambda action: f"search the web for exactly {action.query!r}",
        example=SearchWeb.of,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachHost(Action):
    """Let commands connect to a host that is not on the list. `host` is folded and in ASCII."""

    host: str
    port: int

    @property
    def target(self) -> str:
        """The host, with its port unless that is one of the web."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port in (80, 443) else f"{shown}:{self.port}"

    def headline(self) -> str:
        return f"let commands reach {self.host} on port {self.port}"

    @classmethod
    def of(cls, example: str) -> ReachHost:
        """The connection that `example.org` or `example.org:8443` stands for."""
        host, _, port = (
            example.rpartition(":") if example.rpartition(":")[2].isdigit() else (example, "", "443")
        )
        return cls(tool="network", host=host.strip("[]").lower(), port=int(port))


ReachHost.effect = declare_effect(
    Effect(
        name="reach",
        why="connects to a host that is not on the list",
        subject=lambda action: action.target,
        lasting=lambda action: f"let commands reach {action.host} on port {action.port}",
        example=ReachHost.of,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSettings(Action):
    """Change Hermes' own settings or guard rails."""

    what: str

    def headline(self) -> str:
        return f"change settings: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallServer(Action):
    """Call a tool of an MCP server. `arguments` is what is sent, as JSON text."""

    server: str
    name: str
    arguments: str = ""

    def headline(self) -> str:
        return f"call {self.server}/{self.name} {self.arguments}".rstrip()

    @classmethod
    def of(cls, example: str) -> CallServer:
        """The call that `server/name` stands for."""
        server, _, name = example.partition("/")
        return cls(tool="mcp", server=server, name=name)


CallServer.effect = declare_effect(
    Effect(
        name="mcp",
        why="calls a server outside of Hermes, which does what it does unseen",
        subject=lambda action: f"{action.server}/{action.name}",
        runs_programs=True,
        lasting=lambda action: f"call {action.server}/{action.name} with exactly these arguments",
        example=CallServer.of,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlugin(Action):
    """Call a tool of a plugin. `arguments` is what it gets, as JSON text."""

    plugin: str
    name: str
    arguments: str = ""

    def headline(self) -> str:
        return f"call {self.plugin}/{self.name} {self.arguments}".rstrip()

    @classmethod
    def of(cls, example: str) -> CallPlugin:
        """The call that `plugin/tool` stands for."""
        plugin, _, name = example.partition("/")
        return cls(tool=name or "plugin", plugin=plugin, name=name)


CallPlugin.effect = declare_effect(
    Effect(
        name="plugin",
        why="calls a plugin, which may change files or reach hosts that you agreed to",
        subject=lambda action: f"{action.plugin}/{action.name}",
        runs_programs=True,
        lasting=lambda action: f"call {action.plugin}/{action.name} with exactly these arguments",
        example=CallPlugin.of,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallConfinedPlugin(CallPlugin):
    """Call a tool of a plugin whose boundary opens no host and no place to write to."""


CallConfinedPlugin.effect = replace(
    CallPlugin.effect,
    why="calls a plugin whose boundary lets it change and reach nothing of yours",
    default="allow",
    runs_programs=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleModel(Action):
    """Let a server ask the model of the session something. `text` is what it asks."""

    server: str
    text: str

    def headline(self) -> str:
        return f"let the MCP server {self.server} ask the model: {self.text}"

    @classmethod
    def of(cls, example: str) -> SampleModel:
        """The question that the name of a server stands for."""
        return cls(tool="sampling", server=example, text="")


SampleModel.effect = declare_effect(
    Effect(
        name="sampling",
        why="lets a server ask the model, which costs tokens",
        subject=lambda action: action.server,
        lasting=lambda action: f"let {action.server} ask the model exactly this",
        example=SampleModel.of,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnAgent(Action):
    """Start another agent with a goal of its own. What it does passes the gate again."""

    goal: str

    def headline(self) -> str:
        return f"start an agent: {self.goal}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleJob(Action):
    """Have something done later, when perhaps nobody looks on."""

    when: str
    """The moment or rhythm, as it was asked for."""
    what: str

    def headline(self) -> str:
        return f"schedule {self.when}: {self.what}"


ScheduleJob.effect = declare_effect(
    Effect(name="cronjob", why="will act later, perhaps when nobody looks on")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainModel(Action):
    """Have a model work on many tasks, to train or to test. Each of them passes the gate again."""

    what: str
    """Trainer, environment, and how much of it."""
    tokens: int
    """What all of it may use."""

    def headline(self) -> str:
        return f"{self.what}, up to {self.tokens:,} tokens"


TrainModel.effect = declare_effect(
    Effect(name="training", why="has a model work on many tasks, which costs tokens")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScript(Action):
    """Run a program the model wrote. `code` is the whole text, never shortened."""

    code: str
    sandboxed: bool = False
    """Whether the operating system confines it, so that its effects come only through its calls."""

    def headline(self) -> str:
        return self.code
