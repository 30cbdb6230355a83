"""Tools the model can call. They reach the engine only through `tools.context`."""
