# Importing pathlib costs milliseconds at each command.
# ruff: noqa: PTH102, PTH103, PTH109, PTH120, PTH123, PTH211
"""The program that applies the sandbox to itself and then becomes the command.

It is run as `python -I -S` with the number of a descriptor and the command as arguments. The descriptor holds
the description made by `landlock.py`: a marshalled dict. Only the standard library is used, and as little as
possible, because each import costs time for every command. Any failure ends the program with code 125 before
the command has run.
"""

import ctypes
import errno
import marshal
import os
import signal
import sys

FAILED = 125
"""The exit code if the sandbox could not be applied."""
NOT_FOUND, NOT_RUN = 127, 126

_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = (
    1,
    2,
    4,
    8,
    4096,
    16384,
    1 << 18,
)
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_AT_SYMLINK_NOFOLLOW, _AT_EMPTY_PATH = 0x100, 0x1000
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_OPEN_TREE_CLONE, _MOVE_EMPTY_PATH = 1, 4
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 22, 24, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_OF_FILES = 1 | 2 | 4 | 1 << 14
"""The Landlock rights that a rule on a single file can have: execute, write, read, truncate."""
_KEPT_BY_ROOT = (0, 1, 3, 4)
"""The capabilities that root keeps: CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

_libc = ctypes.CDLL(None, use_errno=True)


def main():
    descriptor, command = int(sys.argv[1]), sys.argv[2:]
    with open(descriptor, "rb") as file:
        spec = marshal.load(file)
    try:
        if spec.get("spaces"):
            _enter_spaces(spec)
        elif spec.get("session"):
            os.setsid()
        if "links" in spec and not spec.get("spaces"):
            _enter_view(spec["links"])
        else:
            _restrict(spec)
    except OSError as error:
        os.write(2, f"hermes: the sandbox could not be drawn: {error}\n".encode())
        os._exit(FAILED)
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        os._exit(NOT_FOUND)
    except OSError as error:
        os.write(2, f"hermes: {command[0]}: {error.strerror}\n".encode())
        os._exit(NOT_RUN)


def _enter_spaces(spec):
    """Continue as a child in new namespaces. The outer process waits and ends with the same exit code."""
    user, group = os.geteuid(), os.getegid()
    flags = _NEWNS | _NEWPID | _NEWIPC | (0 if spec["network"] else _NEWNET)
    _call("unshare", flags if user == 0 else flags | _NEWUSER)
    if user != 0:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    if spec["mortal"]:
        _die_with_parent()
    status, report = os.pipe()
    os.set_inheritable(report, False)
    # Opened before the child mounts its own /dev, which this process sees appear in parts.
    null = os.open("/dev/null", os.O_RDWR)
    first = os.fork()
    if first == 0:
        os.close(status)
        _as_first_process(spec, report, null)
        return
    os.close(report)
    _let_go_of_streams(null)
    told = os.read(status, 2)
    if not told:
        _, state = os.waitpid(first, 0)
        os._exit(_code(state) or FAILED)
    if not told[1]:
        os.waitpid(first, 0)
    os._exit(told[0])


def _enter_view(links):
    """Enter a private mount namespace with links mounted over files; the next program applies the rest."""
    user, group = os.geteuid(), os.getegid()
    _call("unshare", _NEWNS if user == 0 else _NEWNS | _NEWUSER)
    if user != 0:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    folder = os.getcwd()
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    _lay_links(links)
    os.chdir(folder)


def _lay_links(links):
    """Mount each link over a file, so that opening the file opens the link's target."""
    for link, path in links:
        where = ctypes.c_int(_AT_FDCWD)
        flags = ctypes.c_uint(_OPEN_TREE_CLONE | _AT_SYMLINK_NOFOLLOW | os.O_CLOEXEC)
        tree = _syscall(_OPEN_TREE, where, _bytes(link), flags)
        # With the attributes that bubblewrap would set: it cannot change the mount of a link.
        attributes = (ctypes.c_uint64 * 4)(_ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, 0, 0, 0)
        size = ctypes.c_size_t(32)
        empty = ctypes.c_uint(_AT_EMPTY_PATH)
        _syscall(_MOUNT_SETATTR, ctypes.c_int(tree), b"", empty, ctypes.byref(attributes), size)
        _syscall(_MOVE_MOUNT, ctypes.c_int(tree), b"", where, _bytes(path), ctypes.c_uint(_MOVE_EMPTY_PATH))
        os.close(tree)


def _as_first_process(spec, report, null):
    """Mount the files that the command sees and start it; the parent stays as init of the namespace."""
    if spec["mortal"]:
        _die_with_parent()
    _mount_all(spec)
    if not spec["network"]:
        _loopback_up()
    command = os.fork()
    if command == 0:
        os.close(report)
        os.close(null)
        os.setsid()
        return
    _drop_capabilities()
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _let_go_of_streams(null)
    while True:
        try:
            process, state = os.wait()
        except ChildProcessError:
            os._exit(0)
        if process == command:
            others = _others_run()
            os.write(report, bytes([_code(state), others]))
            if spec["mortal"] or not others:
                os._exit(0)


def _others_run():
    """Reap processes that have ended; return whether any child process still runs."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _code(state):
    code = os.waitstatus_to_exitcode(state)
    return code if code >= 0 else 128 - code


def _let_go_of_streams(null):
    """Replace the standard streams with `null`, so that readers wait only for the command's end."""
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)


def _mount_all(spec):
    folder = os.getcwd()
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    # Sources are opened first, because a later mount may cover them.
    places = [
        (path, kind, _source(spec, path, source) if kind != "hide" else -1, is_folder)
        for path, kind, source, is_folder in spec["places"]
    ]
    devices = [(name, os.open(f"/dev/{name}", os.O_PATH | os.O_CLOEXEC)) for name in _DEVICES]
    if spec["terminal"]:
        devices.append(("console", os.open(spec["terminal"], os.O_PATH | os.O_CLOEXEC)))
    nothing = os.open(spec["nothing"], os.O_PATH | os.O_CLOEXEC)
    _set_read_only("/", True)
    sources = []
    for path, kind, source, is_folder in places:
        _make_mount_point(path, is_folder)
        if kind == "hide" and is_folder:
            _mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755")
            continue
        _bind(nothing if kind == "hide" else source, path)
        _set_read_only(path, kind != "write")
        if kind != "hide":
            sources.append(source)
    _lay_links(spec["links"])
    _mount_devices(devices)
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for path, kind, _, is_folder in places:
        if kind == "hide" and is_folder:
            _set_read_only(path, True, recursive=False)
    for descriptor in [nothing, *sources, *(each for _, each in devices)]:
        os.close(descriptor)
    # The current folder belongs to the old view until it is entered again.
    os.chdir(folder)


def _mount_devices(devices):
    _mount("tmpfs", "/dev", "tmpfs", _MS_NOSUID, "mode=0755")
    for name, descriptor in devices:
        _make_mount_point(f"/dev/{name}", False)
        _bind(descriptor, f"/dev/{name}")
        _set_read_only(f"/dev/{name}", False)
    for folder in ("pts", "shm"):
        os.mkdir(f"/dev/{folder}")
    _mount("devpts", "/dev/pts", "devpts", _MS_NOSUID | _MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    _mount("tmpfs", "/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777")
    for name, target in (("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd"), ("stdin", "fd/0")):
        os.symlink(target, f"/dev/{name}")
    os.symlink("fd/1", "/dev/stdout")
    os.symlink("fd/2", "/dev/stderr")


def _source(spec, path, source):
    """Return a descriptor for the file or folder that must be mounted at `path`."""
    if path == source:
        return _open_unchanged(path, spec["known"])
    return os.open(source, os.O_PATH | os.O_CLOEXEC)


def _open_unchanged(path, known):
    """Return a descriptor for `path`. Raises `OSError` if it is no longer the object that was inspected."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if known.get(path, (status.st_dev, status.st_ino)) != (status.st_dev, status.st_ino):
        raise OSError(errno.ESTALE, f"{path} is not what it was a moment ago")
    return descriptor


def _make_mount_point(path, is_folder):
    """Create a missing mount point. It can only be inside a folder that was mounted for this command."""
    if os.path.lexists(path):
        return
    try:
        if is_folder:
            os.makedirs(path)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444))
    except FileExistsError:
        # The sandbox of the next command is set up at the same time, in the same private folder.
        pass


def _restrict(spec):
    """Give up rights. From here on the process cannot regain any."""
    import resource

    for number, value in spec["limits"].items():
        resource.setrlimit(number, (value, value))
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if spec.get("drop"):
        _drop_capabilities()
    if "handled" in spec or spec.get("scope"):
        _landlock(spec)
    if "filter" in spec:
        _filter(spec["filter"])


def _landlock(spec):
    """Apply Landlock: rights in `handled` are refused unless a rule grants them.

    With `scope`, signals and abstract sockets to the outside are refused too.
    """
    scoped = 3 if spec.get("scope") else 0
    values = [spec.get("handled", 0), spec.get("handled_network", 0), scoped]
    # Older kernels reject a longer structure if its new fields are used, and accept it if they are 0.
    attributes = (ctypes.c_uint64 * 3)(*values)
    ruleset = _syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(24), ctypes.c_uint(0))
    known = spec.get("known", {})
    for path, rights in spec.get("rules", ()):
        try:
            descriptor = _open_unchanged(path, known)
        except FileNotFoundError:
            continue
        if os.fstat(descriptor).st_mode & 0o170000 != 0o040000:
            rights &= _OF_FILES
        rights &= spec["handled"]
        rule = rights.to_bytes(8, "little") + descriptor.to_bytes(4, "little", signed=True)
        if rights:
            _syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint(0))
        os.close(descriptor)
    _syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
    os.close(ruleset)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def _filter(code):
    prepared = _Program(len(code) // 8, code)
    _check(_libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(2), ctypes.byref(prepared)), "seccomp")


def _drop_capabilities():
    """Drop all capabilities permanently. Root keeps those in `_KEPT_BY_ROOT`."""
    is_root = os.geteuid() == 0
    kept = _KEPT_BY_ROOT if is_root else ()
    _libc.prctl(_PR_CAP_AMBIENT, ctypes.c_ulong(_PR_CAP_AMBIENT_CLEAR_ALL), 0, 0, 0)
    for number in range(64):
        if number not in kept:
            # Fails for capabilities that the kernel does not know, and for users who have none to drop.
            _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0)
    mask = sum(1 << number for number in kept)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)(mask, mask, 0, 0, 0, 0)
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(data)), "capset")


def _loopback_up():
    """Enable the loopback device, which is off in a new network namespace."""
    descriptor = _check(_libc.socket(2, 2, 0), "socket")
    request = ctypes.create_string_buffer(b"lo".ljust(16, b"\0") + (1).to_bytes(2, "little"), 40)
    _libc.ioctl(descriptor, ctypes.c_ulong(0x8914), request)
    os.close(descriptor)


def _die_with_parent():
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _bind(source, path):
    _mount(f"/proc/self/fd/{source}", path, None, _MS_BIND | _MS_REC)


def _mount(source, path, kind, flags, options=None):
    arguments = [_bytes(source), _bytes(path), _bytes(kind), ctypes.c_ulong(flags), _bytes(options)]
    _check(_libc.mount(*arguments), f"mount {path}")


def _set_read_only(path, value, recursive=True):
    attributes = (ctypes.c_uint64 * 4)(_ATTR_RDONLY if value else 0, 0 if value else _ATTR_RDONLY, 0, 0)
    where = ctypes.c_uint(_AT_RECURSIVE if recursive else 0)
    _syscall(
        _MOUNT_SETATTR,
        ctypes.c_int(_AT_FDCWD),
        _bytes(path),
        where,
        ctypes.byref(attributes),
        ctypes.c_size_t(32),
    )


def _prctl(option, value):
    _check(
        _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)),
        "prctl",
    )


def _call(name, flags):
    _check(getattr(_libc, name)(ctypes.c_int(flags)), name)


def _syscall(number, *arguments):
    return _check(_libc.syscall(ctypes.c_long(number), *arguments), f"system call {number}")


def _check(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _bytes(text):
    return None if text is None else os.fsencode(text)


def _write(path, text):
    with open(path, "w") as file:
        file.write(text)
