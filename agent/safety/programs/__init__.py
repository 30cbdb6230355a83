"""Programs as data: one file for each family of programs, read by `agent.safety.programs.table`."""
