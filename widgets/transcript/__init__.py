"""The conversation: a virtual widget over a document of blocks."""
