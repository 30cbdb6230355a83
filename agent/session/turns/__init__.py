"""Turns: requests to the model and tool calls, until there is an answer."""
