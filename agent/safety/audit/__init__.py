"""The log of the gate's decisions: writing, checking and reading it."""
