"""Turns: the model and its tools, until there is an answer."""
