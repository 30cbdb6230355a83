"""What the model can call. Reaches the engine only through `tools.context`."""
