"""Programs as data: one YAML file for each family of programs, read by `agent.safety.programs.table`."""
