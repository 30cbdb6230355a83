"""Files, child processes and YAML for every part of the program, without depending on any."""
