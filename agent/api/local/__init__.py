"""The interface in the process of the engine: each part asks the engine's own services."""
