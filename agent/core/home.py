"""The home folder with Hermes's files: `~/.hermes`, or `HERMES_HOME`.

Folders have mode 0700 and files 0600, because sessions and keys are private.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from agent.errors import ConfigError
from tools.kit.files import PRIVATE_FILE as PRIVATE_FILE
from tools.kit.files import PRIVATE_FOLDER


class Home(NamedTuple):
    """The paths in the home folder. Nothing is created until it is needed."""

    root: Path

    @classmethod
    def locate(cls, environ: dict[str, str] | os._Environ[str] = os.environ) -> Home:
        """Return the user's home folder. Raises `ConfigError` if its path is unknown or unusable."""
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

    def check(self) -> None:
        """Raise `ConfigError` if anything but a folder is at this path; a missing folder is accepted."""
        what = "it"
        try:
            if stat.S_ISDIR(self.root.stat().st_mode):
                return
        except NotADirectoryError:
            what = next(str(each) for each in self.root.parents if each.exists() and not each.is_dir())
        except OSError:
            if not self.root.is_symlink():
                return  # missing, or the code that reads its files explains why
        raise ConfigError(f"Cannot use {self.root}: {what} is not a folder; free it or set HERMES_HOME.")

    @property
    def config(self) -> Path:
        return self.root / "config.yaml"

    @property
    def permissions(self) -> Path:
        """The user's permission rules."""
        return self.root / "permissions.yaml"

    @property
    def hooks(self) -> Path:
        """The stored consents to hooks: see docs/hooks.md."""
        return self.root / "hooks.json"

    @property
    def servers(self) -> Path:
        """Data about MCP servers: schemas, folders, tokens; see docs/mcp.md."""
        return self.root / "mcp"

    @property
    def plugins(self) -> Path:
        """The user's plugins, one folder each: see docs/plugins.md."""
        return self.root / "plugins"

    @property
    def plugin_consent(self) -> Path:
        """The stored consents to plugins, each bound to the hash of the plugin's files."""
        return self.root / "plugins.json"

    @property
    def browser_profiles(self) -> Path:
        """The stored consents to persistent browser profiles: see docs/browser.md."""
        return self.root / "browser-profiles.json"

    @property
    def plugin_data(self) -> Path:
        """The data of plugins, one folder each."""
        return self.root / "plugin-data"

    @property
    def schedule(self) -> Path:
        """The locks of the job scheduler and the state of heartbeats: see docs/schedule.md."""
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
        """Return whether anything exists at the path of the session store, valid or not."""
        try:
            self.database.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # the code that opens it explains why
            pass
        return True

    @property
    def memories(self) -> Path:
        """The agent's notes that outlive a session: see docs/memory.md."""
        return self.root / "memories"

    @property
    def skills(self) -> Path:
        """The user's skills: see docs/skills.md."""
        return self.root / "skills"

    @property
    def models(self) -> Path:
        return self.root / "models"

    @property
    def sandbox_caches(self) -> Path:
        """The package managers' caches inside the sandbox, one folder per workspace: see docs/sandbox.md."""
        return self.root / "cache" / "sandbox"

    @property
    def scratch(self) -> Path:
        """The large outputs that were stored in files, one folder per session."""
        return self.root / "scratch"

    @property
    def tour(self) -> Path:
        """The demo model's working folder.

        It is beside the home folder, because file changes inside the home folder cannot be undone.
        """
        return self.root.parent / f"{self.root.name}-demo"

    @property
    def scripts(self) -> Path:
        """The journals of scripts that were interrupted, one folder per session."""
        return self.root / "scripts"

    @property
    def training(self) -> Path:
        """The training runs and their configuration: see docs/rl.md."""
        return self.root / "training"

    @property
    def judges(self) -> Path:
        """The measured agreement of judge models with labelled pairs, one file per model and set: see
        docs/eval.md.
        """
        return self.root / "judges"

    @property
    def canvas(self) -> Path:
        """The contents of canvases, one folder per session."""
        return self.root / "canvas"

    @property
    def edits(self) -> Path:
        """The journals of edits to several files that are running or were interrupted."""
        return self.root / "edits"

    @property
    def checkpoints(self) -> Path:
        """The recorded file changes of steps: see docs/checkpoints.md."""
        return self.root / "checkpoints"

    @property
    def copies(self) -> Path:
        """The isolated copies of workspaces that are in use."""
        return self.root / "copies"

    @property
    def attachments(self) -> Path:
        """The images attached to messages, one file each, named by its SHA-256."""
        return self.root / "attachments"

    @property
    def gateways(self) -> Path:
        """A folder for each messenger: the data of its library, and copies of files that wait to be sent."""
        return self.root / "gateways"

    @property
    def skins(self) -> Path:
        """The user's skins, one YAML file each."""
        return self.root / "skins"

    @property
    def agents(self) -> Path:
        """The user's definitions of agents, one file each: see docs/agents.md."""
        return self.root / "agents"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def grants(self) -> Path:
        """The permanent permissions, each for exactly one action in one project."""
        return self.root / "grants.json"

    @property
    def audit(self) -> Path:
        """The log of allowed and refused actions."""
        return self.root / "audit"

    @property
    def run(self) -> Path:
        """The locks and sockets of running processes."""
        return self.root / "run"

    @property
    def service_socket(self) -> Path:
        """The socket on which this home folder's service accepts terminals."""
        return self.run / "service.sock"

    @property
    def history(self) -> Path:
        """The history of the input prompt, one file per project."""
        return self.root / "history"

    @property
    def clipboard(self) -> Path:
        """The last text that could not be copied to any clipboard."""
        return self.root / "clipboard.txt"

    @property
    def screen(self) -> Path:
        """The user's screen layout."""
        return self.root / "screen.json"

    @property
    def passages(self) -> Path:
        """The passages of context files that the user accepted, one file each, named by its SHA-256."""
        return self.root / "passages"

    @property
    def trust(self) -> Path:
        """The record of trusted project settings, bound to their content."""
        return self.root / "trust.json"


def private_folder(path: Path) -> Path:
    """Create the folder `path`, make it accessible to its owner only, and return it. Raises `ConfigError`."""
    try:
        path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        if path.stat().st_mode & 0o077 and path.stat().st_uid == os.getuid():
            path.chmod(PRIVATE_FOLDER)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"Cannot use the folder {path}: {reason}; free it or set HERMES_HOME.") from error
    return path


def from_home(path: Path) -> str:
    """Return `path` for display, with `~` for the home folder of the user."""
    try:
        below = path.relative_to(Path.home())
    except (ValueError, RuntimeError):  # elsewhere, or the home folder is unknown
        return str(path)
    return f"~/{below}" if below.parts else "~"
