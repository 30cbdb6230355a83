"""Actions of tools, as data: the objects that the permission check decides on.

A tool never acts before asking. It builds an action, passes it to `ToolContext.permit`, and continues only if
that returns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from tools.effects import Effect, declare_effect
from tools.text.words import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Base of all actions. `tool` is the name of the requesting tool."""

    tool: str
    effect: ClassVar[Effect | None] = None
    """What the permission check must know about it; None for the actions of this module."""

    def headline(self) -> str:
        """Return one line that tells the user exactly what would happen."""
        raise NotImplementedError


Permit = Callable[[Action], Awaitable[None]]
"""A function that requests permission for an action; raises `DeniedError` if it is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand(Action):
    """Running a shell command. `command` is the whole text, never shortened."""

    command: str
    cwd: Path
    background: bool = False
    pty: bool = False
    outside: bool = False
    """Whether it runs without the sandbox: the user is asked, whatever the rules say."""
    because: str = ""
    """What the sandbox withheld from this command before, as a clause for the question."""
    network: bool = False
    """Whether it gets the network, which needs the user's permission."""

    def headline(self) -> str:
        return self.command


@dataclass(frozen=True, slots=True, kw_only=True)
class SendInput(Action):
    """Writing to the standard input of a running process."""

    process: str
    data: str
    program: str = ""
    """The command line of the process; empty if unknown."""
    typed: str = ""
    """Earlier input on an unfinished line, which `data` continues."""

    def headline(self) -> str:
        into = f"{self.process} ({self.program})" if self.program else self.process
        after = f", after {self.typed!r}" if self.typed else ""
        return f"type into {into}{after}: {self.data!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPath(Action):
    """Reading a file or listing a folder. `path` is resolved: no links, no `..`."""

    path: Path

    def headline(self) -> str:
        return f"read {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePath(Action):
    """Creating or changing a file. `path` is resolved."""

    path: Path
    creates: bool = False

    def headline(self) -> str:
        return f"{'create' if self.creates else 'change'} {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePath(Action):
    """Deleting a file. `path` is resolved."""

    path: Path

    def headline(self) -> str:
        return f"delete {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFiles(Action):
    """Changing many files at once to stored contents. All paths are resolved."""

    paths: tuple[Path, ...]
    """Changed or created paths."""
    removes: tuple[Path, ...] = ()
    """Removed paths."""

    @property
    def why(self) -> str:
        """Return a clause on why the user should be asked."""
        raise NotImplementedError

    def writes(self) -> tuple[WritePath | DeletePath, ...]:
        """Return the changes path by path; each is judged like any other change to a file."""
        changed = (WritePath(tool=self.tool, path=path) for path in self.paths)
        return (*changed, *(DeletePath(tool=self.tool, path=path) for path in self.removes))


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFiles(ChangeFiles):
    """Restoring files to an earlier position."""

    position: int
    """The step to return to; 0 is before the first."""

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
    """Merging an agent's changes in its copy into the workspace. Paths are those in the workspace."""

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
    """Keeping changes that a program made without permission, and that have been reverted for now."""

    links: tuple[Path, ...] = ()
    """Those of `paths` that are links, whose targets are included."""

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
    """Accepting git settings that a command wrote, which may run a program or send data elsewhere."""

    keys: tuple[str, ...]

    def headline(self) -> str:
        return f"set {', '.join(f'git-config({key})' for key in self.keys)}"

    def singles(self) -> tuple[SetGitSettings, ...]:
        """Return one action for each key."""
        return tuple(SetGitSettings(tool=self.tool, keys=(key,)) for key in self.keys)

    @classmethod
    def of(cls, example: str) -> SetGitSettings:
        """Return the action that changes the key `example`."""
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
    return plural(len(paths), "file")


def _join_paths(paths: tuple[Path, ...]) -> str:
    return ", ".join(str(path).replace("\n", "\\n") for path in paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch(Action):
    """Requesting a URL."""

    url: str
    pages: int = 1
    """The number of pages that may be fetched: this one, and pages of the same host that it leads to."""

    def headline(self) -> str:
        if self.pages > 1:
            return f"fetch {self.url} and up to {plural(self.pages - 1, 'page')} that it leads to"
        return f"fetch {self.url}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchWeb(Action):
    """Sending a query to web search services, one after another until one answers."""

    query: str
    routes: tuple[str, ...]
    """Each service with the address for the query."""

    def headline(self) -> str:
        return f"search the web for {self.query!r} with {', else '.join(self.routes)}"

    @classmethod
    def of(cls, example: str) -> SearchWeb:
        """Return the action that searches for `example`."""
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
    """Letting commands connect to a host that is not on the list. `host` is in ASCII and lower case."""

    host: str
    port: int
    command: str = field(default="", compare=False)
    """The command that connects, if it is known."""

    @property
    def target(self) -> str:
        """Return the host, with its port unless that is a web port."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port in (80, 443) else f"{shown}:{self.port}"

    def headline(self) -> str:
        return f"let commands reach {self.host} on port {self.port}"

    @classmethod
    def of(cls, example: str) -> ReachHost:
        """Return the action that connects to a host such as `example.org` or `example.org:8443`."""
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
    """Changing Hermes' own settings or protections."""

    what: str

    def headline(self) -> str:
        return f"change settings: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallServer(Action):
    """Calling a tool of an MCP server. `arguments` is the JSON text that is sent."""

    server: str
    name: str
    arguments: str = ""

    def headline(self) -> str:
        return f"call {self.server}/{self.name} {self.arguments}".rstrip()

    @classmethod
    def of(cls, example: str) -> CallServer:
        """Return the action that calls a tool, named `server/name`."""
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
    """Calling a tool of a plugin. `arguments` is the JSON text that it gets."""

    plugin: str
    name: str
    arguments: str = ""

    def headline(self) -> str:
        return f"call {self.plugin}/{self.name} {self.arguments}".rstrip()

    @classmethod
    def of(cls, example: str) -> CallPlugin:
        """Return the action that calls a tool, named `plugin/tool`."""
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
    """Calling a tool of a plugin whose boundary allows no host and no writable folder."""


CallConfinedPlugin.effect = replace(
    CallPlugin.effect,
    why="calls a plugin whose boundary lets it change and reach nothing of yours",
    default="allow",
    runs_programs=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleModel(Action):
    """Letting a server ask the session's model. `text` is the question."""

    server: str
    text: str

    def headline(self) -> str:
        return f"let the MCP server {self.server} ask the model: {self.text}"

    @classmethod
    def of(cls, example: str) -> SampleModel:
        """Return the action in which the server `example` asks the model."""
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
    """Starting another agent with a goal. The agent's own actions need permission again."""

    goal: str

    def headline(self) -> str:
        return f"start an agent: {self.goal}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleJob(Action):
    """Scheduling a job for later, perhaps for a time at which the user is absent."""

    when: str
    """The requested time or interval."""
    what: str

    def headline(self) -> str:
        return f"schedule {self.when}: {self.what}"


ScheduleJob.effect = declare_effect(
    Effect(name="cronjob", why="will act later, perhaps when nobody looks on")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainModel(Action):
    """Letting a model work on many tasks, to train or to test. Its actions need permission again."""

    what: str
    """Trainer, environment, and amount."""
    tokens: int
    """The token limit of the whole."""

    def headline(self) -> str:
        return f"{self.what}, up to {self.tokens:,} tokens"


TrainModel.effect = declare_effect(
    Effect(name="training", why="has a model work on many tasks, which costs tokens")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScript(Action):
    """Running a program that the model wrote. `code` is the whole text, never shortened."""

    code: str
    sandboxed: bool = False
    """Whether the operating system confines it, so that it acts only through its calls."""

    def headline(self) -> str:
        return self.code
