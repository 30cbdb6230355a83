"""Text that may come from outside: made safe, shortened, secrets taken out."""
