"""A reader of shell commands: programs, arguments and files as far as the text shows them."""
