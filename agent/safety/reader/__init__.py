"""A reader of shell commands: it finds programs, arguments and files, as far as the text shows them."""
