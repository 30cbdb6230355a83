"""The log of what the gate ruled: written, checked, read."""
