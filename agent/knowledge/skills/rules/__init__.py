"""Rules of the scanner: one YAML file a category, each rule with examples that a test runs."""
