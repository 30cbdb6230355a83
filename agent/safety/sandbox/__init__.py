"""The sandbox that the operating system provides for commands and scripts."""
