"""What a container does to the folders of the machine that are mounted into it.

`docker run -v /:/host alpine rm -rf /host` deletes the machine. So the command of a
container with mounts is followed as well, with its paths turned into those of the
machine; what stays inside the container is nobody's loss.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.safety.places import absolute, joined
from agent.safety.shell.host import Starter
from agent.safety.shell.judge import Judge
from agent.safety.shell.marks import UNKNOWN, words
from agent.safety.shell.values import Arguments, Output

ENGINES = words("docker podman nerdctl")

_FLAGS = words(
    "--rm --privileged --init --tty --interactive --detach --read-only --no-healthcheck --publish-all "
    "--quiet --oom-kill-disable --sig-proxy --disable-content-trust --replace --rmi --tls-verify --http-proxy"
)
"""Long options without a value; every other one takes one."""
_SHORT_FLAGS = re.compile(r"-[ditPq]+")
_DESTINATIONS = words("target destination dst")


@dataclass(frozen=True, slots=True)
class _Start:
    """A container that would be started."""

    mounts: tuple[tuple[str, str], ...]
    """(folder of the machine, folder in the container)."""
    folder: str
    argv: Arguments


def run_container(commands: Starter, arguments: Arguments, stdin: Output) -> Output:
    """Follow the command of `docker run`, where it reaches mounted folders."""
    state, shell = commands.shell.state, commands.shell
    start = _start(arguments, state.cwds[0])
    if start is None or not start.mounts or not start.argv:
        return None
    start = _in_new_root(start)
    outer = shell.judge
    with state.scope(merge=False):
        state.change_folder([start.folder])
        shell.judge = _Mounted(outer, start.mounts)
        try:
            commands.invoke(start.argv, stdin, functions=False)
        finally:
            shell.judge = outer
    return None


def _start(arguments: Arguments, cwd: str) -> _Start | None:
    rest = list(arguments)
    while rest and rest[0] not in ("run", "create"):
        rest.pop(0)
    if not rest:
        return None
    mounts: list[tuple[str, str]] = []
    entry: tuple[str, ...] = ()
    folder = "/"
    rest.pop(0)
    while rest and rest[0].startswith("-"):
        option, equals, value = rest.pop(0).partition("=")
        if option in _FLAGS or _SHORT_FLAGS.fullmatch(option):
            continue
        if not option.startswith("--") and len(option) > 2:
            cluster = re.match(r"-[ditPq]*", option)
            letter = option[cluster.end() if cluster else 1 :]
            option, value, equals = f"-{letter[:1]}", letter[1:], letter[1:]
        if not equals and rest:
            value = rest.pop(0)
        match option:
            case "-v" | "--volume":
                mounts += _volume(value, cwd)
            case "--mount":
                mounts += _mount(value, cwd)
            case "-w" | "--workdir":
                folder = value
            case "--entrypoint":
                entry = (value,)
            case _:
                pass
    return _Start(tuple(mounts), folder, (*entry, *rest[1:]))


def _in_new_root(start: _Start) -> _Start:
    """The same container behind `chroot folder`, when the folder is a mounted one."""
    if start.argv[0].rpartition("/")[2] != "chroot" or len(start.argv) < 3:
        return start
    root = absolute(joined(start.folder, start.argv[1]))
    mounts = tuple((source, "/") for source, target in start.mounts if absolute(target) == root)
    return _Start(mounts, "/", start.argv[2:]) if mounts else start


def _volume(text: str, cwd: str) -> list[tuple[str, str]]:
    """`-v source:target[:options]`; a source that is no path is a volume of its own."""
    source, _, rest = text.partition(":")
    target, _, options = rest.partition(":")
    if not source.startswith(("/", ".", "~", UNKNOWN)) or "ro" in options.split(","):
        return []
    return [(joined(cwd, source), target)]


def _mount(text: str, cwd: str) -> list[tuple[str, str]]:
    """`--mount type=bind,source=…,target=…`."""
    pairs = {part.partition("=")[0]: part.partition("=")[2] for part in text.split(",")}
    source = pairs.get("source") or pairs.get("src") or ""
    target = next((pairs[name] for name in _DESTINATIONS if name in pairs), "")
    bound = pairs.get("type", "volume") == "bind" and not {"readonly", "ro"} & set(pairs)
    return [(joined(cwd, source), target)] if bound and source and target else []


class _Mounted:
    """A judge inside a container: tells the one outside what happens to mounted folders."""

    def __init__(self, outer: Judge, mounts: Sequence[tuple[str, str]]) -> None:
        self._outer = outer
        self._mounts = [(source, absolute(target)) for source, target in mounts]

    def command(
        self,
        name: str,
        arguments: Sequence[str],
        cwds: Sequence[str],
        *,
        word: str = "",
        stdin: Sequence[str] | None = None,
    ) -> None:
        for cwd in cwds:
            for mapped in self._mapped(arguments, cwd):
                self._outer.command(name, mapped, ("/",))

    def _mapped(self, arguments: Sequence[str], cwd: str) -> list[tuple[str, ...]]:
        """The arguments as the machine sees them, once for every mount that they reach."""
        found: list[tuple[str, ...]] = []
        for source, target in self._mounts:
            places = [self._place(argument, cwd, source, target) for argument in arguments]
            if any(place is not None for place in places):
                options = (each for each in zip(arguments, places, strict=True))
                found.append(
                    tuple(
                        [
                            place or argument
                            for argument, place in options
                            if place or argument.startswith("-")
                        ]
                    )
                )
        return found

    @staticmethod
    def _place(argument: str, cwd: str, source: str, target: str) -> str | None:
        """A path in the container as one of the machine; None when it is none of this mount."""
        option, equals, value = argument.partition("=")
        if argument.startswith("-") or not argument:
            return None
        if equals and option.isalpha():  # dd if=… of=…
            place = _Mounted._place(value, cwd, source, target)
            return f"{option}={place}" if place else None
        path = absolute(joined(cwd, argument))
        below = f"{target.rstrip('/')}/"
        if path == target or below.startswith(f"{path.rstrip('/')}/"):
            return source
        return f"{source.rstrip('/')}/{path[len(below) :]}" if path.startswith(below) else None

    def written(self, path: str, cwds: Sequence[str], texts: Sequence[str] | None = None) -> None:
        for cwd in cwds:
            for source, target in self._mounts:
                if (place := self._place(path, cwd, source, target)) is not None:
                    self._outer.written(place, ("/",), texts)

    def unsettled(self, path: str, cwds: Sequence[str]) -> None:
        """What the container runs is not read."""

    def read(self, path: str, cwds: Sequence[str]) -> None:
        """Reading destroys nothing; that a container is started asks by itself."""

    def assigned(self, name: str, values: Sequence[str | tuple[str, ...]]) -> None:
        """Variables of the container are its own."""

    def consulted(self, name: str) -> None:
        """Variables of the container are its own."""

    def foreign(self, name: str) -> None:
        self._outer.foreign(name)

    def bomb(self, name: str) -> None:
        self._outer.bomb(name)

    def doubt(self, sentence: str) -> None:
        self._outer.doubt(sentence)
