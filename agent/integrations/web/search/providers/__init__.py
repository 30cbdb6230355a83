"""One search service a file."""
