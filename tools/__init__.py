"""Tools the model can call. They reach the engine only through `tools.context`."""


class ExplainedError(Exception):
    """An error whose message is one sentence with the cause and the fix, for the user and the model."""
