"""Outside text: made safe, shortened, secrets removed."""
