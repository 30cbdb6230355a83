"""Files, child processes and YAML as every floor needs them; knows nothing else of the program."""
