"""The coverage of undo for a repository in which a command works: one fact, for whoever decides about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.workspace.checkpoints.entries import Coverage
from agent.workspace.repository import common_folder, git_folder, top_folder

NO_REPOSITORY = "there is no repository"
ABOVE = "the repository begins above the workspace"
ELSEWHERE = "the repository of this work tree lies outside of the workspace"
UNKEPT = "what happens to files is not kept"


@dataclass(frozen=True, slots=True)
class GitCoverage:
    """Whether a step takes back what git commands do to one repository."""

    state: bool
    """HEAD, refs, reflogs, stash, the index, settings, hooks, and what is under way."""
    history: bool
    """Commits and contents that nothing names any more, whatever git clears away."""
    reason: str = ""
    """Why not all of it, as a clause for a person; empty where all is."""

    @property
    def whole(self) -> bool:
        """Whether `git reset --hard`, `rebase`, `branch -D`, `stash drop` and their like can be undone."""
        return self.state and self.history


def git_coverage(workspace: Path, folder: Path, coverage: Coverage | None) -> GitCoverage:
    """What undo covers of the repository around `folder`; both paths are resolved.

    `coverage` is that of the recorder of `workspace`; None where steps are not kept. What leaves the
    machine (`git push`) and other work trees are never covered. Looks at a few names on the disk;
    never raises.
    """
    if coverage is None:
        return GitCoverage(state=False, history=False, reason=UNKEPT)
    try:
        top = top_folder(folder)
        git = git_folder(top) if top is not None else None
        if top is None or git is None:
            return GitCoverage(state=False, history=False, reason=NO_REPOSITORY)
        place = common_folder(git).resolve()
        if not top.is_relative_to(workspace):
            return GitCoverage(state=False, history=False, reason=ABOVE)
        if not place.is_relative_to(workspace) or (top / ".git").is_symlink():
            return GitCoverage(state=False, history=False, reason=ELSEWHERE)
    except (OSError, RuntimeError) as error:
        return GitCoverage(state=False, history=False, reason=f"it cannot be looked at: {error}")
    state, history = place.relative_to(workspace).as_posix(), ""
    for item in coverage.left_out:
        path = item.path.rstrip("/")
        if path in (state, ".", "") or state.startswith(f"{path}/"):
            return GitCoverage(state=False, history=False, reason=item.reason)
        if path == f"{state}/objects":
            history = f"its history {item.reason}"
        elif path.startswith(f"{state}/"):
            return GitCoverage(state=False, history=not history, reason=f"{path} {item.reason}")
    return GitCoverage(state=True, history=not history, reason=history)
