"""The context of the model: prompt, context files, history, ledger."""
