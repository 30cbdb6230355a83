"""The project folder: detecting its changes and their authors, and undoing them, without any model."""
