"""Browsers that run inside our sandbox: their start, their network access and their profile folders."""
