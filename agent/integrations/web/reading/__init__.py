"""Reading of fetched documents: file types, character sets, pages, feeds and passages."""
