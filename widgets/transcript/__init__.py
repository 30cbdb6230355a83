"""The conversation: one virtual widget over a document of blocks."""
