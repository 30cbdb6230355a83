"""The project folder: detecting changes and who made them, and undoing changes, without any model."""
