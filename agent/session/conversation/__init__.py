"""Opening sessions, keeping them in memory, and announcing them to surfaces."""
