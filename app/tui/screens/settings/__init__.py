"""Settings: the screen, and putting a change into effect."""
