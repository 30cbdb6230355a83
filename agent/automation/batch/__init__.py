"""Many tasks from a file: each a session in a folder of its own, resumable, under one ceiling."""
