"""The project folder: what changes in it, and who changed it."""
