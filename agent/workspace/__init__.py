"""The project folder: detecting changes and their authors, and undoing changes, without any model."""
