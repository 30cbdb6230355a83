"""Programs as data: one file per family, read by `agent.safety.programs.table`."""
