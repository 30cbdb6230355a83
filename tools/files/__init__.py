"""Reading, writing, patching and finding files."""
