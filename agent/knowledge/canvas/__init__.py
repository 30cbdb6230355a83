"""Canvases: documents shown next to the conversation, their storage and their isolation."""
