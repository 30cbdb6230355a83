"""Pictures in a terminal: as graphics if supported, else as half blocks."""
