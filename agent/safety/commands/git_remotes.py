"""git and the remotes of a repository: fetching from one the person has set up is plain work.

A fetch writes objects and the refs that stand for the remote, and nothing a person made.
Which program and which address it uses stands in `.git/config`, which is a guarded place.
So a remote that is named, not addressed, may be asked unasked; refspecs that write
branches, addresses, and options that name programs ask. Pulling merges: only a
fast-forward, which leaves no decision open, is plain work. Whether the network is open
is asked for on its own.
"""

from __future__ import annotations

import os
import re

from agent.safety.commands.call import Call, Opinion, ask, fine
from agent.safety.commands.scripts import held_there

READS = fine("reads the repository")
RECORDS = fine("changes the repository in a way that can be undone")
NETWORK = ask("reaches the network and may run configured programs")

_OPTIONS: dict[str, re.Pattern[str]] = {
    "fetch": re.compile(
        r"--(?:all|prune|tags|no-tags|quiet|verbose|dry-run|progress|no-progress|unshallow|depth=\d+|jobs=\d+"
        r"|multiple|no-recurse-submodules|recurse-submodules=no|atomic|porcelain|no-auto-gc|keep)|-[pqvtnjka4]+\d*"
    ),
    "ls-remote": re.compile(
        r"--(?:heads|branches|tags|refs|symref|quiet|get-url|exit-code|sort=[\w:.-]+)|-[htq]+"
    ),
    "pull": re.compile(
        r"--(?:ff-only|ff|no-edit|no-rebase|rebase(?:=true|=merges)?|quiet|verbose|prune|no-tags|tags|progress|autostash|stat|no-stat)|-[qvpr]+"
    ),
}
_REMOTE = re.compile(r"[A-Za-z][\w.-]*")
_BRANCH = re.compile(r"[A-Za-z0-9][\w./-]*|HEAD|refs/(?:heads|tags)/[\w./*-]+|pull/\d+/(?:head|merge)")


def reaches(call: Call, name: str) -> Opinion:
    """`git fetch`, `git ls-remote` and `git pull --ff-only` of a remote that is set up; others ask."""
    if name == "clone":
        return _clones(call)
    known = _OPTIONS.get(name)
    if known is None or not all(known.fullmatch(a) for a in call.arguments if a.startswith("-")):
        return NETWORK
    operands = call.operands()
    if name == "ls-remote" and operands and _FORGE.fullmatch(operands[0]):
        return READS
    if operands and not _is_set_up(call, operands[0]):
        return ask("reaches a place that is not set up as a remote")
    if not all(map(_BRANCH.fullmatch, operands[1:])):
        return ask("fetches in a way that may overwrite branches")
    return READS if name == "ls-remote" else RECORDS


CLONES = fine("fetches a repository of a public forge")
_FORGE = re.compile(
    r"https://(?:github\.com|gitlab\.com|bitbucket\.org|codeberg\.org)/[\w-]+/[\w.-]+?(?:\.git)?/?", re.ASCII
)
_CLONE_OPTIONS = re.compile(
    r"--(?:depth=\d+|branch=[\w./-]+|single-branch|no-single-branch|filter=(?:blob|tree):\w+|no-checkout|sparse"
    r"|quiet|progress|verbose|no-tags|bare|no-recurse-submodules|no-hardlinks)|-[qvn]+"
)


def _clones(call: Call) -> Opinion:
    """`git clone` of a public forge into a new folder: nothing in it runs by being fetched."""
    arguments, operands = list(call.arguments), list[str]()
    while arguments:
        argument = arguments.pop(0)
        if argument in ("--depth", "-b", "--branch"):
            if not arguments or not re.fullmatch(r"[\w./]+[\w./-]*", arguments.pop(0)):
                return NETWORK
        elif argument.startswith("-"):
            if not _CLONE_OPTIONS.fullmatch(argument):
                return NETWORK
        else:
            operands.append(argument)
    if not 1 <= len(operands) <= 2 or not _FORGE.fullmatch(operands[0]):
        return NETWORK
    folder = operands[1] if len(operands) == 2 else operands[0].rstrip("/").rpartition("/")[2]
    return call.changed([folder]) or CLONES


def _is_set_up(call: Call, remote: str) -> bool:
    """Whether a word is the name of a remote; a folder of this name would be one as well."""
    return _REMOTE.fullmatch(remote) is not None and not os.path.lexists(call.path(remote))


_SUBMODULE_OPTIONS = re.compile(
    r"--(?:init|recursive|progress|quiet|depth=\d+|jobs=\d+|single-branch|recommend-shallow|checkout)|-[qj]\d*"
)
_ADDRESS = re.compile(r"^\s*url\s*=\s*(.*?)\s*$", re.MULTILINE)
_RELATIVE = re.compile(r"\.\.?/[\w./-]+")


def submodules(call: Call) -> Opinion:
    """`git submodule`: what a project lists is fetched from public forges, as `git clone` would do.

    The addresses stand in `.gitmodules`, which is read; relative ones lie beside the remote of the project.
    """
    operands = call.operands("j")
    if not operands or operands[0] in ("status", "summary"):
        return READS
    options = [argument for argument in call.arguments if argument.startswith("-")]
    if operands[0] not in ("init", "update") or not all(map(_SUBMODULE_OPTIONS.fullmatch, options)):
        return NETWORK
    if ".gitmodules" in call.named or not call.inside or call.unsure:
        return NETWORK
    listed = held_there(call.path(".gitmodules"))
    if listed is None:
        return NETWORK if os.path.lexists(call.path(".gitmodules")) else RECORDS  # nothing would be fetched
    addresses = _ADDRESS.findall(listed)
    known = all(_FORGE.fullmatch(address) or _RELATIVE.fullmatch(address) for address in addresses)
    return CLONES if known and "!" not in listed else NETWORK
