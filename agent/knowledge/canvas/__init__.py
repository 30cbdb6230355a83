"""Canvases: documents beside the conversation, where they are kept, how they are enclosed."""
