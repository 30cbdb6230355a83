"""Commands that run by key, palette or slash."""
