"""The rules of the hardline, one function per kind of program.

Each function checks one command line (marked text, with wrappers removed). It returns the damage that the
command would do, as the end of the sentence "it would …", or None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from agent.core.event_data import VerdictKind, VerdictPart
from agent.core.net.hosts import groups
from agent.safety.places import Places, is_disk, joined
from agent.safety.programs.table import programs
from agent.safety.reader.tree import UNKNOWN, words
from tools.kit.lazy_pattern import lazy_pattern

Judge = Literal["rule", "mode", "grant", "person", "nobody", "model"]
"""The source of a decision: a rule, the mode, an earlier permission, the user, `nobody` because no user
answered, or the side model (`model`), which only makes a verdict stricter.
"""

SEVERITY: tuple[VerdictKind, ...] = ("allow", "ask", "deny", "hardline")
"""The kinds of verdicts from the mildest to the strictest; of several the strictest counts."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about an action: allow, ask, deny, or refuse in every mode."""

    kind: VerdictKind
    reasons: tuple[str, ...] = ()
    parts: tuple[VerdictPart, ...] = ()
    """For commands, the verdict on each part, in order of execution."""
    once: bool = False
    """True if permission counts only once, whatever the user chooses."""
    advice: str = ""
    """A note with the side model's opinion, for the audit log; empty if it was not asked."""

    @property
    def network(self) -> bool:
        """Return whether any part of the command is known to use the network."""
        return any(part.network for part in self.parts)


DELETERS = words("rm srm wipe trash rmtrash del grm unlink")
OWNERS = words("chmod chown chgrp chattr setfacl chflags gchmod gchown")
WRITERS = words("tee cp mv install ln rsync truncate sed perl sponge scp")


@dataclass(frozen=True, slots=True)
class UndoCoverage:
    """The data that checkpoints record, so that undo can restore it."""

    git: bool = True
    """True if refs, HEAD, index, settings and hooks of `.git` are recorded, and objects protected from
    pruning.
    """
    largest: int = 100_000_000
    """The size in bytes of the largest recorded file; -1 if nothing is recorded."""


NO_UNDO = UndoCoverage(git=False, largest=-1)
"""The coverage if no steps are recorded."""


_LOOKED_UP = words(
    "google.com www.google.com cloudflare.com one.one.one.one dns.google python.org rust-lang.org golang.org "
    "npmjs.com www.npmjs.com debian.org ubuntu.org ubuntu.com kernel.org microsoft.com apple.com amazon.com "
    "wikipedia.org docker.io 1.1.1.1 1.0.0.1 8.8.8.8 8.8.4.4 9.9.9.9 localhost ::1 "
    "example.com example.org example.net www.example.com"
)
"""Hosts that commands may name without asking; the proxy still asks before it connects."""
_LOCAL = lazy_pattern(r"localhost|127(?:\.\d{1,3}){3}|::1|0\.0\.0\.0")


def is_known(host: str) -> bool:
    """Return whether a host is on a list of known hosts, or is this machine."""
    return is_local(host) or host in _LOOKED_UP or any(host in names for names in _read_names().values())


def is_local(host: str) -> bool:
    """Return whether a name or address refers to this machine."""
    return host.endswith(".localhost") or _LOCAL.fullmatch(host) is not None


def is_listed(host: str) -> bool:
    """Return whether a host is a public site for documentation or packages, where a request reveals nothing.

    Servers on this machine do not count, because a request may have any effect there.
    """
    listed = _read_names()
    return host in listed["documentation"] or host in listed["packages"]


@cache
def _read_names() -> dict[str, frozenset[str]]:
    return {kind: frozenset(names) for kind, names in groups().items()}


@dataclass(slots=True)
class ProgramCall:
    """A program with its arguments and current folder.

    It is never changed, but not frozen, because many of these objects are created.
    """

    name: str
    arguments: Sequence[str]
    cwd: str
    places: Places

    def operands(self, valued: str = "") -> list[str]:
        """Return the arguments that are neither options nor values of the short options `valued`."""
        for argument in self.arguments:
            if argument[:1] == "-":
                break
        else:
            return list(self.arguments)
        found: list[str] = []
        options, skip = True, False
        for argument in self.arguments:
            if skip:
                skip = False
            elif options and argument == "--":
                options = False
            elif options and argument.startswith("-") and len(argument) > 1:
                skip = not argument.startswith("--") and argument[-1] in valued
            else:
                found.append(argument)
        return found

    def options(self) -> Iterator[str]:
        """Yield the arguments that start with a dash, up to `--`."""
        for argument in self.arguments:
            if argument == "--":
                return
            if argument.startswith("-"):
                yield argument

    def has(self, letters: str, *long: str) -> bool:
        """Return whether one of the short options `letters`, or a long option or its prefix, is given."""
        for option in self.arguments:
            if option[:1] != "-":
                continue
            if option == "--":
                return False
            if option[1:2] == "-":
                given = option[2:].partition("=")[0]
                if given and any(name.startswith(given) for name in long):
                    return True
            elif any(letter in option[1:] for letter in letters):
                return True
        return False

    def value(self, short: str, *long: str) -> str | None:
        """Return the value of an option, None if not given: `-t value`, `-tvalue`, `--word value`,
        `--word=value`.

        A prefix of a long option counts as well, because many programs accept it.
        """
        for place, option in enumerate(self.arguments):
            if option[:1] != "-":
                continue
            following = self.arguments[place + 1] if place + 1 < len(self.arguments) else None
            if option[1:2] == "-":
                given, equals, value = option[2:].partition("=")
                if given in long or (len(given) > 2 and any(name.startswith(given) for name in long)):
                    return value if equals else following
            elif short and option[1:2] == short:
                if len(option) == 2:
                    return following
                if option[2] != "-":
                    return option[2:]
        return None

    def path(self, argument: str) -> str:
        """Return a marked argument as an absolute path, relative to the current folder."""
        return joined(self.cwd, argument)

    def disks(self, arguments: Sequence[str]) -> str | None:
        """Return the first raw disk or partition among the arguments; None if there is none."""
        return next((found for found in arguments if "dev" in found and is_disk(self.path(found))), None)


Rule = Callable[[ProgramCall], str | None]
_FILE_SYSTEMS = ("mkfs", "mke2fs", "newfs")


def forbidden(line: ProgramCall) -> str | None:
    """Return the damage that a command line would do, as the end of "it would …"; None if it may run."""
    rule = RULES.get(line.name)
    if rule is None and line.name.startswith(_FILE_SYSTEMS):
        rule = make_file_system
    if rule is not None and (reason := rule(line)):
        return reason
    # The arguments of a wrapper are checked again with the command inside it.
    program = programs().get(line.name)
    return None if program is not None and program.wraps is not None else any_program(line)


def is_ruled(name: str, arguments: Sequence[str]) -> bool:
    """Return whether `forbidden` may match this program, apart from its reading of secret files."""
    if name in RULES or name.startswith(_FILE_SYSTEMS):
        return True
    return any(argument[:1] in ("-", "o") for argument in arguments)


def delete(line: ProgramCall) -> str | None:
    """Return the damage of `rm -r` on paths that must not be lost, or of `rm` on single vital files."""
    # An unknown argument may be `-rf`.
    recursive = line.has("rR", "recursive") or any(UNKNOWN in argument for argument in line.arguments)
    if line.name in ("trash", "del", "rmtrash", "wipe"):
        recursive = True
    for operand in line.operands():
        path = line.path(operand)
        if recursive and (loss := line.places.disaster(path)):
            return f"delete {loss}"
        if loss := line.places.wreck(path):
            return f"delete {loss}"
    return None


def change_owner(line: ProgramCall) -> str | None:
    """Return the damage of `chmod -R`, `chown -R` and the like on system or home folders."""
    if not line.has("R", "recursive"):
        return None
    for operand in line.operands():
        if (loss := line.places.disaster(line.path(operand))) and UNKNOWN not in operand:
            return f"change owner or permissions of {loss}"
    return None


def move(line: ProgramCall) -> str | None:
    """Return the damage of `mv` of paths that must not be lost, or onto vital files and disks."""
    operands = line.operands("tSZ")
    target = line.value("t", "target-directory")
    sources = operands if target is not None else operands[:-1]
    for operand in sources:
        if loss := line.places.disaster(line.path(operand)) or line.places.wreck(line.path(operand)):
            return f"move {loss} away"
    return _overwritten(line, [target] if target is not None else operands[-1:])


def copy(line: ProgramCall) -> str | None:
    """Return the damage of `cp`, `install`, `ln` and `scp` onto paths that must not be overwritten."""
    target = line.value("t", "target-directory")
    return _overwritten(line, [target] if target is not None else line.operands("tSmog")[-1:])


def check_rsync(line: ProgramCall) -> str | None:
    """Return the damage of `rsync`: deleting in folders that must not be lost, or overwriting vital files."""
    target = line.operands("efBT")[-1:]
    deletes = line.has("", "delete", "delete-before", "delete-after", "delete-excluded", "del")
    if deletes and target and (loss := line.places.disaster(line.path(target[0]))):
        return f"delete {loss}"
    return _overwritten(line, target)


def write(line: ProgramCall) -> str | None:
    """Return the damage of `tee`, `truncate`, `sponge` and `shred` on vital files and disks."""
    return _overwritten(line, line.operands("sn"))


def edit(line: ProgramCall) -> str | None:
    """Return the damage of `sed -i` and `perl -i` on vital files."""
    if not line.has("i", "in-place"):
        return None
    return _overwritten(line, line.operands())


def _overwritten(line: ProgramCall, targets: Sequence[str | None]) -> str | None:
    for target in targets:
        if target and (loss := line.places.wreck(line.path(target))):
            return f"overwrite {loss}"
    return None


def any_program(line: ProgramCall) -> str | None:
    """Return the damage of any program with output options onto vital files, or that reads Hermes's keys."""
    reads = line.name not in _ONLY_NAMES
    for place, argument in enumerate(line.arguments):
        target = None
        if argument[:1] in "-o":
            if argument in _OUTPUT_OPTIONS:
                target = line.arguments[place + 1] if place + 1 < len(line.arguments) else None
            elif match := _OUTPUT_TO.match(argument):
                target = match[1]
        if target and (loss := line.places.wreck(line.path(target))):
            return f"overwrite {loss}"
        if reads and argument[:1] != "-" and line.places.hides(line.path(argument)):
            return "read Hermes' keys or stored conversations"
    return None


_OUTPUT_OPTIONS = frozenset({"-o", "-O", "-out", "--output", "--output-document", "--out"})
_OUTPUT_TO = lazy_pattern(r"(?:of|--output|--output-document|--out)=(.+)", re.DOTALL)
_ONLY_NAMES = words("echo printf ls stat test [ file : basename dirname realpath readlink git")


def make_file_system(line: ProgramCall) -> str | None:
    """Return the damage of `mkfs` and the like on a raw disk."""
    if line.has("hV", "help", "version"):
        return None
    disk = line.disks(line.operands())
    return _erased(line, disk)


def _erased(line: ProgramCall, disk: str | None) -> str | None:
    return f"erase the disk {line.path(disk)}" if disk else None


def partition(line: ProgramCall) -> str | None:
    """Return the damage of `fdisk`, `sfdisk`, `gdisk` and the like on a disk; None if they only list."""
    if line.has(
        "lpdJVhsFgT", "list", "dump", "json", "version", "help", "show-size", "getsz", "list-free", "verify"
    ):
        return None
    return _erased(line, line.disks(line.operands()))


def sgdisk(line: ProgramCall) -> str | None:
    """Return the damage of `sgdisk` on a disk, if an option changes something."""
    if not line.has("zZondgtcmGueRl", "zap", "zap-all", "clear", "new", "delete", "load-backup", "mbrtogpt"):
        return None
    return _erased(line, line.disks(line.arguments))


_PARTED_CHANGES = words("mklabel mktable mkpart rm resizepart resize name set rescue move")


def check_parted(line: ProgramCall) -> str | None:
    """Return the damage of `parted` on a disk, if a command changes something."""
    operands = line.operands("a")
    changes = _PARTED_CHANGES & set(operands[1:])
    return _erased(line, line.disks(operands)) if changes else None


def wipefs(line: ProgramCall) -> str | None:
    """Return the damage of `wipefs -a` or `-o` on a disk; without these it only lists."""
    if not line.has("ao", "all", "offset") or line.has("n", "no-act"):
        return None
    return _erased(line, line.disks(line.operands("ot")))


def discard(line: ProgramCall) -> str | None:
    """Return the damage of a program that erases the given disk."""
    return _erased(line, line.disks(line.operands()))


def badblocks(line: ProgramCall) -> str | None:
    """Return the damage of `badblocks -w` on a disk."""
    return _erased(line, line.disks(line.operands())) if line.has("w") else None


def hdparm(line: ProgramCall) -> str | None:
    """Return the damage of `hdparm` on a disk, with the options that erase."""
    erases = any(re.match(r"--(?:security-erase|trim-sector|write-sector|format)", o) for o in line.options())
    return _erased(line, line.disks(line.arguments)) if erases else None


def subcommand_disk(line: ProgramCall) -> str | None:
    """Return the damage of `nvme format`, `cryptsetup luksFormat`, `diskutil eraseDisk`, `zpool create`."""
    operands = line.operands()
    erasing = re.compile(
        r"format|sanitize|write-zeroes|write|dsm|luksFormat|erase|create|labelclear|erase\w+|zeroDisk|randomDisk"
        r"|secureErase|partitionDisk|reformat"
    )
    if not any(erasing.fullmatch(operand) for operand in operands[:2]):
        return None
    bare = [f"/dev/{operand}" for operand in operands if re.fullmatch(r"r?disk\d+(?:s\d+)?", operand)]
    return _erased(line, line.disks([*line.arguments, *bare]))


def volume(line: ProgramCall) -> str | None:
    """Return the damage of `lvremove`, `vgremove`, `zfs destroy` and `zpool destroy` on a volume."""
    operands = line.operands()
    named = line.name in ("lvremove", "vgremove") or operands[:1] == ["destroy"]
    if line.name == "lvm":
        named = operands[:1] in (["lvremove"], ["vgremove"])
    if not named or line.has("nt", "test", "help", "version"):
        return None
    return "delete a volume with everything in it"


def mdadm(line: ProgramCall) -> str | None:
    """Return the damage of `mdadm --zero-superblock` on a disk."""
    return _erased(line, line.disks(line.arguments)) if line.has("", "zero-superblock") else None


def pool(line: ProgramCall) -> str | None:
    return volume(line) or subcommand_disk(line)


def copy_raw(line: ProgramCall) -> str | None:
    """Return the damage of `dd` and the like onto a disk or vital file."""
    targets = [argument[3:] for argument in line.arguments if argument.startswith("of=")]
    if line.name == "ddrescue":
        targets += line.operands()[1:2]
    return _overwritten(line, targets)


_POWER_UNITS = lazy_pattern(
    r"(?:poweroff|reboot|halt|kexec|shutdown|rescue|emergency|soft-reboot)(?:\.target)?"
)


def power(line: ProgramCall) -> str | None:
    """Return the damage of `shutdown`, `reboot`, `halt` and `poweroff`."""
    if line.has("", "help", "version") or any(
        option in ("-?", "-w", "--wtmp-only") for option in line.options()
    ):
        return None
    if line.name == "shutdown" and line.has("c", "cancel", "show"):
        return None
    return "switch the machine off"


def run_level(line: ProgramCall) -> str | None:
    """Return the damage of `init 0`, `init 6`, `telinit 0` and of switching to single-user mode."""
    return "switch the machine off" if any(o in ("0", "6", "1", "s", "S") for o in line.operands()) else None


def service(line: ProgramCall) -> str | None:
    """Return the damage of `systemctl poweroff` and the like."""
    operands = line.operands("HMnopPst")
    if not operands:
        return None
    verb, targets = operands[0], operands[1:]
    if line.name != "start" and _POWER_UNITS.fullmatch(verb) and not verb.endswith(".target"):
        return "switch the machine off"
    if line.name == "start":
        verb, targets = "start", operands
    if verb in ("start", "isolate", "restart") and any(
        t.endswith(".target") and _POWER_UNITS.fullmatch(t) for t in targets
    ):
        return "switch the machine off"
    return None


def kill(line: ProgramCall) -> str | None:
    """Return the damage of `kill` with process -1, which means all processes."""
    arguments = list(line.arguments)
    if any(option in ("-l", "-L", "--list", "--table", "--help") for option in arguments):
        return None
    if arguments[:1] == ["-1"] and len(arguments) > 1:
        arguments = arguments[1:]  # SIGHUP, by number
    elif arguments[:1] in (["-s"], ["-n"], ["--signal"]):
        arguments = arguments[2:]
    return "kill every process" if "-1" in arguments else None


def kill_by_name(line: ProgramCall) -> str | None:
    """Return the damage of `killall5`, and of `pkill` with a pattern that matches every name."""
    if line.name == "killall5":
        return "kill every process"
    if line.name != "pkill":
        return None
    patterns = line.operands("GgPsutUFn")
    selects = any(option.startswith(("-g", "-P", "-s", "-t", "-u", "-U")) for option in line.options())
    if any(p in (".", ".*", "^", "", "$", ".+", "^.*", "^.*$") for p in patterns) and not selects:
        return "kill every process"
    return None


def stop_system(line: ProgramCall) -> str | None:
    """Return the damage of `rtcwake` and `kexec`, if they stop the running system."""
    if line.name == "rtcwake" and (line.value("m", "mode") or "") in ("off", "disable", "no", "show"):
        return "switch the machine off" if line.value("m", "mode") == "off" else None
    if line.name == "kexec":
        return "switch the machine off" if line.has("ef", "exec", "force") else None
    return None


def accept_context(line: ProgramCall) -> str | None:
    """Return the damage of `hermes context allow`, which accepts text that only the user may accept."""
    arguments = list(line.arguments)
    if line.name != "hermes":
        start = next((at for at, each in enumerate(arguments) if _HERMES.search(each)), None)
        if start is None:
            return None
        arguments = arguments[start + 1 :]
    if "context" not in arguments:
        return None
    said = arguments[arguments.index("context") + 1 :]
    if any(each == "allow" or UNKNOWN in each for each in said):
        return "let in text that only a person may let in"
    return None


_HERMES = lazy_pattern(r"(?:^|/)hermes(?:_launcher(?:\.py)?)?$|^app\.main$|(?:^|/)app/main\.py$")


RULES: dict[str, Rule] = (
    dict.fromkeys(DELETERS, delete)
    | dict.fromkeys(OWNERS, change_owner)
    | dict.fromkeys(("hermes", "python", "python3", "python3.11", "uv", "uvx", "pipx"), accept_context)
    | {
        "mv": move,
        "cp": copy,
        "install": copy,
        "ln": copy,
        "scp": copy,
        "rsync": check_rsync,
        "tee": write,
        "truncate": write,
        "sponge": write,
        "shred": write,
        "sed": edit,
        "perl": edit,
        "mkswap": make_file_system,
        "mkdosfs": make_file_system,
        "pvcreate": discard,
        "blkdiscard": discard,
        "sg_format": discard,
        "wipefs": wipefs,
        "fdisk": partition,
        "sfdisk": partition,
        "cfdisk": partition,
        "gdisk": partition,
        "cgdisk": partition,
        "sgdisk": sgdisk,
        "parted": check_parted,
        "badblocks": badblocks,
        "hdparm": hdparm,
        "nvme": subcommand_disk,
        "cryptsetup": subcommand_disk,
        "zpool": pool,
        "zfs": volume,
        "lvremove": volume,
        "vgremove": volume,
        "lvm": volume,
        "mdadm": mdadm,
        "diskutil": subcommand_disk,
        "dd": copy_raw,
        "dcfldd": copy_raw,
        "dc3dd": copy_raw,
        "ddrescue": copy_raw,
        "partclone.restore": write,
        "shutdown": power,
        "reboot": power,
        "halt": power,
        "poweroff": power,
        "init": run_level,
        "telinit": run_level,
        "systemctl": service,
        "loginctl": service,
        "start": service,
        "rtcwake": stop_system,
        "kexec": stop_system,
        "kill": kill,
        "killall5": kill_by_name,
        "pkill": kill_by_name,
    }
)
