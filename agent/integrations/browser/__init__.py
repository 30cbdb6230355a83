"""Browsers that run inside the sandbox: their start, their network access and their profile folders."""
