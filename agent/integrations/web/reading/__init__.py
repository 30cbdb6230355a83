"""Reading what was fetched: kinds, character sets, pages, documents, feeds, passages."""
