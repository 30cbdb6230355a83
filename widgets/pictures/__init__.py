"""Pictures in a terminal: as graphics where it has them, else as half blocks."""
