"""One module per subcommand of `hermes`."""
