"""What the model is shown: prompt, context files, history, ledger."""
