"""The log of the gate's decisions: written, checked, read."""
