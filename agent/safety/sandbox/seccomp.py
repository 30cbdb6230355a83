"""The filter of system calls, as a program for the kernel's packet filter.

It refuses system calls that no developer's command needs and that attempts to escape use. Numbers and layouts
are those of the Linux ABI (`linux/seccomp.h`, `linux/filter.h`, `asm/unistd.h`).
"""

from __future__ import annotations

import errno
import platform
import struct
from functools import cache

# name: (x86_64, aarch64); None where the architecture has no such call.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
}
# Programs have an alternative if these do not exist.
_ABSENT: dict[str, tuple[int, int]] = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_CLONE, _UNSHARE, _SOCKET, _IOCTL = (56, 220), (272, 97), (41, 198), (16, 29)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x40000000

_NAMESPACES = 0x7E020000
_TIME_NAMESPACE = 0x80
_TIOCSTI, _TIOCLINUX, _TIOCCONS = 0x5412, 0x541C, 0x541D
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_RAW = 3

_LD, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000

Program = list[tuple[int, int, int, int]]


def supported(machine: str | None = None) -> bool:
    """Return whether the system call numbers of this machine's architecture are known."""
    return (machine or platform.machine()) in _ARCHITECTURES


@cache
def program(*, internet: bool, unix: bool, machine: str | None = None) -> bytes:
    """Return the filter as an array of `struct sock_filter`.

    `internet` and `unix` allow sockets of these families. Raises `KeyError` for unsupported machines.
    """
    index, architecture = _ARCHITECTURES[machine or platform.machine()]
    code: Program = [
        (_LD, 0, 0, 4),
        (_JEQ, 1, 0, architecture),
        # A call of another architecture has other numbers: none of them passes.
        (_RET, 0, 0, _ERRNO | errno.ENOSYS),
        (_LD, 0, 0, 0),
    ]
    if index == 0:
        code += [(_JGE, 0, 1, _X32), (_RET, 0, 0, _ERRNO | errno.ENOSYS)]
    for numbers, reply in ((_REFUSED, errno.EPERM), (_ABSENT, errno.ENOSYS)):
        for pair in numbers.values():
            if (number := pair[index]) is not None:
                code += _for(number, [_refuse(reply)])
    code += _for(_CLONE[index], _flags(0, _NAMESPACES))
    code += _for(_UNSHARE[index], _flags(0, _NAMESPACES | _TIME_NAMESPACE))
    code += _for(_IOCTL[index], _values(1, (_TIOCSTI, _TIOCLINUX, _TIOCCONS), errno.EPERM))
    code += _for(_SOCKET[index], _sockets(internet, unix))
    code.append((_RET, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *each) for each in code)


def _for(number: int, body: Program) -> Program:
    """Return instructions that run `body` only for the system call with this number."""
    return [(_JEQ, 0, len(body), number), *body]


def _refuse(reply: int) -> tuple[int, int, int, int]:
    return (_RET, 0, 0, _ERRNO | reply)


def _argument(index: int) -> tuple[int, int, int, int]:
    """Return the instruction that loads the lower half of an argument, which is all the kernel uses here."""
    return (_LD, 0, 0, 16 + 8 * index)


def _flags(index: int, mask: int) -> Program:
    return [_argument(index), (_JSET, 0, 1, mask), _refuse(errno.EPERM), (_RET, 0, 0, _ALLOW)]


def _values(index: int, values: tuple[int, ...], reply: int) -> Program:
    tests: Program = []
    for value in values:
        tests += [(_JEQ, 0, 1, value), _refuse(reply)]
    return [_argument(index), *tests, (_RET, 0, 0, _ALLOW)]


def _sockets(internet: bool, unix: bool) -> Program:
    """Return instructions for `socket`: Unix sockets, and internet sockets that are not raw, if allowed."""
    allow = (_RET, 0, 0, _ALLOW)
    code: Program = [_argument(0)]
    if unix:
        code += [(_JEQ, 0, 1, _AF_UNIX), allow]
    if internet:
        is_raw: Program = [
            _argument(1),
            (_AND, 0, 0, 0xF),
            (_JEQ, 0, 1, _SOCK_RAW),
            _refuse(errno.EPERM),
            allow,
        ]
        code += [(_JEQ, 1, 0, _AF_INET), (_JEQ, 0, len(is_raw), _AF_INET6), *is_raw]
        is_route: Program = [_argument(2), (_JEQ, 0, 1, 0), allow, _refuse(errno.EPERM)]
        code += [(_JEQ, 0, len(is_route), _AF_NETLINK), *is_route]
    return [*code, _refuse(errno.EAFNOSUPPORT)]
