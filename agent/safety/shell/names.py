"""Names of programs: the one a word stands for, and those the rules know."""

from __future__ import annotations

from functools import lru_cache

from agent.safety.shell.marks import GLOBS, UNKNOWN, pattern, words
from agent.safety.shell.wrappers import SHELLS, WRAPPERS

DELETERS = words("rm srm wipe trash rmtrash del grm unlink")
OWNERS = words("chmod chown chgrp chattr setfacl chflags gchmod gchown")
DISK_TOOLS = words(
    "wipefs fdisk sfdisk cfdisk gdisk sgdisk cgdisk parted mke2fs mkswap mkdosfs blkdiscard badblocks hdparm "
    "nvme cryptsetup pvcreate zpool diskutil newfs shred dd dcfldd dc3dd ddrescue sg_format partclone.restore"
)
WRITERS = words("tee cp mv install ln rsync truncate sed perl sponge scp")
POWER = words("shutdown reboot halt poweroff init telinit systemctl loginctl start rtcwake kexec")
KILLERS = words("kill killall killall5 pkill")

KNOWN = (
    DELETERS
    | OWNERS
    | DISK_TOOLS
    | WRITERS
    | POWER
    | KILLERS
    | SHELLS
    | frozenset(WRAPPERS)
    | {"find", "mkfs"}
)


_PROBES = ("ls", "cat", "make", "python3", "nginx", "x9", "node")


def possible_names(word: str) -> tuple[str, ...]:
    """The programs a marked first word may start: folders cut off, globs compared with known names."""
    name = word.rpartition("/")[2]
    if name.isascii():
        return (name,) if name else ()
    name = name.replace(UNKNOWN, "")
    if not any(mark in name for mark in GLOBS):
        return (name,) if name else ()
    return _globbed(name) if "/" in word else ()


@lru_cache(maxsize=256)
def _globbed(name: str) -> tuple[str, ...]:
    expression = pattern(name)
    if sum(expression.fullmatch(probe) is not None for probe in _PROBES) > 1:
        return ()  # nearly any program: nothing can be said
    return tuple(sorted(known for known in KNOWN if expression.fullmatch(known)))
