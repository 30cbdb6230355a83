"""Tool calls as models write them: assembled from pieces, found in text, repaired."""
