"""Programs that run another program: where the inner command begins in their arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.safety.shell.marks import UNKNOWN, value, words

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.ASCII | re.DOTALL)

SHELLS = words("sh bash dash ash zsh ksh ksh93 mksh pdksh rbash yash fish csh tcsh")


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How to find the inner command.

    `valued` are options that take a separate value (short ones as letters),
    `skip` is the number of operands before the command, `assigns` whether
    `NAME=value` may come before it, `script` options whose value is shell text,
    `joins` whether the operands are joined into shell text, `folder` options that
    say where the command runs.
    """

    valued: frozenset[str] = frozenset()
    skip: int = 0
    assigns: bool = False
    script: frozenset[str] = frozenset()
    joins: bool = False
    folder: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Inner:
    """What a wrapper runs: a command line, or shell text; with assignments before it."""

    argv: tuple[str, ...] = ()
    script: str | None = None
    assignments: tuple[tuple[str, str], ...] = ()
    folders: tuple[str, ...] = ()
    """Where the wrapper goes before that, one step after the other."""


def _wrapper(valued: str = "", skip: int = 0, script: str = "", folder: str = "", **flags: bool) -> Wrapper:
    options = words(f"{valued} {folder}")
    return Wrapper(options, skip, script=words(script), folder=words(folder), **flags)


WRAPPERS: dict[str, Wrapper] = {
    "sudo": _wrapper(
        "u g h p C T r t U R user group host prompt close-from chroot role type other-user",
        folder="D chdir",
        assigns=True,
    ),
    "doas": _wrapper("u C"),
    "pkexec": _wrapper("user"),
    "env": _wrapper("u unset", script="S split-string", folder="C chdir", assigns=True),
    "nohup": _wrapper(),
    "setsid": _wrapper(),
    "nice": _wrapper("n adjustment"),
    "ionice": _wrapper("c n p class classdata"),
    "chrt": _wrapper("T P D", skip=1),
    "taskset": _wrapper(skip=1),
    "timeout": _wrapper("k s kill-after signal", skip=1),
    "stdbuf": _wrapper("i o e input output error"),
    "time": _wrapper("f o format output"),
    "unbuffer": _wrapper(),
    "strace": _wrapper("o e p s u a b E P X S O I", assigns=True),
    "ltrace": _wrapper("o e p s u a n l x"),
    "gdb": _wrapper("x ex iex"),
    "valgrind": _wrapper(),
    "unshare": _wrapper("S G R setuid setgid root", folder="w wd"),
    "nsenter": _wrapper("t S G target setuid setgid"),
    "chroot": _wrapper("userspec groups", skip=1),
    "fakeroot": _wrapper("l s i b"),
    "proot": _wrapper("r b w q k 0 S R"),
    "bwrap": _wrapper(),
    "firejail": _wrapper(),
    "systemd-run": _wrapper(
        "p E u M t unit property setenv slice uid gid description", folder="working-directory"
    ),
    "systemd-inhibit": _wrapper("what who why mode"),
    "caffeinate": _wrapper("t w"),
    "dbus-run-session": _wrapper("config-file dbus-daemon"),
    "cross-env": _wrapper(assigns=True),
    "xvfb-run": _wrapper("e f n p s w"),
    "busybox": _wrapper(),
    "toybox": _wrapper(),
    "exec": _wrapper("a"),
    "builtin": _wrapper(),
    "coproc": _wrapper(),
    "noglob": _wrapper(),
    "nocorrect": _wrapper(),
    "start-stop-daemon": _wrapper(),
    "flock": _wrapper("w E timeout conflict-exit-code", skip=1, script="c command"),
    "su": _wrapper("s g G shell group supp-group w", skip=9, script="c command session-command"),
    "runuser": _wrapper("s g G u shell group supp-group user w", script="c command session-command"),
    "script": _wrapper("E I O B T m o t", skip=9, script="c command"),
    "nix-shell": _wrapper("A p I arg argstr", skip=9, script="run command"),
    "watch": _wrapper("n d interval", joins=True),
    "ssh": _wrapper("b c D E e F I i J L l m O o p Q R S W w B P", skip=1, joins=True),
    "mosh": _wrapper(skip=1, joins=True),
    "entr": _wrapper("z"),
    "parallel": _wrapper(
        "j I a d N n L S jobs max-args delimiter arg-file colsep joblog retries timeout delay"
    ),
    "dotenv": _wrapper("e f"),
    "xargs": _wrapper(
        "I n P L d E s a max-args max-procs max-lines max-chars delimiter eof arg-file replace"
    ),
}


_FETCHED = words("cross-env dotenv")
_PLAIN_FETCH = words("-y --yes --no-install --no")


def fetched(arguments: Sequence[str]) -> tuple[str, ...]:
    """The command line of a well-known wrapper that `npx` starts; empty for everything else."""
    at = next((at for at, word in enumerate(arguments) if word not in _PLAIN_FETCH), len(arguments))
    return tuple(arguments[at:]) if at < len(arguments) and arguments[at] in _FETCHED else ()


def unwrap(name: str, arguments: Sequence[str]) -> Inner | None:
    """The command inside `name arguments…`; None when there is none."""
    wrapper = WRAPPERS[name]
    assignments: list[tuple[str, str]] = []
    folders: list[str] = []
    skip = wrapper.skip
    at = 0
    options = True
    while at < len(arguments):
        argument = arguments[at]
        if options and argument == "--":
            options = False
        elif options and argument.startswith("-") and len(argument) > 1:
            script, consumed = _option(wrapper, arguments, at)
            if script is not None:
                if name == "env":
                    script = _as_if_typed(script, arguments[at + consumed + 1 :])
                return Inner((), value(script), tuple(assignments), tuple(folders))
            folders += _folder(wrapper, arguments[at : at + consumed + 1])
            at += consumed
        elif wrapper.assigns and (match := ASSIGNMENT.fullmatch(argument)):
            assignments.append((match[1], match[3]))
        elif argument == UNKNOWN and not skip:
            pass  # an option whose name is not known, or nothing
        elif skip:
            skip -= 1
        else:
            break
        at += 1
    rest = tuple(arguments[at:])
    if name == "dotenv" and rest[:1] == ("run",):  # the one of Python has words of its own
        rest = rest[2:] if rest[1:2] == ("--",) else rest[1:]
    if not rest:
        return None
    if wrapper.joins:
        return Inner((), value(" ".join(rest)), tuple(assignments), tuple(folders))
    return Inner(rest, None, tuple(assignments), tuple(folders))


def _folder(wrapper: Wrapper, option: Sequence[str]) -> list[str]:
    """The folder that an option, with its value, says the command runs in."""
    if not wrapper.folder:
        return []
    first = option[0]
    if first.startswith("--"):
        name, _, attached = first[2:].partition("=")
    else:
        name = next((letter for letter in first[1:] if letter in wrapper.valued), "")
        attached = first.partition(name)[2] if name else ""
    return [attached or "".join(option[1:2])] if name in wrapper.folder else []


def _as_if_typed(text: str, rest: Sequence[str]) -> str:
    """What `env -S text rest…` does: it splits the text itself, and goes on with all words as its own."""
    quoted = ["'" + value(word).replace("'", "'\\''") + "'" for word in rest]
    return " ".join(["env", text.replace(r"\_", " "), *quoted])


def _option(wrapper: Wrapper, arguments: Sequence[str], at: int) -> tuple[str | None, int]:
    """Shell text that an option carries, if any, and how many further arguments it takes."""
    argument = arguments[at]
    following = arguments[at + 1] if at + 1 < len(arguments) else ""
    if argument.startswith("--"):
        option, equals, attached = argument[2:].partition("=")
        if option in wrapper.script:
            return (attached, 0) if equals else (following, 1)
        return None, int(option in wrapper.valued and not equals)
    letters = argument[1:]
    for place, letter in enumerate(letters):
        attached = letters[place + 1 :]
        if letter in wrapper.script:
            return (attached, 0) if attached else (following, 1)
        if letter in wrapper.valued:
            return None, int(not attached)
    return None, int(letters in wrapper.valued)


@dataclass(frozen=True, slots=True)
class ShellCall:
    """How a shell was started: text to run, or a file to read, and the arguments it gets."""

    script: str | None = None
    file: str | None = None
    reads_input: bool = False
    positional: tuple[str, ...] = ()
    name: str = ""
    """What `$0` is in `script`, when it was given."""


_SHELL_VALUED = frozenset({"--rcfile", "--init-file", "-O", "+O", "-o", "+o"})


def shell_call(arguments: Sequence[str]) -> ShellCall:
    """What `sh arguments…` would run."""
    at = 0
    takes_script = reads_input = False
    while at < len(arguments):
        argument = arguments[at]
        if argument in ("--", "-"):
            at += 1
            break
        if argument in _SHELL_VALUED:
            at += 2
            continue
        if argument in ("--command",):
            takes_script = True
        elif argument.startswith("--") or argument == UNKNOWN:
            pass
        elif argument[:1] in ("-", "+") and len(argument) > 1:
            takes_script |= argument[0] == "-" and "c" in argument
            reads_input |= argument[0] == "-" and "s" in argument
            at += int(argument.endswith(("o", "O")))
        else:
            break
        at += 1
    rest = tuple(arguments[at:])
    if takes_script:
        return ShellCall(script=value(rest[0]) if rest else "", positional=rest[2:], name="".join(rest[1:2]))
    if reads_input or not rest:
        return ShellCall(reads_input=True, positional=rest)
    return ShellCall(file=rest[0], positional=rest[1:])
