"""Language servers: what is newly wrong after an edit."""
