"""The guard: a tiny shell beside Hermes that kills what Hermes started should Hermes die without a word.

`PR_SET_PDEATHSIG`, the obvious way, reaches only the direct child (children of
that child do not inherit it), fires when the *thread* that forked ends, and
needs either a helper program or Python code between fork and exec. A pipe is
simpler and does more: the kernel closes our end however we die, the guard reads
the end of file, and finds every descendant by its mark in the environment.
"""

from __future__ import annotations

import subprocess

from tools.terminal.process_tree import MARK

# Lines `+ group` and `- group` keep the list of groups, which is all there is without /proc.
_SCRIPT = """
groups=
while read -r sign group; do
  case $sign in
    +) groups="$groups $group" ;;
    -) rest=; for one in $groups; do [ "$one" = "$group" ] || rest="$rest $one"; done; groups=$rest ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
for round in 1 2 3; do
  for file in $(grep -ls "$1=$2[.]" /proc/[0-9]*/environ); do
    pid=${file#/proc/}
    kill -s KILL "${pid%/environ}"
  done
done
"""


class KillGuard:
    """The guard of one owner: of all processes whose mark begins with `owner` and a dot."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._process: subprocess.Popen[bytes] | None = None
        self._groups: set[int] = set()

    def add(self, group: int) -> None:
        """Watch over a process group. Starts the guard when it is not running."""
        self._groups.add(group)
        if self._process is None or self._process.poll() is not None:
            self._release()
            self._start()
        else:
            self._send(f"+ {group}\n")

    def remove(self, group: int) -> None:
        """A process group is gone."""
        if group in self._groups:
            self._groups.discard(group)
            self._send(f"- {group}\n")

    def close(self) -> None:
        """Let the guard kill whatever is left, and wait for it. Blocks; meant for a thread."""
        process, self._process = self._process, None
        if process is not None:
            try:
                process.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _release(self) -> None:
        """Let go of a guard that was killed."""
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except OSError:
                # What was still to be written has no reader any more.
                pass

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "hermes-guard", MARK, self._owner],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            # Without a guard commands still run; only the death of Hermes itself could leave some behind.
            self._process = None
            return
        self._send("".join(f"+ {group}\n" for group in sorted(self._groups)))

    def _send(self, lines: str) -> None:
        if self._process is None or self._process.stdin is None:
            return
        try:
            self._process.stdin.write(lines.encode())
            self._process.stdin.flush()
        except OSError:
            # The guard was killed; the next `add` starts a new one.
            pass
