"""Programs that make, change, move and delete files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agent.safety.commands import brought, scraps
from agent.safety.commands.call import Call, Opinion, Rule, ask, fine
from agent.safety.commands.endless import FILLS_DISK, SOURCES, is_nowhere
from agent.safety.look import current
from agent.safety.shell.marks import GLOBS, UNKNOWN, literal
from agent.safety.shell.output import MADE_BY_MKTEMP

WRITES = fine("writes inside the workspace")
LISTED = fine("lists an archive")
EMPTIES = ask("destroys the contents of files")


def delete(call: Call) -> Opinion:
    """rm and its like: what a build makes again may go, everything else asks."""
    recursive = call.has("rR", "recursive")
    operands, reason = call.operands(), None
    for operand in operands:
        reason = call.ground.delete(call.path(operand), recursive=recursive)
        if reason and (recursive or not scraps.is_scrap(call, operand)):
            return ask(reason)
    if reason:
        return fine("deletes scraps, or what is not there")
    return fine("deletes what a build makes again") if operands else ask("deletes what is not known here")


def remove_folder(call: Call) -> Opinion:
    """rmdir takes empty folders only."""
    return call.changed(call.operands()) or fine("removes empty folders")


def move(call: Call) -> Opinion:
    operands = call.operands("tS")
    target = call.value("t", "target-directory")
    sources = operands if target is not None else operands[:-1]
    targets = [target] if target is not None else operands[-1:]
    for source in sources:
        path = call.path(source)
        own = path.startswith(MADE_BY_MKTEMP) or call.ground.inside(path) or call.ground.private(path)
        if not own:
            return ask(f"moves {literal(source)} away from outside of the workspace")
    for target in targets:
        path = call.path(target or "")
        if not (call.ground.inside(path) or call.ground.private(path)):
            return ask("moves files out of the workspace")
    if opinion := call.changed([*sources, *(t for t in targets if t)]) or _brought(call, sources, targets):
        return opinion
    return fine("moves files inside the workspace")


def _brought(call: Call, sources: Sequence[str], targets: Sequence[str | None]) -> Opinion | None:
    inside = True if call.flag("-t", "--target-directory") or len(sources) > 1 else None
    inside = False if call.flag("-T", "--no-target-directory") else inside
    for target in targets:
        for source in sources:
            if target and (opinion := brought.tree(call, source, target, inside=inside)):
                return opinion
    return None


def copy(call: Call) -> Opinion:
    operands = call.operands("tSmog")
    target = call.value("t", "target-directory")
    sources = operands if target is not None else operands[:-1]
    targets = [target] if target is not None else operands[-1:]
    if call.name == "install" and call.has("d", "directory"):
        return call.changed(operands) or WRITES
    if call.name == "install" and call.may_mean("--strip-program"):
        return ask("runs another program")
    empties = any(re.fullmatch(r"/dev/(?:null|zero|u?random|full)", source) for source in sources)
    if any(map(SOURCES.fullmatch, sources)) and not all(is_nowhere(target or "") for target in targets):
        return ask(FILLS_DISK)
    if empties and _are_lost(call, [target for target in targets if target]):
        return EMPTIES
    if call.has("rRa", "recursive", "archive") and (opinion := _with_home(call, sources)):
        return opinion
    if _starts_settings(call, sources, targets):
        return WRITES
    return call.revealed(sources) or call.changed(targets) or _brought(call, sources, targets) or WRITES


_SAMPLE = re.compile(r"\.env(?:\.\w+)*\.(?:example|sample|template|dist|defaults?|tpl)|env\.example")
_SETTINGS = re.compile(r"\.env(?:\.\w+)?")


def _starts_settings(call: Call, sources: Sequence[str], targets: Sequence[str | None]) -> bool:
    """Whether a sample becomes the settings of the project, which have none yet: no secret is in either."""
    if len(sources) != 1 or len(targets) != 1 or not targets[0]:
        return False
    source, path = sources[0].rpartition("/")[2], call.path(targets[0])
    if not (_SAMPLE.fullmatch(source) and _SETTINGS.fullmatch(path.rpartition("/")[2])):
        return False
    keeps = call.has("n", "no-clobber", "update") or not os.path.lexists(path)
    return keeps and path.isascii() and call.ground.below(path) and call.ground.inside(call.path(sources[0]))


def _with_home(call: Call, sources: Sequence[str]) -> Opinion | None:
    """What speaks against taking a copy of whole folders: the home has keys and passwords in it."""
    whole = any(call.ground.holds_home(call.path(source)) for source in sources if source)
    return ask("copies the home folder, with the keys in it") if whole else None


def _link_folder(call: Call) -> str:
    """The folder a symbolic link would lie in: relative targets count from there."""
    operands = call.operands("tS")
    folder = call.value("t", "target-directory")
    if folder is not None or len(operands) < 2:
        return call.path(folder or ".")
    place = call.path(operands[-1])
    is_folder = operands[-1].endswith("/") or len(operands) > 2 or Path(place).is_dir()
    return place if is_folder else place.rpartition("/")[0]


def link(call: Call) -> Opinion:
    """A link to outside makes inside and outside the same."""
    operands = call.operands("tS")
    sources = operands[:-1] if len(operands) > 1 else operands
    start = _link_folder(call) if call.has("s", "symbolic") else call.cwd
    for source in sources:
        path = source if source.startswith("/") else f"{start}/{source}"
        if not call.ground.inside(path):
            return ask("makes a link to outside of the workspace")
    return call.revealed(sources) or call.changed(operands[-1:]) or WRITES


def make(call: Call) -> Opinion:
    """mkdir, touch, tee, truncate and others whose operands are all written."""
    valued = {"mkdir": "mZ", "touch": "rtd", "mkfifo": "mZ"}.get(call.name, "")
    keeps = call.name not in ("tee", "sponge") or call.has("a", "append")
    nothing = call.stdin == ("",) or call.inputs == ("/dev/null",)
    if not keeps and nothing and _are_lost(call, call.operands()):
        return EMPTIES
    return call.changed(call.operands(valued)) or WRITES


def truncate(call: Call) -> Opinion:
    """truncate and fallocate: what a program makes again may be emptied, and what is new."""
    operands = call.operands("srz" if call.name == "truncate" else "loz")
    grows = (call.value("s", "size") or "").startswith("+") or call.name != "truncate"
    if call.name == "fallocate" and re.fullmatch(r"\d+[GTPE]i?B?|\d{10,}", call.value("l", "length") or ""):
        return ask("takes much of the disk")
    keeps = grows and not call.has("pcz", "punch-hole", "collapse-range", "zero-range")
    if not keeps and _are_lost(call, operands):
        return EMPTIES
    return call.changed(operands) or WRITES


_TEXTS = re.compile(
    r".*\.(?:py|pyi|js|mjs|cjs|jsx|tsx?|vue|svelte|go|rs|java|kts?|scala|c|h|cc|cpp|cxx|hpp|hh|m|mm|cs|fs|rb|php"
    r"|swift|lua|pl|r|jl|ex|exs|erl|hs|ml|clj|dart|sh|bash|zsh|sql|md|rst|tex|toml|ya?ml|json|xml|html?|s?css"
    r"|ini|cfg|conf|lock|gradle|ipynb|csv|tsv|parquet|db|sqlite3?|tf|proto|graphql)"
    r"|Makefile|Dockerfile|README|LICENSE",
    re.IGNORECASE,
)
"""Names of what people write."""


def _are_lost(call: Call, operands: Sequence[str]) -> bool:
    """Whether emptying the files would lose what nothing makes again.

    A folder stands for all files that a search finds in it.
    """
    for operand in operands:
        path = call.path(operand)
        name = operand.rpartition("/")[2]
        if UNKNOWN in path or call.ground.delete(path, recursive=False) is None:
            continue
        if name in ("__init__.py", "py.typed") and not Path(path).exists():
            continue
        there = None if current().missing(path) else Path(path)
        if (
            (there is not None and there.is_file() and there.stat().st_size > 0)
            or (there is not None and there.is_dir())
            or _TEXTS.fullmatch(literal(name))
            or any(mark in path for mark in GLOBS)
        ):
            return True
    return False


def split(call: Call) -> Opinion:
    if call.may_mean("--filter"):
        return ask("runs another program")
    operands = call.operands("abCln")
    if len(operands) > 2:
        return ask("is not known to be harmless: split")
    return call.revealed(operands[:1]) or call.changed(operands[1:] or ["x"]) or WRITES


def split_at(call: Call) -> Opinion:
    """csplit: where the pieces go is said by a prefix and by the form of the number behind it."""
    prefix = call.value("f", "prefix") or "xx"
    form = call.value("b", "suffix-format") or ""
    return call.revealed(call.operands("fbn")[:1]) or call.changed([f"{prefix}{form}"]) or WRITES


def own(call: Call) -> Opinion:
    """chmod inside the workspace; set-uid bits and owners ask."""
    if call.name not in ("chmod", "gchmod"):
        return ask("changes owners or special rights")
    operands = [a for a in call.arguments if not a.startswith("--") and not re.fullmatch(r"-[Rcfv]+", a)]
    mode = operands[0] if operands else ""
    if UNKNOWN in mode or re.fullmatch(r"[1-7][0-7]{3}|.*[-+=][rwxX]*[st].*", mode):
        return ask("sets special rights")
    if re.fullmatch(r"0*[0-3]?[0-7]{0,2}|0*[0-3][0-7]{2}|[ua]*(?:-[wx]*r|=[wx]*$).*", mode):
        return ask("takes away the right to read")
    if re.fullmatch(r"0?777|[ao]*\+[rx]*w[rx]*|0?666", mode) and not re.fullmatch(r"\+.*", mode):
        return ask("lets everybody write to files")
    return call.changed(operands[1:]) or fine("changes rights inside the workspace")


UNPACKS = fine("unpacks inside the workspace")
_TAR_RUNS = [
    "--to-command",
    "--checkpoint-action",
    "--use-compress-program",
    "-I",
    "--info-script",
    "--new-volume-script",
    "-F",
    "--rsh-command",
    "--rmt-command",
]


def tar(call: Call) -> Opinion:
    shows = re.compile(r"--checkpoint(?:=\d+|-action=(?:dot|bell))")
    arguments = [argument for argument in call.arguments if not shows.fullmatch(argument)]
    call = replace(call, arguments=tuple(arguments))
    if call.may_mean(*_TAR_RUNS) or any(
        re.match(r"-[A-Za-z]*[IF](?!.*=)", a) and not a.startswith("--") for a in arguments
    ):
        return ask("runs another program")
    mode = arguments[0] if arguments else ""
    letters = (
        mode if not mode.startswith("-") else "".join(a[1:] for a in arguments if re.match(r"-[A-Za-z]", a))
    )
    if call.has("P", "absolute-names") or ("P" in mode.partition("=")[0] and not mode.startswith("--")):
        return ask("may write outside of the workspace")
    if call.has("", "delete", "remove-files"):
        return ask("deletes files")
    noted = [value for name in ("index-file", "volno-file") if (value := call.value("", name))]
    if opinion := call.changed(noted):
        return opinion
    files = [a for a in arguments[1 if not mode.startswith("-") else 0 :] if not a.startswith("-")]
    archive = call.value("f", "file") or _tar_file(arguments)
    if "t" in letters or call.flag("--list"):
        return call.revealed(files) or LISTED
    folder = call.value("C", "directory") or "."
    if top := next((a.partition("=")[2] for a in arguments if a.startswith("--one-top")), ""):
        folder = top if top.startswith("/") else f"{folder}/{top}"
    if "x" in letters or call.flag("--extract", "--get"):
        strip = call.value("", "strip-components", "strip") or ""
        found = brought.bundle(call, archive, folder, strip=int(strip) if strip.isdecimal() else 0)
        return call.changed([folder]) or found or UNPACKS
    targets = [archive] if archive not in (None, "-") else []
    if opinion := _with_home(call, [file for file in files if file != archive]):
        return opinion
    return call.revealed(files) or call.changed([t for t in targets if t]) or fine("packs an archive")


def _tar_file(arguments: list[str]) -> str | None:
    for place, argument in enumerate(arguments[:-1]):
        if re.fullmatch(r"-?[A-Za-z]*f", argument):
            return arguments[place + 1]
    return None


def unpack(call: Call) -> Opinion:
    """unzip, gunzip and their like."""
    if call.name in ("7z", "7za", "unrar") and call.arguments[:1] not in (("l",), ("t",), ("x",), ("e",)):
        return ask("changes an archive, or deletes what it packs")
    if call.name in ("unzip", "7z", "7za", "unrar"):
        lists = call.name == "unzip" and call.has("lZvtp", "list")
        if lists or call.arguments[:1] in (("l",), ("t",)):
            return call.revealed(call.operands()) or LISTED
        folder = call.value("d") or next(
            (a[2:] for a in call.arguments if a.startswith("-o") and len(a) > 2), "."
        )
        folder = folder if call.name != "unzip" else call.value("d") or "."
        operands = call.operands("dxP")
        archive = next(iter(operands if call.name == "unzip" else operands[1:]), None)
        return call.changed([folder]) or brought.bundle(call, archive, folder) or UNPACKS
    if call.flag("-c", "--stdout", "--to-stdout", "-l", "--list", "-t", "--test"):
        return call.revealed(call.operands()) or fine("prints what is packed")
    return call.revealed(call.operands()) or call.changed(call.operands()) or WRITES


def pack(call: Call) -> Opinion:
    """zip."""
    moves = any(re.fullmatch(r"-[a-zA-Z0-9]*m[a-zA-Z0-9]*", option) for option in call.options())
    if moves or call.may_mean("-TT", "--unzip-command", "--move"):
        return ask("runs another program or deletes files")
    operands = call.operands()
    return (
        _with_home(call, operands[1:]) or call.revealed(operands[1:]) or call.changed(operands[:1]) or WRITES
    )


def synchronise(call: Call) -> Opinion:
    if call.may_mean("-e", "--rsh", "--rsync-path") or any(
        re.match(r"-[A-Za-z]*e", o) and not o.startswith("--") for o in call.options()
    ):
        return ask("runs another program")
    operands = call.operands("efBT")
    if any(re.match(r"[^/]*:", operand) for operand in operands) or call.may_mean("--files-from", "--daemon"):
        return ask("copies to or from another machine")
    if any(option.startswith(("--del", "--remove-source")) for option in call.options()):
        return ask("deletes files while it copies")
    if opinion := (
        _with_home(call, operands[:-1]) or call.revealed(operands[:-1]) or call.changed(operands[-1:])
    ):
        return opinion
    for source in operands[:-1]:
        inside = not source.endswith("/")
        if opinion := brought.tree(call, source, operands[-1], inside=inside):
            return opinion
    return WRITES


def copy_raw(call: Call) -> Opinion:
    """dd: `of=` is written, `if=` is read."""
    written = [a[3:] for a in call.arguments if a.startswith("of=")]
    read = [a[3:] for a in call.arguments if a.startswith("if=")]
    if any(re.match(r"/dev/(?!zero|null|u?random)", path) for path in (*read, *written)):
        return ask("reads or writes a device")
    endless = any(re.fullmatch(r"/dev/(?:zero|u?random)", path) for path in read)
    if endless and written and not any(re.match(r"count=\d", argument) for argument in call.arguments):
        return ask(FILLS_DISK)
    if "conv=notrunc" not in call.arguments and _are_lost(call, written):
        return EMPTIES
    return call.revealed(read) or call.changed(written) or WRITES


def destroy(call: Call) -> Opinion:
    return ask("destroys the contents of files")


def write_utility(call: Call) -> Opinion:
    return call.changed(call.operands()) or WRITES


def temporary(call: Call) -> Opinion:
    folder = call.value("p", "tmpdir")
    return call.changed([folder] if folder else []) or fine("makes a temporary file")


def patch(call: Call) -> Opinion:
    """patch follows paths in the patch, below the folder it runs in."""
    if call.flag("-p0") is None and not call.inside:
        return ask("changes files outside of the workspace")
    folder = call.value("d", "directory")
    output = call.value("o", "output")
    operands = call.operands("idopBzFDVrYg")
    file = call.value("i", "input") or next(iter(operands[1:]), None)
    targets = [path for path in (folder or ".", output, *operands[:1]) if path]
    if opinion := call.changed(targets) or brought.changes(call, file, folder or "."):
        return opinion
    return fine("changes files of the workspace")


RULES: dict[str, Rule] = (
    dict.fromkeys(("rm", "grm", "unlink", "trash", "rmtrash", "del"), delete)
    | dict.fromkeys(("mkdir", "touch", "tee", "mkfifo", "sponge"), make)
    | dict.fromkeys(("chmod", "gchmod", "chown", "chgrp", "chattr", "setfacl", "gchown", "chflags"), own)
    | dict.fromkeys(("tar", "bsdtar", "gtar"), tar)
    | dict.fromkeys(
        ("unzip", "7z", "7za", "unrar", "gunzip", "gzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "unzstd"),
        unpack,
    )
    | dict.fromkeys(("shred", "wipe", "srm"), destroy)
    | dict.fromkeys(("dos2unix", "unix2dos"), write_utility)
    | {
        "rmdir": remove_folder,
        "mv": move,
        "cp": copy,
        "install": copy,
        "ln": link,
        "truncate": truncate,
        "fallocate": truncate,
        "split": split,
        "csplit": split_at,
        "zip": pack,
        "rsync": synchronise,
        "dd": copy_raw,
        "mktemp": temporary,
        "patch": patch,
    }
)
