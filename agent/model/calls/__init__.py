"""Tool calls as models write them: assembled from pieces, extracted from text, repaired."""
