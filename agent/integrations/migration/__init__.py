"""Migration from another agent: its data is found, listed and copied.

The other agent's files are not changed.
"""
