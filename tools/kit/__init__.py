"""Files, child processes and YAML: helpers for every part of the program that depend on none."""
