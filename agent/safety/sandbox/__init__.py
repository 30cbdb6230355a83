"""The operating system's boundary around commands and scripts."""
