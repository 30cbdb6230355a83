"""Tool calls as models write them: put together, read out of text, repaired."""
