"""Models: choosing one, and getting what it misses."""
