"""The home folder, where Hermes keeps its own files: `~/.hermes`, or `HERMES_HOME`.

Folders are made 0700 and files 0600: sessions and keys are nobody else's business.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from agent.errors import ConfigError
from tools.kit.files import PRIVATE_FILE as PRIVATE_FILE
from tools.kit.files import PRIVATE_FOLDER


class Home(NamedTuple):
    """The layout of the home folder. Nothing is created until it is needed."""

    root: Path

    @classmethod
    def locate(cls, environ: dict[str, str] | os._Environ[str] = os.environ) -> Home:
        """The home of this user. Raises `ConfigError` when `HERMES_HOME` is not a usable path."""
        override = environ.get("HERMES_HOME", "")
        if "\0" in override:
            raise ConfigError("HERMES_HOME holds a NUL byte; set it to the path of a folder.")
        try:
            root = Path(override).expanduser() if override else Path.home() / ".hermes"
        except RuntimeError:
            raise ConfigError(
                "The home folder of this user is unknown; set HERMES_HOME to a folder."
            ) from None
        if root.is_absolute():
            return cls(root)
        try:
            return cls(Path.cwd() / root)
        except OSError:
            raise ConfigError("The current folder is gone; set HERMES_HOME to a full path.") from None

    @property
    def config(self) -> Path:
        return self.root / "config.yaml"

    @property
    def permissions(self) -> Path:
        """Rules of the person about what may be done."""
        return self.root / "permissions.yaml"

    @property
    def hooks(self) -> Path:
        """Which hooks the person agreed to: see docs/hooks.md."""
        return self.root / "hooks.json"

    @property
    def servers(self) -> Path:
        """What is kept of MCP servers: schemas, folders, tokens; see docs/mcp.md."""
        return self.root / "mcp"

    @property
    def plugins(self) -> Path:
        """Plugins of the person's own, one folder each: see docs/plugins.md."""
        return self.root / "plugins"

    @property
    def plugin_consent(self) -> Path:
        """Which plugins the person agreed to, bound to the hash of their files."""
        return self.root / "plugins.json"

    @property
    def browser_profiles(self) -> Path:
        """Which lasting profiles of the browser the person agreed to: see docs/browser.md."""
        return self.root / "browser-profiles.json"

    @property
    def plugin_data(self) -> Path:
        """What plugins keep for themselves, one folder each."""
        return self.root / "plugin-data"

    @property
    def schedule(self) -> Path:
        """Locks of what runs jobs on time, and what heartbeats have seen: see docs/schedule.md."""
        return self.root / "schedule"

    @property
    def env(self) -> Path:
        return self.root / ".env"

    @property
    def soul(self) -> Path:
        return self.root / "SOUL.md"

    @property
    def database(self) -> Path:
        return self.root / "state.db"

    def keeps_sessions(self) -> bool:
        """Whether anything is where the session store belongs, also what cannot be opened as one."""
        try:
            self.database.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # the code that opens it says why
            pass
        return True

    @property
    def memories(self) -> Path:
        """Notes that outlive a session: see docs/memory.md."""
        return self.root / "memories"

    @property
    def skills(self) -> Path:
        """Skills of the person's own: see docs/skills.md."""
        return self.root / "skills"

    @property
    def models(self) -> Path:
        return self.root / "models"

    @property
    def sandbox_caches(self) -> Path:
        """Caches of package managers inside the sandbox, one folder a workspace: see docs/sandbox.md."""
        return self.root / "cache" / "sandbox"

    @property
    def scratch(self) -> Path:
        """Large outputs, one folder per session."""
        return self.root / "scratch"

    @property
    def tour(self) -> Path:
        """Where the demo model works: beside this folder, in which no step could be undone."""
        return self.root.parent / f"{self.root.name}-demo"

    @property
    def scripts(self) -> Path:
        """What scripts that were cut off have had done, one folder per session."""
        return self.root / "scripts"

    @property
    def training(self) -> Path:
        """Training runs and their configuration: see docs/rl.md."""
        return self.root / "training"

    @property
    def judges(self) -> Path:
        """How far judges agree with labelled pairs, one file per model and set: see docs/eval.md."""
        return self.root / "judges"

    @property
    def canvas(self) -> Path:
        """What canvases show, one folder per session."""
        return self.root / "canvas"

    @property
    def edits(self) -> Path:
        """Changes of several files that are under way, and what happened to those that were cut off."""
        return self.root / "edits"

    @property
    def checkpoints(self) -> Path:
        """What steps did to files: see docs/checkpoints.md."""
        return self.root / "checkpoints"

    @property
    def copies(self) -> Path:
        """Isolated copies of workspaces, while something works in them."""
        return self.root / "copies"

    @property
    def attachments(self) -> Path:
        """Images that came with messages, one file each, named by its SHA-256."""
        return self.root / "attachments"

    @property
    def gateways(self) -> Path:
        """A folder for each messenger: what its library keeps, and copies of files that wait to be sent."""
        return self.root / "gateways"

    @property
    def skins(self) -> Path:
        """Skins of the person's own, one YAML file each."""
        return self.root / "skins"

    @property
    def agents(self) -> Path:
        """Kinds of agents of the person's own, one file each: see docs/agents.md."""
        return self.root / "agents"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def grants(self) -> Path:
        """What was allowed permanently, each for exactly one action in one project."""
        return self.root / "grants.json"

    @property
    def audit(self) -> Path:
        """The log of what was allowed and refused."""
        return self.root / "audit"

    @property
    def run(self) -> Path:
        """Locks and sockets of living processes."""
        return self.root / "run"

    @property
    def service_socket(self) -> Path:
        """Where the service of this home takes terminals in."""
        return self.run / "service.sock"

    @property
    def history(self) -> Path:
        """What was sent from the prompt, one file per project."""
        return self.root / "history"

    @property
    def screen(self) -> Path:
        """How the person arranged the screen."""
        return self.root / "screen.json"

    @property
    def passages(self) -> Path:
        """Passages of context files that were let in, one file each, named by its SHA-256."""
        return self.root / "passages"

    @property
    def trust(self) -> Path:
        """Which project settings were trusted, bound to their content."""
        return self.root / "trust.json"


def private_folder(path: Path) -> Path:
    """`path` as a folder only its owner can enter. Raises `ConfigError` naming the cause."""
    try:
        path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        if path.stat().st_mode & 0o077 and path.stat().st_uid == os.getuid():
            path.chmod(PRIVATE_FOLDER)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"Cannot use the folder {path}: {reason}; free it or set HERMES_HOME.") from error
    return path


def from_home(path: Path) -> str:
    """`path` as a person writes it: with `~` for the home folder of the user."""
    try:
        below = path.relative_to(Path.home())
    except (ValueError, RuntimeError):  # elsewhere, or nobody knows where home is
        return str(path)
    return f"~/{below}" if below.parts else "~"
