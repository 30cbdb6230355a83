"""Programs as data: one file a family, read by `agent.safety.programs.table`."""
