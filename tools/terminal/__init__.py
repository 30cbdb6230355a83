"""Running commands: the `terminal` and `process` tools and their backends."""
