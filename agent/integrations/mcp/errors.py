"""The sentence for a server that cannot do what it was asked."""

from __future__ import annotations

from agent.errors import ExitCode, HermesError


class ServerError(HermesError):
    """A server failed. The text is one sentence with its name and the mend."""

    exit_code = ExitCode.UNREACHABLE

    def __init__(
        self, name: str, clause: str, mend: str = "", *, gone: bool = False, sign_in: bool = False
    ) -> None:
        if sign_in:
            mend = mend or f"sign in with `hermes mcp login {name}`"
        mend = mend or f"look at it with `hermes mcp probe {name}`"
        super().__init__(f"The MCP server {name} cannot do this: {clause}; {mend}.")
        self.clause = clause
        self.gone = gone
        """Whether it is no longer there, so that it has to be started anew."""
        self.sign_in = sign_in
