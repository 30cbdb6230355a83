"""A tree with everything that file systems and git can hold, and ways to change it."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

Seen = dict[str, tuple[str, int, bytes]]
"""Kind, mode and contents (or target, or names of the same file) of every path."""

NAMES = [
    b"plain",
    b"with space",
    b"-rf",
    b"new\nline",
    b"tab\tand\rreturn",
    "na\u00efve".encode(),
    "nai\u0308ve".encode(),
    "日本".encode(),
    b"latin-\xe9\xff",
    b"sjis-\x83\x5c",
    b'"quoted" $(x) `y` \\',
    b"*?[a]",
    b"Case",
    b"case",
    b"x" * 255,
    b".hidden",
    b"trailing. ",
    b".hermes-mine",
    b"\x1b[31mred",
]
# What only root can read is not covered, and said.
_CLOSED = 0o000 if os.geteuid() == 0 else 0o400
MODES = (0o644, 0o755, 0o600, 0o444, 0o4755, 0o2755, _CLOSED, 0o777)


def git(root: Path, *arguments: str) -> None:
    config = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    local = ("-c", "protocol.file.allow=always")
    subprocess.run(["git", *config, *local, *arguments], cwd=root, check=True, capture_output=True)


def plant(root: Path, outside: Path) -> None:
    """Make the tree. `outside` gets what links lead to."""
    outside.mkdir()
    (outside / "secret").write_text("not of this workspace")
    _repository(root)
    odd = root / "odd"
    odd.mkdir()
    for number, name in enumerate(NAMES):
        path = odd / os.fsdecode(name)
        path.write_bytes(b"contents of " + name)
        path.chmod(MODES[number % len(MODES)])
    for mode in MODES:
        (root / "modes").mkdir(exist_ok=True)
        (root / "modes" / f"{mode:o}").write_bytes(b"%o" % mode)
        (root / "modes" / f"{mode:o}").chmod(mode)
    links = root / "links"
    links.mkdir()
    for name, target in {
        "broken": "nowhere",
        "escaping": str(outside / "secret"),
        "loop": "loop",
        "folder": "../odd",
        "up": "../../..",
        "odd": os.fsdecode(b"\xff\n"),
        "long": "x" * 900,
    }.items():
        (links / name).symlink_to(target)
    hard = root / "hard"
    hard.mkdir()
    (hard / "one").write_text("both names")
    (hard / "two").hardlink_to(hard / "one")
    (outside / "shared").write_text("also outside")
    (hard / "shared").hardlink_to(outside / "shared")
    (root / "empty").mkdir()
    (root / "empty" / "deep").mkdir(mode=0o700)
    (root / "readonly").mkdir()
    (root / "readonly" / "file").write_text("in a folder nobody writes to")
    (root / "readonly").chmod(0o555)
    (root / "turns").mkdir()
    (root / "turns" / "folder").mkdir()
    (root / "turns" / "folder" / "inner").write_text("inner")
    (root / "turns" / "file").write_text("a file")
    (root / "turns" / "link").symlink_to("file")
    _times(root)
    _special(root)
    with (root / "sparse").open("wb") as file:
        file.truncate(900_000)
    (root / "binary").write_bytes(bytes(range(256)) * 300)


def _repository(root: Path) -> None:
    git(root, "init", "-q")
    (root / ".gitattributes").write_text(
        "*.txt text eol=crlf\n*.id ident\n*.flt filter=bad\n*.u16 working-tree-encoding=UTF-16LE\n"
    )
    (root / ".gitignore").write_text("ignored/\n*.log\n")
    (root / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    (root / "mixed.txt").write_bytes(b"one\ntwo\r\nthree\r")
    (root / "key.id").write_text("$Id$ here\n")
    (root / "x.u16").write_bytes("wide\n".encode("utf-16-le"))
    (root / "src").mkdir()
    for number in range(20):
        (root / "src" / f"m{number}.py").write_text(f"print({number})\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    (root / "key.id").unlink()
    git(root, "checkout", "--", "key.id")
    (root / "x.flt").write_text("unfiltered")
    (root / "ignored").mkdir()
    (root / "ignored" / "build.o").write_bytes(b"\0\1\2")
    (root / "trace.log").write_text("ignored too")
    (root / "untracked").write_text("never added")
    nested = root / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "file").write_text("nested")
    git(nested, "add", ".")
    git(nested, "commit", "-qm", "nested")
    git(root, "submodule", "add", "-q", str(nested), "module")


def _times(root: Path) -> None:
    times = root / "times"
    times.mkdir()
    for name, seconds in {"future": 4_000_000_000, "ancient": 1, "zero": 0}.items():
        (times / name).write_text(name)
        os.utime(times / name, (seconds, seconds))
    (times / "steady").write_text("one")


def _special(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server, suppress(OSError):
        server.bind(str(root / "socket"))


CHANGES = """
umask 022
echo more >>binary; printf 'new\\r\\n' >dos.txt; printf x >mixed.txt; echo y >>key.id; rm x.u16 x.flt
rm -rf ignored; echo x >trace.log; mv untracked renamed; mkdir made; echo z >made/z; mkdir -p made/a/b/c
for each in src/m1*; do echo changed >"$each"; done
rm src/m3.py; mv src/m4.py src/moved.py; chmod +x src/m5.py
cd odd
for each in * .h*; do case "$each" in *x) ;; *) chmod u+rw -- "./$each"; echo more >>"./$each";; esac; done
rm -f ./Case; cd ..
for each in modes/*; do chmod u+rw $each; echo x >>$each; chmod 640 $each; done
rm links/broken; ln -s elsewhere links/broken; rm links/loop; echo file >links/loop
rm links/folder; mkdir links/folder
rm hard/two; echo apart >hard/two; rm hard/shared; echo here >hard/shared
rmdir empty/deep empty; chmod 755 readonly; echo x >readonly/new; rm readonly/file
rm -r turns/folder; echo now >turns/folder; rm turns/file; mkdir -p turns/file/x
rm turns/link; mkdir turns/link
rm times/future; echo x >times/ancient
touch -r times/steady reference; printf two >times/steady; touch -r reference times/steady; rm reference
echo x | dd of=sparse bs=1 seek=500000 conv=notrunc 2>/dev/null
echo changed >nested/file; echo x >nested/new; echo x >module/file
"""


def look(root: Path) -> Seen:
    """Everything below a folder but what belongs to git and what is special, exactly."""
    found: Seen = {}
    inodes: dict[tuple[int, int], list[str]] = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        folders[:] = sorted(name for name in folders if name != b".git")
        for name in sorted([*folders, *files]):
            if name == b".git":
                continue
            full = os.path.join(folder, name)
            status = os.lstat(full)
            path = os.fsdecode(os.path.relpath(full, os.fsencode(root)))
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                found[path] = ("link", 0, os.readlink(full))
            elif stat.S_ISDIR(status.st_mode):
                found[path] = ("folder", mode, b"")
            elif stat.S_ISREG(status.st_mode):
                with open(full, "rb") as file:
                    found[path] = ("file", mode, file.read())
                if status.st_nlink > 1:
                    inodes.setdefault((status.st_dev, status.st_ino), []).append(path)
    for paths in inodes.values():
        if len(paths) > 1:
            found[f"hard links of {paths[0]}"] = ("names", 0, os.fsencode("\0".join(sorted(paths))))
    return found


def git_state(root: Path) -> Seen:
    """Every byte of every git folder."""
    found: Seen = {}
    for path in sorted(root.rglob(".git")):
        for each in [path, *sorted(path.rglob("*"))]:
            if each.is_symlink() or each.is_file():
                data = os.fsencode(os.readlink(each)) if each.is_symlink() else each.read_bytes()
                found[str(each.relative_to(root))] = ("file", each.lstat().st_mode, data)
    return found


def different(one: Seen, other: Seen) -> dict[str, tuple[object, object]]:
    """What tells two looks apart, for a message."""
    paths = one.keys() | other.keys()
    return {path: (one.get(path), other.get(path)) for path in paths if one.get(path) != other.get(path)}
