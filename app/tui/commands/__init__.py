"""Commands that run by key, palette or slash.

Each file `*_command.py` holds one command and declares it as `COMMAND`.
"""
