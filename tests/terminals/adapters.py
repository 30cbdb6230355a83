"""Terminals behind one interface: a program starts, keys go in, a screen (if it can be read) comes out."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).parent
SIZE = (110, 34)
"""Columns and rows at the start."""
_DISPLAYS = itertools.count(90 + os.getpid() % 100)
_CLIPBOARD = re.compile(rb"\x1b\]52;[^;]*;([A-Za-z0-9+/=]*)(?:\x07|\x1b\\)")


class Adapter:
    """A terminal with a shell in it."""

    def __init__(
        self, row: Mapping[str, Any], environ: Mapping[str, str], work: Path, packages: Path
    ) -> None:
        self.row, self.work, self.packages = row, work, packages
        folder, shell = work.parent, work.parent / "shell"
        self.said, self.heard = folder / "said", folder / "heard"
        """What programs wrote in the terminal, and what it sent to them."""
        places = {"shell": shell, "folder": folder, "packages": packages}
        opened = folder / "opened"
        opened.write_text(f'#!/bin/sh\necho "$1" >>{folder}/links\n', "utf-8")
        opened.chmod(0o755)
        self.words = {key: [part.replace("${url}", "${{url}}").format(**places) for part in row[key]]
                      for key in ("start", "attach", "end", "buffer")
                      if key in row}  # fmt: skip
        more = {name: value.format(**places) for name, value in row.get("environ", {}).items()}
        self.environ = {**environ, **more}
        for name, text in row.get("files", {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, "utf-8")
        record = ["script", "-qf", "-E", "never", "-O", self.said, "-I", self.heard, "-c", "bash --norc -i"]
        # Programs see no display, or they would copy by xclip.
        clean = "unset DISPLAY WAYLAND_DISPLAY; export SHELL=/bin/bash PS1='$ '"
        shell.write_text(f"#!/bin/sh\ncd {work}\n{clean}\nexec {shlex.join(map(str, record))}\n", "utf-8")
        shell.chmod(0o755)
        self.shell = str(shell)

    def output(self, since: int = 0) -> bytes:
        """What programs wrote, from an offset on."""
        return self.said.read_bytes()[since:] if self.said.exists() else b""

    def offset(self) -> int:
        """The length of the record so far."""
        return self.said.stat().st_size if self.said.exists() else 0

    def until(self, wanted: str, since: int, limit: float = 25.0) -> bool:
        """Wait until something was written; whether it was."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if wanted.encode() in self.output(since):
                return True
            self.live(0.1)
        return False

    def settle(self, quiet: float = 0.6, limit: float = 8.0) -> None:
        """Wait until nothing was written for a while."""
        end, size, is_quiet = time.monotonic() + limit, -1, False
        while time.monotonic() < end and not (size == self.offset() and is_quiet):
            size = self.offset()
            is_quiet = self.live(quiet)

    def live(self, seconds: float) -> bool:
        """Let time pass; whether the terminal has shown all that came."""
        time.sleep(seconds)
        return True

    def rows(self) -> list[str] | None:
        """The screen as text; None if it cannot be read."""
        return None

    def clipboard(self) -> bytes | None:
        """What the clipboard holds; None if nothing came."""
        return None

    def send(self, data: bytes) -> None:
        """Type bytes as a terminal sends them."""
        raise NotImplementedError

    def text(self, text: str) -> None:
        """Type text."""
        raise NotImplementedError

    def key(self, name: str) -> None:
        """Press a key by Textual's name."""
        raise NotImplementedError

    def paste(self, text: str) -> None:
        """Paste text."""
        raise NotImplementedError

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size."""
        raise NotImplementedError


class Library(Adapter):
    """A package that takes bytes and has a screen. Its keyboard is ours, as these packages have none."""

    def __enter__(self) -> Self:
        self._size = SIZE
        self._got: bytes | None = None
        self._tail = b""
        self.calls: list[bytes] = []
        package = self.row.get("host") or self.row["package"]
        name = re.sub(r"(?<!^)@.*|==.*", "", package)
        program = ["node", str(HERE / "emulator.mjs"), name]
        if "==" in package:
            program = [str(self.packages / "py/bin/python"), str(HERE / "emulator.py"), name]
        self._emulator = subprocess.Popen(
            [*program, *map(str, SIZE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self.packages,
            text=True,
        )
        self.start(self.words.get("start", [self.shell]))
        return self

    def start(self, command: Sequence[str]) -> None:
        """Run a command on a terminal of its own."""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(self.work)
            os.execvpe(command[0], list(command), self.environ)
        self.resize(*self._size)

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._emulator.kill()
        self._emulator.wait()

    def _stop(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)

    def _ask(self, *words: object) -> Any:
        assert self._emulator.stdin is not None and self._emulator.stdout is not None
        self._emulator.stdin.write(json.dumps(words) + "\n")
        self._emulator.stdin.flush()
        answer = self._emulator.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.row['name']} ended")
        return json.loads(answer)

    def live(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                return True
            try:
                data = os.read(self.fd, 1 << 16)
            except OSError:
                return True
            self._tail += data
            if reply := base64.b64decode(self._ask("feed", base64.b64encode(data).decode())):
                os.write(self.fd, reply)
            while found := _CLIPBOARD.search(self._tail):  # a long one comes in pieces, over several calls
                self._got, self._tail = base64.b64decode(found[1]), self._tail[found.end() :]
            self._tail = self._tail[-400_000:]
            self.calls += re.findall(rb"\x1b\](?:9|777|99);[^\x07\x1b]*", data)
        return False

    def send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.fd, data[:512]) :]
            self.live(0.02)

    def text(self, text: str) -> None:
        self.send(text.encode())

    def key(self, name: str) -> None:
        from app.cli.health.keys import key_sequence

        self.send(key_sequence(name, protocol=False).encode())
        self.live(0.05)

    def paste(self, text: str) -> None:
        set_at, unset_at = (self.output().rfind(mode) for mode in (b"\x1b[?2004h", b"\x1b[?2004l"))
        body = text.replace("\n", "\r")
        self.text(f"\x1b[200~{body}\x1b[201~" if set_at > unset_at else body)

    def resize(self, columns: int, rows: int) -> None:
        self._size = (columns, rows)
        self._ask("size", columns, rows)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def rows(self) -> list[str]:
        return [row.rstrip() for row in self._ask("rows")]

    def clipboard(self) -> bytes | None:
        got, self._got = self._got, None
        return got


class Inside(Library):
    """A multiplexer, or another program with a terminal in it, inside a library."""

    def attach_again(self) -> bool:
        """Take the terminal away and attach another one of another size; False if this program cannot."""
        if "attach" not in self.words:
            return False
        self._stop()
        self._size = (90, 28)
        self.start(self.words["attach"])
        return True

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if "end" in self.words:
            subprocess.run(self.words["end"], env=self.environ, capture_output=True, timeout=20)


class Window(Adapter):
    """A terminal with a window on an X server without a screen; keys are pressed by XTEST."""

    SEARCHED = ("--name", ".")
    """Words by which xdotool finds the window."""

    def __enter__(self) -> Self:
        self._display = f":{next(_DISPLAYS)}"
        hidden: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        server = ["Xvfb", self._display, "-screen", "0", "1280x900x24", "+extension", "GLX"]
        self._programs = [subprocess.Popen(server, **hidden)]
        time.sleep(1.0)
        environ = self.environ | {"DISPLAY": self._display, "LIBGL_ALWAYS_SOFTWARE": "1", "SHELL": self.shell}
        environ |= {"XDG_RUNTIME_DIR": str(self.work.parent), "QT_QPA_PLATFORM": "xcb"}
        environ.pop("TERM")
        environ |= self.desktop()
        self._programs.insert(0, subprocess.Popen(self.words["start"], env=environ, cwd=self.work, **hidden))
        self._window = ""
        end = time.monotonic() + 15
        while not self._window and time.monotonic() < end:
            time.sleep(0.3)
            found = self._tool("search", "--onlyvisible", *self.SEARCHED).split()
            self._window = found[-1] if found else ""
        if not self._window:
            self.__exit__()
            raise RuntimeError("no window came")
        self._tool("windowmove", self._window, "0", "0")
        self._tool("windowfocus", self._window)
        self._tool("mousemove", "600", "450")
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._programs:
            process.terminate()
            process.wait(10)

    def desktop(self) -> dict[str, str]:
        """Start what the terminal needs besides the X server; the variables for it."""
        return {}

    def _tool(self, *words: str) -> str:
        environ = {**os.environ, "DISPLAY": self._display}
        done = subprocess.run(["xdotool", *words], env=environ, capture_output=True, timeout=60)
        return done.stdout.decode(errors="replace")  # mlterm gives its title as COMPOUND_TEXT

    def text(self, text: str) -> None:
        for line in re.split(r"(\n)", text):
            self._tool(*(("key", "Return") if line == "\n" else ("type", "--delay", "12", "--", line)))

    def send(self, data: bytes) -> None:
        names = {
            b"\r": "Return",
            b"\x1b": "Escape",
            b"\x03": "ctrl+c",
            b"\x1a": "ctrl+z",
            b"\x04": "ctrl+d",
            b"\x15": "ctrl+u",
        }
        for part in re.findall(rb"[\x00-\x1f]|[^\x00-\x1f]+", data):
            self._tool("key", names[part]) if part in names else self.text(part.decode())

    def key(self, name: str) -> None:
        special = {
            "enter": "Return", "escape": "Escape", "backspace": "BackSpace",
            "pageup": "Prior", "pagedown": "Next",
            "left": "Left", "right": "Right", "up": "Up", "down": "Down", "home": "Home", "end": "End",
            "delete": "Delete", "insert": "Insert", "tab": "Tab", "plus": "plus",
        }  # fmt: skip
        *held, last = name.split("+")
        last = special.get(last) or (last.upper() if re.fullmatch(r"f\d+", last) else last)
        from widgets.key_names import character_of

        sign = character_of(last)
        self._tool("key", "+".join([*held, f"U{ord(sign):04x}" if sign and len(last) > 1 else last]))
        time.sleep(0.06)

    def paste(self, text: str) -> None:
        environ = {**os.environ, "DISPLAY": self._display}
        for name in ("primary", "clipboard"):
            subprocess.run(["xclip", "-selection", name, "-i"], input=text.encode(), env=environ, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        self._tool("key", self.row.get("paste", "shift+Insert"))

    def resize(self, columns: int, rows: int) -> None:
        width, height = (int(each) for each in re.findall(r"(?:WIDTH|HEIGHT)=(\d+)",
                         self._tool("getwindowgeometry", "--shell", self._window)))  # fmt: skip
        share = (columns / SIZE[0], rows / SIZE[1])
        self._first = getattr(self, "_first", (width, height))
        sizes = [str(int(each * part)) for each, part in zip(self._first, share, strict=True)]
        self._tool("windowsize", self._window, *sizes)

    def clipboard(self) -> bytes | None:
        environ = {**os.environ, "DISPLAY": self._display}
        command = ["xclip", "-selection", "clipboard", "-o"]
        done = subprocess.run(command, env=environ, capture_output=True, timeout=20)
        return done.stdout if done.returncode == 0 else None

    def title(self) -> str:
        """The title of the window."""
        return self._tool("getwindowname", self._window).strip()

    def picture(self, file: Path) -> None:
        """Write what the window shows as a picture."""
        environ = {**os.environ, "DISPLAY": self._display}
        subprocess.run(["import", "-window", self._window, str(file)], env=environ, check=False, timeout=60)


class Wayland(Window):
    """A terminal for Wayland, in sway, whose own window is on the X server."""

    SEARCHED = ("--maxdepth", "1", ".*")  # it has no name

    def desktop(self) -> dict[str, str]:
        self._runtime = tempfile.TemporaryDirectory(prefix="wayland-", ignore_cleanup_errors=True)
        runtime = Path(self._runtime.name)
        (runtime / "sway").write_text("default_border none\noutput * mode 1000x640\n", "utf-8")
        command = ["sway", "-c", str(runtime / "sway")]
        if os.geteuid() == 0:  # it refuses to run for root
            command = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", *command]
            os.chown(runtime, 65534, -1)
        environ = {"PATH": os.environ["PATH"], "HOME": str(runtime), "XDG_RUNTIME_DIR": str(runtime),
                   "DISPLAY": self._display, "WLR_BACKENDS": "x11", "WLR_RENDERER": "pixman"}  # fmt: skip
        hidden: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._programs.insert(0, subprocess.Popen(command, env=environ, cwd=runtime, **hidden))
        end = time.monotonic() + 15
        while not (sockets := [*runtime.glob("*.sock"), *runtime.glob("wayland-?")])[1:]:
            if time.monotonic() > end:
                raise RuntimeError("sway did not start")
            time.sleep(0.2)
        self._places = {"XDG_RUNTIME_DIR": str(runtime), "WAYLAND_DISPLAY": sockets[1].name,
                        "SWAYSOCK": str(sockets[0])}  # fmt: skip
        return self._places

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._runtime.cleanup()

    def _wayland(self, *words: str, text: str = "") -> bytes:
        environ = {**os.environ, **self._places}
        # To files, as what owns the clipboard keeps its output open.
        with tempfile.TemporaryFile() as file:
            subprocess.run(words, env=environ, input=text.encode(), stdout=file,
                           stderr=subprocess.DEVNULL, timeout=60, check=False)  # fmt: skip
            file.seek(0)
            return file.read()

    def text(self, text: str) -> None:
        for line in re.split(r"(\n)", text):
            if line:
                self._tool("key", "Return") if line == "\n" else self._wayland(
                    "wtype", "-d", "12", "--", line
                )

    def paste(self, text: str) -> None:
        self._wayland("wl-copy", text=text)
        self._tool("key", self.row["paste"])

    def clipboard(self) -> bytes | None:
        return self._wayland("wl-paste", "--no-newline") or None

    def title(self) -> str:
        names = re.findall(r'"name": "([^"]*)"', self._wayland("swaymsg", "-rt", "get_tree").decode())
        return names[-1] if names else ""


def missing(row: Mapping[str, Any]) -> str:
    """Why a terminal cannot be had here; empty if it can."""
    needs = [row["start"][0]] if row.get("from") == "debian" else []
    needs += ["Xvfb", "xdotool", "xclip"] if row["kind"] == "window" else []
    needs += ["Xvfb", "xdotool", "sway", "wtype", "wl-copy"] if row["kind"] == "wayland" else []
    gone = [each for each in needs if shutil.which(each) is None]
    return f"not on this machine: {', '.join(gone)}" if gone else ""


def install(rows: Sequence[Mapping[str, Any]], packages: Path) -> None:
    """Install what comes from npm and PyPI into a folder of its own, once."""
    packages.mkdir(parents=True, exist_ok=True)
    done = packages / "installed"
    have = set(done.read_text("utf-8").split()) if done.exists() else set[str]()
    for row in rows:
        for package in [row["package"], *row.get("with", ())] if "package" in row else []:
            if package in have:
                continue
            if row["from"] == "npm":
                command = [
                    "npm",
                    "install",
                    "--ignore-scripts",
                    "--no-audit",
                    "--no-fund",
                    "--silent",
                    package,
                ]
            else:
                if not (packages / "py/bin/pip").exists():
                    subprocess.run([sys.executable, "-m", "venv", packages / "py"], check=True)
                command = [str(packages / "py/bin/pip"), "install", "-q", package]
            if subprocess.run(command, cwd=packages, check=False).returncode == 0:
                have.add(package)
    done.write_text("\n".join(sorted(have)), "utf-8")
