"""Installation of `hermes cron run` as a systemd user unit or a crontab line."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from agent.errors import HermesError

UNIT = "hermes-cron.service"
_NONE_YET = ("no crontab", "no such file")
"""Messages of `crontab -l` if there is no crontab: of cronie, Debian and macOS, and of BusyBox."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Files and commands that make jobs run automatically. The user sees them before they are used."""

    way: str
    """`systemd` or `crontab`."""
    path: Path | None
    """The file that is written; None if the crontab is changed instead."""
    text: str
    """The content of the file, or the line added to the crontab."""
    commands: tuple[tuple[str, ...], ...]
    """Commands that are run after the file was written."""
    note: str = ""
    """Information for the user; may be empty."""

    def carry_out(self) -> None:
        """Write the file and run the commands, or change the crontab. Blocks. Raises `HermesError`."""
        try:
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.write_text(self.text, "utf-8")
                self.path.chmod(0o600)
                for command in self.commands:
                    subprocess.run(command, check=True, capture_output=True, timeout=60)
                return
            before = subprocess.run(
                ["crontab", "-l"],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
            if before.returncode and not any(each in before.stderr.lower() for each in _NONE_YET):
                # What cannot be read must not be replaced by our line alone.
                raise HermesError(
                    f"Your crontab cannot be read ({before.stderr.strip()[:200] or 'crontab -l failed'}); "
                    "add the line that was shown yourself."
                )
            kept = before.stdout if before.returncode == 0 else ""
            if self.text.strip() not in kept.splitlines():
                text = f"{kept.rstrip()}\n{self.text}".lstrip()
                subprocess.run(
                    ["crontab", "-"], input=text, text=True, check=True, capture_output=True, timeout=60
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise HermesError(f"It could not be set up ({error}); write what was shown yourself.") from error


def installation(home: Path, config: Path, systemd: bool | None = None) -> Installation:
    """Return how automatic runs can be installed on this machine.

    `config` is the user's settings folder (`~/.config`). If `systemd` is None, it is used if available.
    """
    program = shutil.which("hermes")
    begin = [str(Path(program).absolute())] if program else [sys.executable, "-P", "-m", "app.main"]
    words = [*begin, "cron", "run"]
    if shutil.which("systemctl") is not None if systemd is None else systemd:
        text = (
            "[Unit]\nDescription=Jobs of Hermes\n\n[Service]\n"
            f'Environment="HERMES_HOME={_escape(home)}"\n'
            f"ExecStart={' '.join(_quote(word) for word in words)}\nRestart=on-failure\nRestartSec=10\n\n"
            "[Install]\nWantedBy=default.target\n"
        )
        control = ("systemctl", "--user")
        commands = ((*control, "daemon-reload"), (*control, "enable", "--now", UNIT))
        path = config / "systemd" / "user" / UNIT
        note = "It ends when you log out, unless `loginctl enable-linger` was run once."
        return Installation("systemd", path, text, commands, note)
    # A percent sign ends the command of a line of crontab.
    line = f"* * * * * HERMES_HOME={shlex.quote(str(home))} {shlex.join(words)} --once".replace("%", "\\%")
    return Installation("crontab", None, f"{line} >/dev/null 2>&1\n", ())


def _escape(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")


def _quote(word: str) -> str:
    return f'"{_escape(word).replace("$", "$$")}"'
