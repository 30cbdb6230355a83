"""Commands: what can be ordered by key, palette or slash, and what each does.

Each file `*_command.py` is one and declares itself as `COMMAND`.
"""
