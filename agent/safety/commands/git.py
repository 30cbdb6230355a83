"""git, by subcommand and effect."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace

from agent.safety.commands import brought, git_remotes
from agent.safety.commands.call import Call, Opinion, Rule, ask, fine
from agent.safety.commands.git_programs import names_programs
from agent.safety.commands.git_remotes import NETWORK, READS, RECORDS
from agent.safety.commands.ground import TEMPORARY
from agent.safety.commands.secrets import is_secret
from agent.safety.places import absolute
from agent.safety.shell.marks import UNKNOWN, literal, words

_READING = words(
    "status log diff show rev-parse ls-files ls-tree blame annotate shortlog describe cat-file "
    "rev-list merge-base "
    "name-rev grep for-each-ref show-ref show-branch count-objects diff-tree diff-index diff-files "
    "range-diff cherry "
    "whatchanged check-ignore check-attr check-mailmap var version help fsck verify-commit "
    "verify-tag stripspace "
    "check-ref-format merge-tree get-tar-commit-id patch-id column hash-object diff-pairs last-modified"
)
_RECORDING = words("add commit merge cherry-pick revert init mv notes stage")
_NETWORK = words("fetch pull clone ls-remote remote-https fetch-pack send-pack request-pull svn p4 lfs")
_DESTROYING = {
    "clean": "deletes files that git does not keep",
    "filter-branch": "rewrites the history",
    "filter-repo": "rewrites the history",
    "prune": "removes what could still be brought back",
    "repack": "removes what could still be brought back",
    "update-ref": "moves branches directly",
    "replace": "replaces objects of the history",
    "read-tree": "changes the index directly",
    "checkout-index": "overwrites files",
    "send-email": "sends mail",
    "daemon": "opens the repository to the network",
    "instaweb": "opens the repository to the network",
    "difftool": "runs another program",
    "mergetool": "runs another program",
    "credential": "reads or changes stored passwords",
    "push": "pushes to a remote",
}

_HARMLESS_KEYS = re.compile(
    r"user\.(?:name|email)|color\..*|core\.(?:quotepath|autocrlf|abbrev|eol|safecrlf|filemode"
    r"|ignorecase)|advice\..*"
    r"|diff\.(?:algorithm|renames|context|colormoved|noprefix|mnemonicprefix|renamelimit)|log\.\w+"
    r"|commit\.(?:gpgsign|verbose)"
    r"|tag\.(?:gpgsign|sort)|init\.defaultbranch|pull\.(?:rebase|ff)|merge\.(?:conflictstyle|ff)"
    r"|rerere\.enabled|push\.default"
    r"|fetch\.prune|branch\.sort|column\.ui|status\.\w+|blame\.\w+|grep\.\w+|gc\.auto"
    r"|rebase\.(?:autostash|autosquash)"
)


def git(call: Call) -> Opinion:
    """What `git options subcommand arguments` does."""
    arguments = list(call.arguments)
    cwd = call.cwd
    while arguments and arguments[0].startswith("-"):
        option = arguments.pop(0)
        if option == "-C" and arguments:
            cwd = call.path(arguments.pop(0))
        elif option == "-c" and arguments:
            if reason := _setting(arguments.pop(0)):
                return ask(reason)
        elif option in ("--version", "--help", "-v", "-h", "--html-path", "--man-path", "--exec-path"):
            return READS
        elif option not in (
            "--no-pager",
            "-P",
            "--no-optional-locks",
            "--literal-pathspecs",
            "--no-advice",
            "--bare",
        ):
            return ask("sets where git finds its files or programs")
    if not arguments:
        return READS
    inner = replace(call, arguments=tuple(arguments[1:]), cwd=cwd)
    opinion = _subcommand(inner, arguments[0])
    if not opinion and not call.ground.confined and names_programs(absolute(inner.path("."))):
        return ask("works in a repository whose settings name programs to run")
    return opinion


def is_harmless_setting(key: str) -> bool:
    """Whether a setting of git starts nothing and sends nothing elsewhere."""
    return _HARMLESS_KEYS.fullmatch(key.lower()) is not None


def _setting(text: str) -> str | None:
    """What speaks against a setting given as `key=value`."""
    key, _, given = text.partition("=")
    if _HARMLESS_KEYS.fullmatch(key.lower()) and UNKNOWN not in text:
        return None
    if key.lower() == "core.pager" and given in ("cat", ""):
        return None
    if key.lower() == "core.fsmonitor" and given in ("false", "0"):
        return None
    return f"sets {key.replace(UNKNOWN, '…')}, which may run a program"


def _subcommand(call: Call, name: str) -> Opinion:
    if call.tells("--help"):
        return READS
    if name in _READING:
        return _reading(call, name)
    if name in _BY_ARGUMENTS:
        return _outside(call, _BY_ARGUMENTS[name](call))
    if name in _DESTROYING:
        if name == "clean" and call.has("n", "dry-run"):
            return READS
        if name == "push":
            return _push(call)
        return ask(_DESTROYING[name])
    if name == "lfs" and call.operands()[-1:] in (["ls-files"], ["status"], ["env"], ["version"]):
        return fine("reads the repository")
    if name in _NETWORK:
        return _outside(call, git_remotes.reaches(call, name))
    if name in _RECORDING:
        return _outside(call, _recording(call, name))
    return ask("is not known to be harmless: git " + name.replace(UNKNOWN, "…"))


def _outside(call: Call, opinion: Opinion) -> Opinion:
    """Changes count outside of the workspace as well."""
    if opinion or opinion is READS or call.inside or call.ground.private(call.cwd):
        return opinion
    return ask("changes a repository outside of the workspace")


def _reading(call: Call, name: str) -> Opinion:
    if _is_anybodys(call) and name not in ("version", "help", "stripspace", "check-ref-format", "column"):
        return ask("reads a repository whose settings anybody may have written")
    if call.may_mean("--ext-diff", "--textconv", "--filters", "--open-files-in-pager") or (
        name == "grep" and any(option.startswith("-O") for option in call.options())
    ):
        return ask("runs a program that is configured for the repository")
    if output := call.value("", "output"):
        return call.changed([output]) or READS
    if call.flag("--stdin-paths"):
        return ask("reads files that are not known here")
    named = [
        argument.partition("=")[2] for argument in call.options() if "=/" in argument or "=~" in argument
    ]
    if name != "log" and (opinion := call.revealed(named)):
        return opinion
    for argument in call.arguments:
        # `revision:path`, or a path of its own.
        if (
            not argument.startswith("-")
            and name not in ("log", "status", "ls-files", "check-ignore", "rev-parse")
            and is_secret("/" + argument.rpartition(":")[2])
        ):
            return ask("reads secrets")
    return READS


def _is_anybodys(call: Call) -> bool:
    """Whether the folder is one for temporary files: settings of a repository there may run programs."""
    path = absolute(call.path("."))
    outside = not call.inside and not call.ground.private(call.cwd)
    return outside and path.startswith(tuple(f"{folder}/" for folder in TEMPORARY))


_STRATEGIES = words("ort recursive resolve octopus ours subtree")


def _recording(call: Call, name: str) -> Opinion:
    strategy = call.value("s", "strategy") if name in ("merge", "cherry-pick", "revert") else None
    if strategy not in (None, *_STRATEGIES) and not (name != "merge" and strategy.startswith("-")):
        return ask("runs a program as the way to merge")
    runs = (
        "--template",
        "--separate-git-dir",
        "--exec",
        "--edit-by",
        *(["-x"] if name != "cherry-pick" else []),
    )
    if call.may_mean(*runs):
        return ask("may run configured programs")
    if (text := call.value("F", "file")) and (opinion := call.revealed([text])):
        return opinion
    if name == "add":
        return call.revealed(call.operands()) or RECORDS
    if name == "mv":
        return call.changed(call.operands()) or RECORDS
    return RECORDS


def _push(call: Call) -> Opinion:
    operands = call.operands("o")
    if call.has("f", "force", "force-with-lease", "force-if-includes", "mirror") or any(
        o.startswith("+") for o in operands[1:]
    ):
        return ask("overwrites the history of a remote")
    if call.has("d", "delete", "prune") or any(o.startswith(":") for o in operands[1:]):
        return ask("deletes branches of a remote")
    return ask("pushes to a remote")


def _branch(call: Call) -> Opinion:
    if call.has("DMCf", "force"):
        return ask("deletes or moves a branch even if work is lost")
    if call.flag("--edit-description"):
        return ask("opens an editor")
    return RECORDS


def _tag(call: Call) -> Opinion:
    if call.has("df", "delete", "force"):
        return ask("deletes or moves a tag")
    if (text := call.value("F", "file")) and (opinion := call.revealed([text])):
        return opinion
    return RECORDS


def _stash(call: Call) -> Opinion:
    operands = call.operands("m")
    if operands[:1] and operands[0] in ("drop", "clear"):
        return ask("throws stashed work away")
    return READS if operands[:1] and operands[0] in ("list", "show") else RECORDS


def _reset(call: Call) -> Opinion:
    if call.has("", "hard", "merge", "keep") or call.unsure:
        return ask("throws away changes that were not committed")
    return RECORDS


_REMOTE_BRANCH = re.compile(r"(?:origin|upstream)/[\w][\w./-]*")


def _checkout(call: Call) -> Opinion:
    """Branches are switched, files are overwritten."""
    loses = ask("throws away changes that were not committed")
    arguments = call.arguments
    if (
        call.has("fB", "force", "ours", "theirs", "merge", "pathspec-from-file")
        or "--" in arguments
        or call.has("p", "patch")
    ):
        return loses
    operands = call.operands("b")
    creates = call.has("bt", "track", "orphan", "detach")
    if call.has("t", "track") and len(operands) == 1 and _REMOTE_BRANCH.fullmatch(operands[0]):
        return RECORDS  # a new branch
    if len(operands) > (2 if creates else 1) or any(UNKNOWN in operand for operand in operands):
        return loses
    return RECORDS if creates or not any(_is_path(call, operand) for operand in operands) else loses


def _is_path(call: Call, operand: str) -> bool:
    if operand in (".", "..", "*") or operand.endswith(("/", "*")) or operand.startswith((":", "./", "../")):
        return True
    return re.search(r"\.[a-z][a-z0-9]{0,4}$", operand) is not None or os.path.lexists(call.path(operand))


def _switch(call: Call) -> Opinion:
    if call.has("fC", "force", "discard-changes", "force-create"):
        return ask("throws away changes that were not committed")
    return RECORDS


def _restore(call: Call) -> Opinion:
    if call.has("S", "staged") and not call.has("W", "worktree"):
        return RECORDS
    return ask("throws away changes that were not committed")


def _remove(call: Call) -> Opinion:
    if call.has("", "cached") or call.has("n", "dry-run"):
        return RECORDS
    everything = any(re.fullmatch(r"[.:/*]*(?:\(top\))?[.*]*", literal(each)) for each in call.operands())
    lossy = everything or call.has("f", "force") or call.unsure
    return ask("deletes files of the workspace") if lossy else RECORDS


def _remote(call: Call) -> Opinion:
    operands = call.operands("tm")
    if not operands or operands[0] == "get-url":
        return READS
    if operands[0] in ("show", "update", "prune"):
        return git_remotes.reaches(replace(call, arguments=tuple(operands[1:])), "fetch")
    return ask("changes where the repository is sent to")


_REBASES = re.compile(
    r"--(?:abort|continue|skip|quit|show-current-patch|onto|autosquash|no-autosquash|autostash|no-autostash"
    r"|keep-empty|rebase-merges|fork-point|no-fork-point|stat|no-stat|quiet|verbose|empty=\w+|committer-date-is-"
    r"author-date|ignore-date|update-refs|reapply-cherry-picks|no-ff|force-rebase)|-[qvnm]+"
)


def _rebase(call: Call) -> Opinion:
    """Commits are made anew, the old ones stay in the reflog; programs and editors ask."""
    options = [argument for argument in call.arguments if argument.startswith("-")]
    if all(map(_REBASES.fullmatch, options)) and not call.unsure:
        return RECORDS
    return ask("rewrites the history in a way that may run programs")


def _sparse(call: Call) -> Opinion:
    listing = call.operands()[:1] == ["list"]
    return READS if listing else ask("removes files from the folder, or brings them back")


def _maintenance(call: Call) -> Opinion:
    if call.operands()[:1] == ["run"] and all(o in ("--auto", "--quiet") for o in call.options()):
        return RECORDS
    return ask("removes what could still be brought back, or plans something to run later")


def _config(call: Call) -> Opinion:
    if call.flag("--global", "--system", "--file", "-f", "--blob") and not call.flag(
        "--get", "--list", "-l", "--get-all"
    ):
        return ask("changes settings of git for every repository")
    if call.flag("--edit", "-e"):
        return ask("opens an editor")
    operands = call.operands("f")
    if operands[:1] and operands[0] in ("list", "get"):
        return READS
    if operands[:1] == ["set"]:
        operands = operands[1:]
    if call.flag("--get", "--list", "-l", "--get-all", "--get-regexp", "--get-urlmatch"):
        return READS
    if len(operands) == 1 and not call.flag("--unset", "--unset-all", "--remove-section", "--add"):
        return READS
    reason = _setting("=".join(operands[:2])) if operands else "changes settings of the repository"
    return ask(reason) if reason else RECORDS


_INDEX_MARKS = re.compile(r"--(?:chmod=[+-]x|no-assume-unchanged|no-skip-worktree|(?:really-)?refresh)|-q")


def _index(call: Call) -> Opinion:
    """Marks of files that are kept already; contents stay as they are."""
    marks = [argument for argument in call.arguments if argument.startswith("-")]
    plain = marks and all(map(_INDEX_MARKS.fullmatch, marks))
    return RECORDS if plain else ask("changes the index directly")


def _tidy(call: Call) -> Opinion:
    """What git does by itself from time to time keeps everything that was reachable these two weeks."""
    plain = all(re.fullmatch(r"--(?:auto|quiet|aggressive|no-prune|force)|-q", a) for a in call.arguments)
    return RECORDS if plain else ask("removes what could still be brought back")


def _worktree(call: Call) -> Opinion:
    operands = call.operands("b")
    if operands[:1] == ["list"]:
        return READS
    if operands[:1] != ["add"] or len(operands) < 2 or call.has("fB", "force"):
        return ask("adds or removes a second copy of the work")
    if call.ground.below(call.path(operands[1])) and not call.unsure:
        return call.changed(operands[1:2]) or RECORDS
    return ask("puts a second copy of the work outside of the workspace")


def _bisect(call: Call) -> Opinion:
    operands = call.operands()
    if operands[:1] and operands[0] in ("log", "visualize", "view"):
        return READS
    return ask("runs another program") if operands[:1] == ["run"] else RECORDS


def _reflog(call: Call) -> Opinion:
    operands = call.operands()
    if operands[:1] and operands[0] in ("expire", "delete", "drop"):
        return ask("removes what could still be brought back")
    return READS


def _symbolic(call: Call) -> Opinion:
    return (
        READS
        if len(call.operands("m")) == 1 and not call.has("d", "delete")
        else ask("moves branches directly")
    )


def _archive(call: Call) -> Opinion:
    if call.may_mean("--remote", "--exec"):
        return NETWORK
    output = call.value("o", "output")
    return call.changed([output] if output else []) or READS


def _patches(call: Call) -> Opinion:
    folder = call.value("o", "output-directory")
    return call.changed([folder or "."]) or RECORDS


def _apply(call: Call) -> Opinion:
    if call.may_mean("--unsafe-paths", "--directory"):
        return ask("may change files outside of the workspace")
    if call.flag("--check", "--stat", "--numstat", "--summary") and not call.flag("--apply"):
        return READS
    operands = call.operands("pC")
    return next(filter(None, (brought.changes(call, file) for file in operands or [None])), RECORDS)


def _mail(call: Call) -> Opinion:
    """git am: commits made from patches."""
    if call.flag("--abort", "--continue", "--skip", "--quit", "--retry", "--resolved", "-r"):
        return RECORDS
    if call.flag("--show-current-patch"):
        return READS
    if call.may_mean("--directory", "--exclude", "--include", "--interactive") or call.has("i"):
        return ask("applies patches in a way that is not followed")
    operands = call.operands("pC")
    for file in operands or [None]:
        if file is not None and not os.path.isfile(call.path(file)):  # noqa: PTH113
            return brought.UNREAD
        if opinion := brought.changes(call, file):
            return opinion
    return RECORDS


def _bundle(call: Call) -> Opinion:
    operands = call.operands()
    if operands[:1] and operands[0] in ("verify", "list-heads"):
        return READS
    return call.changed(operands[1:2]) or RECORDS


_BY_ARGUMENTS: dict[str, Callable[[Call], Opinion]] = {
    "branch": _branch,
    "tag": _tag,
    "stash": _stash,
    "reset": _reset,
    "checkout": _checkout,
    "switch": _switch,
    "restore": _restore,
    "rm": _remove,
    "remote": _remote,
    "rebase": _rebase,
    "sparse-checkout": _sparse,
    "maintenance": _maintenance,
    "config": _config,
    "submodule": git_remotes.submodules,
    "update-index": _index,
    "gc": _tidy,
    "worktree": _worktree,
    "bisect": _bisect,
    "reflog": _reflog,
    "symbolic-ref": _symbolic,
    "archive": _archive,
    "format-patch": _patches,
    "apply": _apply,
    "am": _mail,
    "bundle": _bundle,
}

RULES: dict[str, Rule] = {"git": git}
