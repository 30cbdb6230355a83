"""Shells, builtins that run text, and programs that start others. What they start is judged on its own."""

from __future__ import annotations

import re

from agent.safety.commands.call import RUNS_PROJECT, Call, Opinion, Rule, ask, fine
from agent.safety.commands.environments import loads_manager
from agent.safety.shell.marks import UNKNOWN, literal
from agent.safety.shell.wrappers import SHELLS, WRAPPERS, shell_call, unwrap

STARTS = fine("only starts what follows it")

_ASKING: tuple[tuple[str, str], ...] = (
    ("sudo doas pkexec su runuser", "runs with the rights of another user"),
    ("ssh mosh", "acts on another machine"),
    (
        "systemd-run start-stop-daemon systemd-inhibit dbus-run-session",
        "starts something that goes on by itself",
    ),
    ("unshare nsenter chroot proot fakeroot bwrap firejail", "changes what a program can see and reach"),
    ("gdb strace ltrace", "looks into running programs"),
    ("nix-shell script unbuffer entr chrt", "runs a program in a way that cannot be followed fully"),
)


def _always(opinion: Opinion) -> Rule:
    looks = (("-V",), ("--version",))
    return lambda call: fine("only looks") if call.arguments in looks else opinion


def starts(call: Call) -> Opinion:
    """A wrapper that adds nothing of its own, as long as it is known where the command in it begins."""
    inner = unwrap(call.name, call.arguments) if call.name in WRAPPERS else None
    before = len(call.arguments) - (len(inner.argv) if inner is not None else 0)
    if any(UNKNOWN in argument for argument in call.arguments[:before]):
        return ask("which program runs is not known here")
    if call.name == "time" and (output := call.value("o", "output")):
        return call.changed([output]) or STARTS
    if call.name == "env" and call.flag("-S", "--split-string") and call.unsure:
        return ask("runs text that is not known here")
    return STARTS


_ENVIRONMENT_FILE = re.compile(r"(?:[\w.-]+/)*\.env[\w.-]*")


def with_variables(call: Call) -> Opinion:
    """dotenv: a file of the project sets variables for what it starts, which is judged on its own."""
    files = [value for letter in "ef" if (value := call.value(letter))] or [".env"]
    before = call.arguments[: call.arguments.index("--")] if "--" in call.arguments else call.arguments
    given = [word for word in before if word.startswith("-")]
    if not all(re.fullmatch(r"-[ef].*|--quiet|-o", option) for option in given) or call.unsure:
        return ask("sets variables that are not known here")
    inner = unwrap("dotenv", call.arguments)
    if inner is None or inner.argv[0] in ("get", "list", "set", "unset"):
        return ask("shows or changes secrets")
    known = all(_ENVIRONMENT_FILE.fullmatch(file) and call.ground.inside(call.path(file)) for file in files)
    written = any(file.rpartition("/")[2] in call.named for file in files)
    return STARTS if known and not written else ask("sets variables that are not known here")


def measures(call: Call) -> Opinion:
    """hyperfine: what it measures is judged on its own, what it writes here."""
    if call.flag("-S", "--shell") or call.unsure:
        return ask("runs text that is not known here")
    pairs = zip(call.arguments, [*call.arguments[1:], ""], strict=True)
    written = [b for a, b in pairs if a.startswith("--export") or a in ("--output", "-o")]
    return call.changed([path for path in written if path not in ("null", "pipe", "inherit")]) or STARTS


def shell(call: Call) -> Opinion:
    """A shell: its script is judged line by line when it is known, and asks when it is not."""
    if call.arguments in (("--version",), ("--help",)):
        return fine("only looks")
    text = any(re.fullmatch(r"-[a-zA-Z]*c", option) for option in call.options())
    starts_up = call.flag("--login") or any(_READS_START_UP.fullmatch(option) for option in call.options())
    restricted = any(re.fullmatch(r"-[a-zA-Z]*r[a-zA-Z]*", option) for option in call.options())
    # The start-up files themselves may not be changed unasked; with a text nothing waits for a person.
    if call.flag("--rcfile", "--init-file") or restricted or (starts_up and not text):
        return ask("starts a shell that reads start-up files")
    if any(argument.startswith(UNKNOWN) for argument in call.arguments):
        return ask("runs text that is not known here")
    if call.name not in ("sh", "bash", "dash", "ash", "ksh") and not (text and _reads_alike(call)):
        return ask(f"runs a script for {call.name}, which is read differently")
    if call.arguments[:1] == ("-n",) and len(call.arguments) == 2:
        return fine("checks a program without running it")
    if (
        call.arguments
        and not call.flag("-s")
        and not any(re.fullmatch(r"-[a-zA-Z]*[csn][a-zA-Z]*", o) for o in call.options())
    ):
        file = next((a for a in call.arguments if not a.startswith(("-", "+"))), "")
        if file and UNKNOWN not in file and not file.startswith("/dev/"):
            return (
                ask(RUNS_PROJECT)
                if call.ground.inside(call.path(file))
                else ask("runs a script from outside of the workspace")
            )
    return STARTS


_READS_START_UP = re.compile(r"-[a-zA-Z]*[il][a-zA-Z]*")
_ALIKE = re.compile(r"[\w\s./:@%+,=&|;>\"'-]+")
_EQUALS_WORD = re.compile(r"(?<![^\s;&|\"'])=")


def _reads_alike(call: Call) -> bool:
    """Whether a text means to zsh what it means to bash: plain words, pipes, lists and redirections."""
    if call.name != "zsh":
        return False
    found = shell_call(call.arguments).script or ""
    text = literal(found)
    return UNKNOWN not in found and _ALIKE.fullmatch(text) is not None and not _EQUALS_WORD.search(text)


SOURCES = "runs a script of the project in this shell"
_ACTIVATE = re.compile(r"(?:.*/)?(?:\.?v?env[\w.-]*|\.virtualenv)/bin/activate(?:\.fish|\.csh)?")


def source(call: Call) -> Opinion:
    """The activation script of a Python environment in the workspace is known; others are not."""
    file = call.arguments[0] if call.arguments else ""
    path = call.path(file)
    untouched = "activate" not in call.named
    if _ACTIVATE.fullmatch(file) and untouched and call.ground.inside(path) and len(call.arguments) == 1:
        return fine("activates a Python environment of the project")
    if loads_manager(call, file):
        return fine("loads a version manager")
    return ask(SOURCES if call.ground.inside(path) else "runs a script that is not known here")


def alias(call: Call) -> Opinion:
    return (
        ask("gives a command another meaning")
        if any("=" in argument for argument in call.arguments)
        else fine("lists aliases")
    )


def loads(call: Call) -> Opinion:
    """enable -f, hash -p, bind -x, complete -C and others that tie code to names."""
    if call.name == "bind" and all(re.fullmatch("-[lpPvVsSX]", each) for each in call.arguments):
        return fine("lists keys")
    if call.name == "hash" and not call.flag("-p"):
        return fine("changes the shell only")
    if call.name in ("mapfile", "readarray") and not any("C" in o for o in call.options()):
        return fine("reads lines into a variable")
    return ask("ties code to names of the shell")


RULES: dict[str, Rule] = (
    dict.fromkeys(WRAPPERS, starts)
    | {name: _always(ask(reason)) for names, reason in _ASKING for name in names.split()}
    | dict.fromkeys(SHELLS, shell)
    | {"dotenv": with_variables}
    | {
        "source": source,
        ".": source,
        "alias": alias,
        "eval": lambda call: STARTS,
        "exec": starts,
        "hyperfine": measures,
        "xargs": starts,
        "parallel": starts,
        "enable": loads,
        "hash": loads,
        "bind": loads,
        "complete": loads,
        "compgen": loads,
        "mapfile": loads,
        "readarray": loads,
    }
)
