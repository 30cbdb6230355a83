"""Restoring files to an earlier position: planned, shown, carried out, and recorded as a step."""
