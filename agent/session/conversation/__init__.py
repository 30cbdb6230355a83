"""Sessions: opened, kept alive, announced to surfaces."""
