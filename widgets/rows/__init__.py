"""Lists of rows with filters, and the text reader."""
