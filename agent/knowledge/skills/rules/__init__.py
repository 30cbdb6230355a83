"""Rules of the scanner: one YAML file per category, each rule with tested examples."""
