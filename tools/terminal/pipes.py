"""Both ends of a child's input and output: pipes, or a terminal."""

from __future__ import annotations

import os
import subprocess
import termios
from dataclasses import dataclass

from tools.terminal.backend import COLUMNS, ROWS, Launch


@dataclass(slots=True)
class Pipes:
    """Both ends of a child's input and output. `terminal` is the path of its terminal, or empty."""

    output: int
    child_output: int
    child_input: int
    input: int | None
    terminal: str = ""

    @classmethod
    def open(cls, launch: Launch) -> Pipes:
        if launch.pty:
            ours, theirs = os.openpty()
            termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
            keeps = os.dup(ours) if launch.keeps_input else None
            pipes = cls(ours, theirs, theirs, keeps, os.ttyname(theirs))
        else:
            ours, theirs = os.pipe()
            pipes = cls(ours, theirs, subprocess.DEVNULL, None)
            if launch.keeps_input:
                pipes.child_input, pipes.input = os.pipe()
        if pipes.input is not None:
            os.set_blocking(pipes.input, False)
        return pipes

    @classmethod
    def waiting(cls) -> Pipes:
        """Return the pipes of a shell that waits for its command on its input."""
        output, child_output = os.pipe()
        child_input, control = os.pipe()
        return cls(output, child_output, child_input, control)

    def close_theirs(self) -> None:
        """Close the ends that only the child needs, in this process."""
        for descriptor in {self.child_output, self.child_input}:
            if descriptor >= 0:
                os.close(descriptor)

    def close_ours(self) -> None:
        os.close(self.output)
        self.close_input()

    def close_input(self) -> None:
        if self.input is not None:
            os.close(self.input)
            self.input = None
